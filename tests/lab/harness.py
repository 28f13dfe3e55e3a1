"""How the live tests run experiments: the examples that users are given, made small, through the `dedup` command."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from dedup.experiment.spec import Experiment, parse
from dedup.experiment.stages import Stage, State, Task, current, finished, schedule
from dedup.judgement.summaries import FaultRow, Summary
from dedup.wire.clients import Disturbance, Noticed
from dedup.wire.manifests import FaultRecord
from dedup_runners.attempt.progress import Progress
from dedup_runners.recording import journals

SHOWN: Final = 5
ROOT: Final = Path(__file__).parents[2]
RUN_TIMEOUT_S: Final = 1500.0
ENDED_S: Final = 300.0
"""How long an interrupted command may take to stop what it started: 33 s were seen on an overloaded machine."""
SHORTER: Final = {"killTCP": {"duration": "5s"}, "kill": {"restartAfter": "12s"}}
"""Faults as tests have them: a killed broker still stays away for twice as long as its session, and loses its place."""


class Ended(NamedTuple):
    """A `dedup` command that ended."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def summary(self) -> Summary:
        return Summary.model_validate_json((self.folder / "summary.json").read_bytes())

    def told(self) -> str:
        """Everything a failed assertion should show, the reasons first: of a long text a CI keeps the beginning."""
        said, file = [f"exit code {self.code}"], self.folder / "summary.json"
        for run in self.summary.runs if file.exists() else ():
            said += [f"{run.run_id}: {reason.verdict}: {reason.text}" for reason in run.reasons]
            noticed = journals.lines(self.folder / run.path, Disturbance) if run.path else []
            errors = Counter(each.detail for each in noticed if each.kind == Noticed.ERROR)
            said += [f"{run.run_id}: its client, {count} times: {words}" for words, count in errors.most_common(SHOWN)]
        return "\n".join([*said, self.out, self.err])


def document(name: str, **workload: int) -> dict[str, Any]:
    """An example, its faults shorter, without the confidence that only many runs can reach; changes to its workload."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "examples" / f"{name}.yaml").read_text())
    loaded["spec"].pop("confidencePercent", None)
    loaded["spec"]["workload"] |= workload
    for fault in loaded["spec"].get("faults", []):
        for kind in SHORTER.keys() & fault.keys():
            fault[kind] |= SHORTER[kind]
    return loaded


def experiment(found: dict[str, Any]) -> Experiment:
    return parse(found, source="test")


def write(found: dict[str, Any], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(found))
    return path


def dedup(
    *arguments: object,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    input: str | None = None,
) -> tuple[int, str, str]:
    """Run the command to its end, with more in its environment: exit code, standard output, standard error."""
    told, env = command(*arguments), {**os.environ, **(environment or {})}
    done = subprocess.run(told, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, cwd=cwd, env=env, input=input)
    return done.returncode, done.stdout, done.stderr


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "dedup_lab.cli", *map(str, arguments)]


def idle(faults: Iterable[FaultRecord | FaultRow]) -> bool:
    """Whether one came while all was acknowledged.

    Where brokers are quicker than the client that happens, and proves rightly nothing: a test tries again.
    """
    return any(fault.in_flight == 0 and fault.kind != "latency" for fault in faults)


def run(found: dict[str, Any], folder: Path, *options: object) -> Ended:
    """`dedup run` on a file and a results folder below `folder`."""
    out = folder / "results"
    return Ended(*dedup("run", write(found, folder), "--out", out, *options), out)


def start(found: dict[str, Any], folder: Path, *options: object) -> tuple["subprocess.Popen[bytes]", Path]:
    """Start `dedup run` on a results folder below `folder`; the process and the log of what it says."""
    log = folder / "started.log"
    words = command("run", write(found, folder), "--out", folder / "results", *options)
    with log.open("ab") as output:
        return subprocess.Popen(words, stdout=output, stderr=output, start_new_session=True), log


def wait_for(reached: Callable[[], object], bound_s: float, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Poll a condition, with a bound; fails at once if the process ends before it."""
    deadline = time.monotonic() + bound_s
    event = threading.Event()
    while not reached():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        event.wait(0.002)


def run_until(
    found: dict[str, Any], folder: Path, reached: Callable[[Path], bool], bound_s: float, stop: int, *options: object
) -> int:
    """Start `dedup run`, send it the signal `stop` as soon as `reached(results)`, and return its exit code."""
    process, log = start(found, folder, *options)
    try:
        wait_for(lambda: reached(folder / "results"), bound_s, process, log)
        os.kill(process.pid, stop)
        return process.wait(ENDED_S)
    finally:
        process.kill()
        process.wait(10)


def stage_in(out: Path) -> str:
    """What the results folder says is going on: the current task's stage, or nothing yet."""
    try:
        state = State.model_validate_json((out / "state.json").read_bytes())
        tasks = _tasks((out / "experiment.json").read_bytes())
    except (OSError, ValueError):
        return ""
    return current(tasks, state)[0].stage if state.intended and not finished(tasks, state) else ""


@lru_cache(maxsize=8)
def _tasks(experiment: bytes) -> tuple[Task, ...]:
    """Parsed once: some stages last no longer than a few parsings."""
    return schedule(parse(json.loads(experiment), source="test"))


class Quiet:
    """A reporter that says nothing, and remembers what failed."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def stage(self, task: Task, attempt: int) -> None: ...

    def note(self, text: str) -> None: ...

    def progress(self, run_id: str, phase: str, seen: Progress) -> None: ...

    def run_finished(self, run_id: str, words: str) -> None: ...

    def failed(self, task: Task, reason: str) -> None:
        self.failures.append(f"{task}: {reason}")


def nothing(_children: object, _stage: Stage) -> None:
    """Verify and Report left out."""
