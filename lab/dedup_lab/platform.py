"""The local platform: does the stage machine's actions on one machine.

A stage is a plain function. It runs in a background thread, one at a time; the main thread drives the stage machine
and handles Ctrl-C. What a new process cannot see (a run that an earlier process had begun) is *absent*, and the stage
machine does it again. A stage that fails first writes the reason beside its history, so that a failed run is never
taken for an interrupted one.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from dedup.errors import DedupError, PlatformError
from dedup.experiment.endpoints import OPEN, Security
from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, System
from dedup.experiment.stages import POLL_S, Observation, Stage, Status, Task
from dedup.faults.records import leaked
from dedup.history.attempts import Attempt, missed_of, result_of
from dedup.judgement.endings import Kind
from dedup.process import machines
from dedup.wire.faults import FaultLine
from dedup.wire.lines import parse
from dedup.wire.manifests import Manifest
from dedup_lab import clients, forks, java
from dedup_lab.caches import silent
from dedup_lab.children import Cancelled, Children, OfRun
from dedup_lab.clients import pulsar_function
from dedup_lab.results import Results
from dedup_lab.systems import disks, existing
from dedup_lab.systems.running import Running, RunningSystem, told_once
from dedup_runners.attempt.courses import NO_HOOKS, Course, Hooks, Situation
from dedup_runners.attempt.progress import Progress

CANCEL_S = 60.0
NO_ACCESS: Final[Mapping[str, Security]] = {}
WHOLE_S: Final = 60.0
"""How long a system whose processes live may take to be healthy again."""
UNDONE_S: Final = 3.0
"""How long a guard may take to undo a fault whose injector was killed."""


class Reporter(Protocol):
    """Shows the events of an experiment to people."""

    def stage(self, task: Task, attempt: int) -> None: ...
    def note(self, text: str) -> None: ...
    def progress(self, run_id: str, phase: str, seen: Progress) -> None: ...
    def run_finished(self, run_id: str, words: str) -> None: ...
    def failed(self, task: Task, reason: str) -> None: ...


class LocalPlatform:
    """Brokers, clients, faults and Spark as processes of this machine."""

    def __init__(
        self,
        experiment: Experiment,
        results: Results,
        reporter: Reporter,
        finish: Callable[[Children, Stage], None],
        hooks: Hooks = NO_HOOKS,
        before_runs: Callable[[], None] = lambda: None,
        access: Mapping[str, Security] = NO_ACCESS,
    ) -> None:
        """`finish` does the two stages of the whole experiment, Verify and Report.

        `before_runs` is called before each run begins; an error of its own ends the experiment, not the run. `access`:
        how systems that are there already are spoken to, by their names.
        """
        self._access = access
        self._experiment, self._results, self._reporter, self._finish = experiment, results, reporter, finish
        self._hooks, self._before_runs = hooks, before_runs
        self._runs = {run.run_id: run for run in plan(experiment)}
        self._systems: dict[str, Running] = {}
        self._children = Children()
        self._job: _Job | None = None
        self._run: tuple[str, int, Course] | None = None
        self._done: set[Task] = set()

    def observe(self, task: Task, attempt: int) -> Observation:
        if self._job is not None and self._job.is_for(task, attempt):
            seen = self._job.observation()
            if task.stage is not Stage.CONSUME or seen.status is not Status.DONE:
                return seen
            return seen.model_copy(update={"missed": self._missed(self._attempts(task))})
        if task in self._done:
            return Observation(status=Status.DONE)
        if task.run_id is not None:
            return self._observe_run(task, attempt)
        if task.stage is Stage.PROVISION and (task.system in self._systems or self._is_done_with(str(task.system))):
            return Observation(status=Status.DONE)
        if task.stage is Stage.TEARDOWN and task.system not in self._systems:
            return Observation(status=Status.DONE)
        return Observation(status=Status.ABSENT)

    def start(self, task: Task, attempt: int) -> None:
        if self._job is not None and self._job.is_for(task, attempt):
            return
        if task.stage is Stage.PREPARE:
            self._before_runs()
        self._reporter.stage(task, attempt)
        children = self._children
        self._job = _Job(task, attempt, lambda: self._done_or_noted(task, attempt, children))
        self._job.begin()  # known by now: Ctrl-C may come while its thread starts, and then it is waited for

    def cancel(self, task: Task, attempt: int, reason: str) -> None:
        if task.run_id is not None:
            self._results.note_ending(task.run_id, attempt, task.stage, reason, Kind.FAILED)
        self._end_job()
        if task.run_id is not None:
            self._run = None
            self._end_faults(task, attempt)
        elif task.system is not None:
            self._results.note_failure(task.system, task.stage, reason)
            self._stop(task.system)
        self._reporter.failed(task, reason)

    def _end_faults(self, task: Task, attempt: int) -> None:
        """Stop the system if a fault of a run that failed may still be in force: the next run starts it again.

        What ended the injector ended nothing of the fault: a cut in the kernel lasts its time, a toxic until its guard
        removes it.
        """
        assert task.run_id is not None and task.system is not None
        folder, deadline = self._results.attempt(task.run_id, attempt), time.monotonic() + UNDONE_S
        while (left := in_force(folder)) and time.monotonic() < deadline:
            time.sleep(POLL_S)  # a guard removes a toxic as soon as it sees that its injector is gone
        if left and task.system in self._systems and self._system(task).existing is None:
            self._reporter.note(f"{task.system} is started again: nobody saw the end of {', '.join(left)}")
            self._stop(task.system)

    def wait(self, timeout_s: float) -> None:
        if self._job is not None:
            self._job.over.wait(timeout_s)

    def close(self) -> None:
        """End everything that was started."""
        self._end_job()
        self._children.close()
        for name in list(self._systems):
            self._stop(name)

    def _observe_run(self, task: Task, attempt: int) -> Observation:
        assert task.system is not None and task.run_id is not None
        attempts, missed = (found := self._attempts(task)), self._missed(found)
        result = result_of(attempts)
        if result is not None and not (missed and attempt > result.number):
            # An earlier process did it. A run with a result is repeated only when this attempt replaces it.
            return Observation(status=Status.DONE, attempts=_last(attempts), missed=missed)
        if task.system not in self._systems:
            return Observation(status=Status.UNPROVISIONED)
        if task.stage is Stage.PREPARE and self._systems[task.system].dead():
            self._stop(task.system)
            return Observation(status=Status.UNPROVISIONED)
        if task.stage is not Stage.PREPARE and (self._run is None or self._run[:2] != (task.run_id, attempt)):
            return Observation(status=Status.FAILED, message="the stages before it were not done by this process")
        return Observation(status=Status.ABSENT, attempts=_last(attempts))

    def _is_done_with(self, system: str) -> bool:
        """Whether every run of the system has its result, and none may have to be replaced."""
        own = [self._results.attempts(run) for run in self._runs.values() if run.system == system]
        return all(result_of(attempts) and not self._missed(attempts) for attempts in own)

    def _attempts(self, task: Task) -> list[Attempt]:
        return self._results.attempts(self._runs[str(task.run_id)])

    def _missed(self, attempts: Sequence[Attempt]) -> str:
        """Why the last attempt may be replaced, if it is the run's result and the experiment replaces any."""
        result = result_of(attempts) if self._experiment.spec.replacements else None
        if result is None or not result.finished or result.number != _last(attempts):
            return ""
        return "; ".join(missed_of(result))

    def _done_or_noted(self, task: Task, attempt: int, children: Children) -> None:
        """Do a stage; if it fails, write the reason and the kind of its ending beside the history at once."""
        try:
            self._do(task, attempt)
        except BaseException as error:
            stopped = children.cancelled.is_set()
            words = "dedup was stopped" if stopped else f"{task}: {_words(error)}"
            kind = Kind.INTERRUPTED if stopped else Kind.FAILED
            if task.run_id is not None:
                with suppress(OSError):  # the error that led here already reports a full disk
                    self._results.note_ending(task.run_id, attempt, task.stage, words, kind)
            raise

    def _do(self, task: Task, attempt: int) -> None:
        match task.stage:
            case Stage.PROVISION:
                self._provision(self._system(task))
            case Stage.PREPARE:
                run = self._new_run(task, attempt)
                self._run = (str(task.run_id), attempt, run)
                run.prepare()
            case Stage.PRODUCE:
                self._running().produce()
            case Stage.SETTLE:
                self._running().settle()
            case Stage.CONSUME:
                manifest = self._running().consume()
                self._reporter.run_finished(manifest.run_id, _told(manifest))
            case Stage.TEARDOWN:
                self._stop(self._system(task).name)
            case _:
                self._finish(self._children, task.stage)
        if task.system is None:
            self._done.add(task)

    def _running(self) -> Course:
        assert self._run is not None
        return self._run[2]

    def _provision(self, system: System) -> None:
        forks.load()
        proxied = self._experiment.spec.proxied(system)
        cancelled = self._children.cancelled

        def wanted() -> None:
            if cancelled.is_set():
                raise Cancelled

        running = self._started(system, proxied, self._results.logs(system.name), wanted)
        if cancelled.is_set():
            running.close()
            raise Cancelled
        self._systems[system.name] = running

    def _started(self, system: System, proxied: bool, logs: Path, wanted: Callable[[], None]) -> Running:
        note = self._reporter.note
        if system.existing is None:
            spec = self._experiment.spec
            disk = disks.size_bytes(self._experiment) if spec.own_disks else None
            return RunningSystem.start(
                system,
                proxied=proxied,
                logs=logs,
                note=note,
                apart=spec.own_networks,
                disk_bytes=disk,
                served=spec.served,
                function=pulsar_function.package(silent) if spec.workload.works(spec.variants) else None,
                transactions=spec.workload.coordinated,
                replicated=spec.workload.replicated,
                wanted=wanted,
            )
        security = self._access.get(system.name, OPEN)
        progress = told_once(system, note, wanted)
        return existing.start(system, security, proxied=proxied, logs=logs, note=note, progress=progress)

    def _new_run(self, task: Task, attempt: int) -> Course:
        assert task.run_id is not None
        run, spec = self._runs[task.run_id], self._experiment.spec
        variant = next(each for each in spec.variants if each.name == run.variant)
        system = self._system(task).of(variant)
        running = self._systems[system.name]
        if lack := _lack(running):
            self._stop(system.name)
            raise PlatformError(
                where=f"system {system.name}",
                got=lack,
                rule="a run begins on a healthy system",
                todo=f"read {self._results.logs(system.name)}; the next run starts the system again",
            )
        folder = self._results.attempt(run.run_id, attempt)
        folder.mkdir(parents=True)
        return Course(
            Situation(
                experiment=self._experiment,
                system=system,
                variant=variant,
                run=run,
                attempt=attempt,
                folder=folder,
                endpoints=running.endpoints,
                admin=running.admin,
                site=running.site,
                companions=OfRun(self._children, run.run_id, folder),
                dead=running.dead,
                report=lambda phase, seen: self._reporter.progress(run.run_id, phase, seen),
                hooks=self._hooks,
                java=java.version() if system.existing is None else "",
                program=clients.program(system, self._experiment.folder),
                beside=running.beside,
            )
        )

    def _system(self, task: Task) -> System:
        return next(system for system in self._experiment.spec.systems if system.name == task.system)

    def _stop(self, name: str) -> None:
        if running := self._systems.pop(name, None):
            running.close()

    def _end_job(self) -> None:
        """Cancel the running stage. It keeps its own set of children, which is closed: it can start nothing more."""
        old, self._children = self._children, Children()
        old.end_all()
        if self._job is not None:
            self._job.over.wait(CANCEL_S)
            self._job = None
        old.close()


class _Job:
    """One stage in a background thread."""

    def __init__(self, task: Task, attempt: int, work: Callable[[], None]) -> None:
        self.task, self._attempt = task, attempt
        self.over = threading.Event()
        self._failure: str | None = "the stage ended without a reason"
        self._thread = threading.Thread(target=self._run, args=(work,), name=str(task), daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def is_for(self, task: Task, attempt: int) -> bool:
        return self.task == task and self._attempt == attempt

    def observation(self) -> Observation:
        if not self.over.is_set():
            return Observation(status=Status.RUNNING)
        if self._failure is not None:
            return Observation(status=Status.FAILED, message=self._failure)
        return Observation(status=Status.DONE)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
            self._failure = None
        except Cancelled:
            self._failure = "cancelled"
        except Exception as error:  # a stage that crashed is a failed stage
            self._failure = _words(error)
        finally:
            self.over.set()


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and (refusal := machines.refusal(error)):
        return str(refusal)
    return str(error) if isinstance(error, DedupError) else f"{type(error).__name__}: {error}"


def in_force(attempt: Path) -> list[str]:
    """The faults of an attempt that began, and of which nobody has seen the end."""
    try:
        return leaked(parse((attempt / FaultLine.FILE).read_text(encoding="utf-8", errors="replace"), FaultLine))
    except FileNotFoundError:
        return []
    except (DedupError, OSError):
        return ["a fault whose lines cannot be read"]


def _last(attempts: Sequence[Attempt]) -> int:
    return attempts[-1].number if attempts else 0


def _lack(running: Running) -> str | None:
    """Why the system is not healthy, in words. A process that died stays dead; a slow broker is asked again."""
    deadline = time.monotonic() + WHOLE_S
    while (dead := running.dead()) is None:
        if (lack := running.admin.unhealthy(None)) is None or time.monotonic() > deadline:
            return lack
        time.sleep(POLL_S)
    return dead


def _told(manifest: Manifest) -> str:
    """A finished run in a few words, before it is judged."""
    extra = manifest.consumer.received - manifest.producer.ok
    faults = [f"{fault.name} at message {fault.effect_message:,}" for fault in manifest.faults if fault.effect_message]
    return ", ".join(
        [
            f"{manifest.producer.ok:,} acknowledged",
            f"{manifest.consumer.received:,} read" + (f" ({extra:+,})" if extra else ""),
            *faults,
            *manifest.missed,
        ]
    )
