"""Who judges, and that what was said is there when it is asked for again."""

import io
import shutil
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from rich.console import Console
from tests.builders import History, write_history
from tests.core.evidences import experiment
from tests.core.test_pairs import pair
from tests.lab.harness import Quiet
from upath import UPath

from dedup.errors import EXIT_ERROR
from dedup.experiment.spec import Expectation
from dedup.experiment.stages import Stage
from dedup.history.reports import keep, open_folder, recall
from dedup.history.stores import Place
from dedup.judgement.anomalies import Engine
from dedup.judgement.verdicts import Evidence, judge_alone
from dedup_lab import experiments, verifications
from dedup_lab.children import Children
from dedup_lab.judging import LOG, judge
from dedup_lab.results import Results

SENT = [(0, value) for value in range(1, 4)]
CLEAN = History(
    SENT,
    [(0, value, 0, 0, 0, value - 1, 0) for value in range(1, 4)],
    [(entry, 0, 0, entry, 0, 0, value) for entry, (_, value) in enumerate(SENT)],
)


def test_the_local_engine_and_the_oracle_judge_where_an_experiment_asks_for_it(tmp_path: Path) -> None:
    folder, work, children = tmp_path / "run", tmp_path / "work", Children()
    write_history(folder, CLEAN)
    try:
        (said,) = judge([folder], children, work, 60, lambda _text: None, locally=True)
    finally:
        children.close()
    assert (said.judge, said.spark) == (Engine.LOCAL, None)
    assert said.local is not None and said.oracle is not None
    assert not (work / LOG).exists(), "Spark was not started"
    keep(folder, said)
    assert recall(folder).local == said.local


@pytest.mark.parametrize(("arrivals", "sound"), [((0, 1), True), ((0, 5), False)])
def test_the_judge_that_gave_up_is_named_and_no_other(arrivals: tuple[int, int], sound: bool, tmp_path: Path) -> None:
    """Of a history that the local engine cannot read it was said that Spark did not verify it, which nobody asked."""
    received = [(arrival, 0, 0, entry, 0, 0, entry + 1) for entry, arrival in enumerate(arrivals)]
    write_history(tmp_path / "run", History([(0, 1), (0, 2)], [(0, 1, 0, 0, 0, 0, 0), (0, 2, 0, 0, 0, 1, 0)], received))
    children = Children()
    try:
        (said,) = judge([tmp_path / "run"], children, tmp_path / "work", 60, lambda _text: None, by_size=True)
    finally:
        children.close()
    assert (said.judge, said.said is not None) == (Engine.LOCAL, sound)
    told = [reason.text for reason in judge_alone(said, Expectation.EXACTLY_ONCE).reasons]
    silent = "the local engine did not verify this history; it has to judge every history"
    assert (silent in told, any("Spark" in each for each in told)) == (not sound, False)


@pytest.mark.parametrize("besides", [(), ("more//rows.csv",)])
def test_a_pair_in_a_store_that_cannot_be_fetched_spoils_no_other(besides: tuple[str, ...], tmp_path: Path) -> None:
    """Anyone may write into the store: a name that leads out of the folder is damage of that pair alone."""
    store = UPath(f"memory://bucket/{uuid4().hex}")
    rows = {"sent.csv": b"value,outcome\n1,ok\n", "received.csv": b"partition,position,value\n0,0,1\n"}
    for name, content in [*rows.items(), *((name, b"") for name in besides)]:
        store.fs.pipe_file(f"{store.path}/{name}", content)
    children = Children()
    try:
        folders: list[Place] = [store, pair(tmp_path, *(rows[name].decode() for name in ("sent.csv", "received.csv")))]
        theirs, ours = judge(folders, children, tmp_path / "work", 60, lambda _text: None, by_size=True)
    finally:
        children.close()
    assert ours.said is not None
    assert (theirs.said is not None, theirs.problem is None) == (not besides, not besides)
    assert not besides or f"{store}: got an object called 'more//rows.csv'" in str(theirs.problem)


def test_the_judges_of_an_interrupted_verification_end_before_their_folder_goes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark spills until it is ended: what it wrote while its folder was removed stayed."""
    codes: list[int | None] = []

    def judging(_folders: object, children: Children, work: Path, *_: object, **__: object) -> list[Evidence]:
        judge = children.start("a judge", [sys.executable, "-c", "import time; time.sleep(600)"], work / LOG)
        remove = shutil.rmtree

        def removed(folder: Path, ignore_errors: bool = False) -> None:
            codes.append(judge.code())
            remove(folder, ignore_errors)

        monkeypatch.setattr(shutil, "rmtree", removed)
        raise KeyboardInterrupt

    write_history(tmp_path / "run", CLEAN)
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr(verifications, "judge", judging)
    ask = partial(verifications.verify, expect=None, alone=None, trust_csv=False, as_json=False, findings=None)
    with pytest.raises(KeyboardInterrupt):
        ask([tmp_path / "run"], console=Console(file=io.StringIO()))
    assert codes == [-signal.SIGKILL] and not [*temporary.iterdir()]


def test_a_log_that_a_reason_names_is_there_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of two oracles, one of which ended without an answer."""

    def judging(folders: Sequence[Path], _children: object, work: Path, *_: object, **__: object) -> list[Evidence]:
        for number in range(2):
            (work / f"oracle-{number}.log").write_text("no memory")
        (work / "pair-0").mkdir()
        problem = f"oracle 1: got exit code 1; no memory; read {work / 'oracle-1.log'}"
        return [open_folder(folder).model_copy(update={"problem": problem}) for folder in folders]

    write_history(tmp_path / "run", CLEAN)
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr(verifications, "judge", judging)
    ask = partial(verifications.verify, expect=None, alone=None, trust_csv=False, as_json=False, findings=None)
    assert ask([tmp_path / "run"], console=Console(file=(shown := io.StringIO()), width=500)) == EXIT_ERROR
    assert [each.name for each in temporary.glob("*/*")] == ["oracle-1.log"]
    assert str(*temporary.glob("*/*")) in shown.getvalue()


def test_spark_may_take_as_long_as_the_stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`timeouts.verify` is for every ten runs (docs/experiment.md)."""
    told: list[float] = []

    def judged(_paths: Any, _children: Any, _work: Any, timeout_s: float, *_: Any, **__: Any) -> list[Any]:
        told.append(timeout_s)
        return []

    monkeypatch.setattr(experiments, "judge", judged)
    for runs in (1, 25):
        asked = experiment(runs=runs)
        experiments.Finish(asked, Results(tmp_path), Quiet())(Children(), Stage.VERIFY)
    assert told == [asked.spec.timeouts.verify_s, asked.spec.timeouts.verify_s * 5]
