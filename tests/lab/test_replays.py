"""`dedup replay` without brokers: which run is meant, the experiment that is written, and both runs side by side."""

import io
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from tests.core.evidences import MESSAGES
from tests.lab.conftest import Command, one_line
from tests.lab.finished import AGAIN, BROKEN, CLEAN, finish

from dedup.experiment.plans import plan
from dedup.experiment.replays import again
from dedup.experiment.spec import load
from dedup_lab import experiments, replays
from dedup_lab.terminal.replays import show

RUN = "kafka-dedup-002"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder in which a run of the treatment lost a message."""
    return finish(tmp_path_factory.mktemp("kept") / "mine", BROKEN).root


@pytest.fixture
def mine(kept: Path, tmp_path: Path) -> Path:
    """The same, to be spoiled."""
    return Path(shutil.copytree(kept, tmp_path / "mine"))


def test_the_experiment_is_written_and_can_be_run(dedup: Command, kept: Path, tmp_path: Path) -> None:
    said = dedup("replay", kept, RUN, "--write", tmp_path / "again.yaml")
    assert said.code == 0 and f"dedup run {tmp_path / 'again.yaml'}" in said.err.replace("\n", "")
    made = load(tmp_path / "again.yaml")
    assert [run.run_id for run in plan(made)] == ["kafka-dedup-001"]
    assert [(each.name, each.at.message) for each in made.spec.faults] == [("cut", 100)]
    assert (tmp_path / "again.yaml").read_text().startswith(f"# What was done in run {RUN} of trial")
    assert dedup("plan", tmp_path / "again.yaml").code == 0


def test_a_file_that_exists_is_not_replaced(dedup: Command, mine: Path) -> None:
    """The experiment of the results themselves, say: without it nothing of them can be repeated or resumed."""
    before = (mine / "experiment.json").read_text()
    said = dedup("replay", mine, RUN, "--write", mine / "experiment.json")
    assert said.code == 4 and "got a file that exists" in one_line(said)
    assert (mine / "experiment.json").read_text() == before


def test_a_run_is_named_by_its_results_and_id_or_by_its_folder(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = kept / "runs" / RUN
    found = replays.recorded(kept, RUN)
    assert found.folder == folder / "attempt-1" and found.manifest.run_id == RUN
    assert replays.recorded(folder, None) == replays.recorded(folder / "attempt-1", None) == found
    monkeypatch.chdir(folder)
    assert replays.recorded(Path("."), None) == found


def test_results_in_a_folder_that_is_called_runs_are_found_too(mine: Path) -> None:
    moved = mine.rename(mine.with_name("runs"))
    assert replays.recorded(moved, RUN).folder == moved / "runs" / RUN / "attempt-1"


def test_of_several_attempts_the_last_one_with_a_history_counts(mine: Path) -> None:
    folder = mine / "runs" / RUN
    told = json.loads((folder / "attempt-1" / "manifest.json").read_text())
    for number in (2, 3):
        (folder / f"attempt-{number}").mkdir()
    (folder / "attempt-2" / "manifest.json").write_text(json.dumps(told | {"attempt": 2}))
    assert replays.recorded(mine, RUN).manifest.attempt == 2


Spoil = Callable[[Path], object]


def manifest_of(mine: Path) -> Path:
    return mine / "runs" / RUN / "attempt-1" / "manifest.json"


def changed(**keys: object) -> Spoil:
    def change(mine: Path) -> None:
        path = manifest_of(mine)
        path.write_text(json.dumps(json.loads(path.read_text()) | keys))

    return change


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda mine: manifest_of(mine).unlink(), "got no run kafka-dedup-002 with a history"),
        (lambda mine: manifest_of(mine).write_text("{"), "manifest.json: document: got text that is not JSON"),
        (changed(schema_version=3), "got schema version 3; this dedup reads versions 1 and 2"),
        (changed(news=1), "manifest.json: news: got 1"),
        (changed(spec_digest="0" * 64), "run kafka-dedup-002 is of 000000000000, another experiment"),
        (changed(faults=[]), "kafka-dedup-002: got none of its faults (cut) began"),
        (lambda mine: (mine / "experiment.json").unlink(), "experiment.json: got no such file; a replay must know"),
        (lambda mine: (mine / "experiment.json").write_text("{"), "experiment.json: got text that is not JSON"),
    ],
)
def test_a_run_that_cannot_be_repeated_is_told_in_one_line(
    spoil: Spoil, said: str, dedup: Command, mine: Path, tmp_path: Path
) -> None:
    spoil(mine)
    answer = dedup("replay", mine, RUN, "--write", tmp_path / "again.yaml")
    assert answer.code == 4
    assert said in one_line(answer)
    assert not (tmp_path / "again.yaml").exists()


def test_a_folder_without_a_run_is_told_in_one_line(dedup: Command, kept: Path, tmp_path: Path) -> None:
    known = "name one of its runs: kafka-control-001, kafka-control-002, kafka-dedup-001, kafka-dedup-002"
    for said in (dedup("replay", kept), dedup("replay", kept, "kafka-dedup-009")):
        assert said.code == 4 and one_line(said).endswith(known)
    for place in (tmp_path, tmp_path / "missing", manifest_of(kept)):
        assert one_line(dedup("replay", place)).endswith("give the folder that dedup run wrote")
    (tmp_path / "schedule.json").write_text("{}")
    assert one_line(dedup("replay", tmp_path)).endswith(f"dedup explore URL --replay {tmp_path}")


def test_a_system_that_cannot_be_logged_in_to_is_refused_before_anything_is_made(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    existing = {"bootstrap": "k:9092", "tls": {"secretRef": {"name": "authority"}}}
    there = [{"name": "kafka", "kafka": {}, "deploy": {"existing": existing}}]
    moved = [{"name": "cut", "at": {"message": 100}, "moveLeader": {}}]
    root = finish(tmp_path / "mine", systems=there, faults=moved).root
    said = dedup("replay", root, RUN)
    assert said.code == 4 and one_line(said).endswith("give --secret authority=FOLDER")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("name", [None, "my authority"])
def test_what_finishes_an_interrupted_replay_has_its_secrets(
    name: str | None, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin needs none."""
    told = []

    def interrupted(*_: object, command: str, **__: object) -> int:
        told.append(command)
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "run", interrupted)
    secrets = {} if name is None else {"authority": tmp_path / name}
    out, console = tmp_path / "out", Console(file=io.StringIO())
    with pytest.raises(KeyboardInterrupt):
        replays.replay(kept, RUN, write=None, out=out, as_json=False, console=console, secrets=secrets)
    option = [] if name is None else ["--secret", f"authority={tmp_path / name}"]
    assert shlex.split(told[0]) == ["dedup", "run", str(out / "experiment.json"), *option]


def test_both_runs_are_shown_side_by_side(kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run of then lost a message and the one of now, its only one, stored a block twice."""
    found = replays.recorded(kept, RUN)
    made = again(found.experiment, found.manifest)
    now = finish(tmp_path / "now", {"dedup": AGAIN})
    seen = replays.compared(found, made, now)
    assert (seen.then.verdict, seen.now.verdict) == ("fail", "fail")
    assert seen.then.counts and seen.now.counts
    assert (seen.then.counts.not_received, seen.then.counts.values_with_duplicates) == (1, 0)
    assert (seen.now.counts.not_received, seen.now.counts.values_with_duplicates) == (0, 100)
    assert [(each.name, each.then.began, each.now.began, each.percent) for each in seen.faults] == [
        ("cut", 100, 100, 0)
    ]
    show(seen, Console(width=120))
    shown = capsys.readouterr().out
    assert "cut" in shown and "+0.00 %" in shown and f"{MESSAGES + 100:,}" in shown
    assert str(now.attempt("kafka-dedup-001", 1)) in shown.replace("\n", "")


def test_a_replay_without_a_history_is_shown_too(kept: Path, tmp_path: Path) -> None:
    """And one whose results have no summary: nothing is known of its counts."""
    found = replays.recorded(kept, RUN)
    now = finish(tmp_path / "now", {"dedup": CLEAN})
    made = again(found.experiment, found.manifest)
    now.summary.unlink()
    judged = replays.compared(found, made, now).now
    assert (judged.verdict, judged.counts) == (None, None) and judged.recorded_at is not None
    shutil.rmtree(now.root / "runs")
    seen = replays.compared(found, made, now)
    assert seen.now.recorded_at is None and seen.faults[0].now.began is None
    show(seen, Console(quiet=True))
