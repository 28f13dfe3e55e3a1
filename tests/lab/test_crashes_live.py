"""Whatever dies, nothing that was recorded is lost, nothing passes, and nothing is invented."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.lab import harness

from dedup.experiment.stages import Stage
from dedup.history.histories import MANIFEST
from dedup.judgement.counts import FORBIDDEN
from dedup.judgement.verdicts import Verdict
from dedup_lab import caches
from dedup_runners.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]

STAGE_BOUND_S = 600.0
GONE_BOUND_S = 240.0
AT = 30_000
"""More than may be unacknowledged: by then the client is connected to the leader."""
WITNESSES = {name for names in FORBIDDEN.values() for name in names}


def small(**workload: int) -> dict[str, Any]:
    """Two treatment runs on Kafka with a short fault in a short run."""
    found = harness.document("kafka-kill-tcp", **workload)
    spec = found["spec"]
    spec |= {"variants": spec["variants"][1:], "runs": 2}
    spec["faults"][0] |= {"at": {"message": AT}, "killTCP": {"duration": "2s"}}
    return found


def test_killed_in_every_stage_and_resumed(tmp_path: Path) -> None:
    """`kill -9` in one stage after the other; the first run, once finished, is never touched again.

    Where its fault missed, it has a second attempt, and both are kept. Settling lasts for tenths of a second: if a busy
    machine lets that of the second run pass unseen, there is that of the third.
    """
    found = small(messages=120_000)
    found["spec"]["runs"] = 3
    first = "runs/kafka-dedup-001/attempt-*/" + MANIFEST
    kept: dict[Path, bytes] = {}

    def in_later_run(stage: Stage) -> Callable[[Path], bool]:
        return lambda out: harness.stage_in(out) == stage and (out / "runs/kafka-dedup-002").is_dir()

    def in_stage(stage: Stage) -> Callable[[Path], bool]:
        return lambda out: harness.stage_in(out) == stage

    moments = [in_stage(Stage.PROVISION), in_stage(Stage.PREPARE), in_stage(Stage.PRODUCE)]
    moments += [in_later_run(Stage.PRODUCE), in_later_run(Stage.SETTLE), in_later_run(Stage.CONSUME)]
    moments += [in_stage(Stage.VERIFY)]
    for index, moment in enumerate(moments):
        options = ["--resume"] if index else []
        harness.run_until(found, tmp_path, moment, STAGE_BOUND_S, signal.SIGKILL, *options)
        gone(tmp_path / "results")
        for path in (tmp_path / "results").glob(first):
            assert kept.setdefault(path, path.read_bytes()) == path.read_bytes()
    ended = harness.run(found, tmp_path, "--resume")
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    assert kept
    later = sorted((tmp_path / "results/runs").glob("kafka-dedup-00[23]/attempt-*"))
    assert len(later) >= 3 + 2, f"three were killed, and two are whole: {later}"
    gone(tmp_path / "results")


@pytest.fixture
def own_labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for labs of this test alone; what is costly to fetch is everybody's."""
    shared, own = caches.root(), tmp_path / "cache"
    own.mkdir()
    for name in ("jars", "bin", "incoming"):
        (shared / name).mkdir(parents=True, exist_ok=True)
        (own / name).symlink_to(shared / name)
    monkeypatch.setenv("DEDUP_CACHE", str(own))
    return own / "labs"


def test_interrupted_by_ctrl_c_leaves_nothing_behind(tmp_path: Path, own_labs: Path) -> None:
    found = small(messages=400_000)
    code = harness.run_until(
        found, tmp_path, lambda out: harness.stage_in(out) == Stage.PRODUCE, STAGE_BOUND_S, signal.SIGINT
    )
    said = (tmp_path / "started.log").read_text()
    assert code == 130, said
    assert "--resume" in said
    gone(tmp_path / "results")
    assert not list(own_labs.glob("*"))


@pytest.mark.parametrize(("role", "table"), [("producer", "sent"), ("consumer", "received")])
def test_a_client_that_dies_half_way_gives_an_error_and_no_witness(role: str, table: str, tmp_path: Path) -> None:
    found = small(messages=3_000_000)
    found["spec"]["runs"] = 1
    process, log = harness.start(found, tmp_path)
    out = tmp_path / "results"
    try:
        harness.wait_for(lambda: list(out.glob(f"runs/*/attempt-1/{table}/*")), STAGE_BOUND_S, process, log)
        family = psutil.Process(process.pid).children(recursive=True)
        (victim,) = [child for child in family if runs(child, f"dedup_runners.{role}")]
        victim.kill()
        code = process.wait(STAGE_BOUND_S)
    finally:
        process.kill()
        process.wait(10)
    summary = json.loads((out / "summary.json").read_bytes())
    assert (code, summary["verdict"]) == (4, "error"), log.read_text()
    codes = {reason["code"] for run in summary["runs"] for reason in run["reasons"]}
    assert codes, summary
    assert not codes & WITNESSES
    assert list(out.glob(f"runs/*/attempt-1/{table}/*")), "what was recorded is kept"


def runs(process: psutil.Process, module: str) -> bool:
    """Whether a living process runs that module."""
    try:
        return f"-m {module} " in " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie, too
        return False


def gone(folder: Path) -> None:
    """Wait until no process names the results folder: each child ends after its parent, at its own pace."""
    until(lambda: not remains(folder), GONE_BOUND_S, "every process of it is gone")


def remains(folder: Path) -> list[str]:
    """Processes that name the results folder and are still there."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(str(folder) in word for word in words):
            found.append(" ".join(words)[:200])
    return found
