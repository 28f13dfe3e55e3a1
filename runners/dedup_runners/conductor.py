"""The conductor: carries out one attempt of one run in a pod, from the claim to the manifest.

`python -m dedup_runners.conductor ASSIGNMENT`. It is the lab's part in a cluster: the same course (courses.py), with
companions that are the other containers of its pod. It decides alone: producer, consumer and chaos containers wait for
what it writes and leave when it is gone, so there is no half of a run that goes on by itself. What it could not do is
in `failure.json`, beside what was recorded until then; without a manifest nothing of it is judged. There it also says
that the pod was ended from outside (a drain, an eviction, a deletion): SIGTERM tells it so, and the courier, which
outlives it, carries that word.

Exit codes: 0 the run's history is complete; 4 it is not; 5 another pod has claimed this attempt, and nothing was sent;
143 the pod was ended from outside.
"""

import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from dedup.errors import EXIT_ERROR, SpecificationError, one_line
from dedup.experiment import assignments
from dedup.experiment.assignments import LAST_WORD, MISSED, Assignment
from dedup.experiment.stages import Stage
from dedup.history.attempts import note_ending
from dedup.judgement.endings import Kind
from dedup.wire.files import Failure
from dedup.wire.manifests import Manifest
from dedup_runners import claims, lifelines, programs
from dedup_runners.admins.discoveries import discovered
from dedup_runners.attempt import surroundings
from dedup_runners.attempt.companions import Neighbours
from dedup_runners.attempt.courses import Course, Situation
from dedup_runners.attempt.progress import Progress
from dedup_runners.attempt.surroundings import Surroundings
from dedup_runners.configs import Beside, Program
from dedup_runners.consents import in_pods, pods_here

REPORT_EVERY_S: Final = 5.0
ENDED_TOGETHER_S: Final = 2.0
"""Within this time all programs of a pod that is ended are told so."""
LONGEST_WORD: Final = 1000
ENDED_FROM_OUTSIDE: Final = "the pod was ended from outside (SIGTERM)"

Done = TypeVar("Done")


class Told:
    """Tells in the pod's log how far the run is, now and then."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, phase: str, seen: Progress) -> None:
        if (now := time.monotonic()) >= self._next:
            self._next = now + REPORT_EVERY_S
            print(f"{phase}: {seen.sent:,} sent, {seen.acknowledged:,} acknowledged, {seen.received:,} read")


class Stages:
    """Tells in the pod's log which stage begins, and knows it when the pod is ended."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment, self._now = assignment, Stage.PREPARE

    def __call__(self, stage: Stage) -> None:
        self._now = stage
        print(stage.value)

    def end(self) -> NoReturn:
        """Leave word that the pod is ended from outside, and go at once, as without a word: other programs go, too."""
        words = f"{self._now.value}: {ENDED_FROM_OUTSIDE}"
        print(words, file=sys.stderr)
        if claims.won(self._assignment.shared).exists():
            note_ending(self._assignment.folder, self._now.value, words, Kind.INTERRUPTED)
        programs.leave(128 + signal.SIGTERM)


def conduct(assignment: Assignment, begins: Callable[[Stage], None]) -> Manifest:
    """Claim the attempt and do all of it; AlreadyClaimed before anything else, another DedupError in the course."""
    claims.claim(assignment)
    assignment.folder.mkdir(parents=True, exist_ok=True)
    try:
        system, spec = assignment.system, assignment.experiment.spec
        endpoints = in_pods(discovered(assignment.endpoints), system, spec, pods_here)
        leads = spec.leads(system)
        with (surroundings.led if leads else surroundings.straight)(endpoints) as around:
            around.site.warm_up()
            return carry_out(assignment, around, begins)
    except Exception as error:
        _note(assignment.folder, Stage.PREPARE, error)
        raise


def carry_out(assignment: Assignment, around: Surroundings, begins: Callable[[Stage], None]) -> Manifest:
    """Do the four stages of a claimed attempt; whatever ends one of them is noted beside the history, and raised."""
    course = Course(
        Situation(
            experiment=assignment.experiment,
            system=assignment.system.of(assignment.variant),
            variant=assignment.variant,
            run=assignment.run,
            attempt=assignment.attempt,
            folder=assignment.folder,
            endpoints=around.endpoints,
            admin=around.admin,
            site=around.site,
            companions=Neighbours(assignment.shared),
            dead=around.dead,
            report=Told(),
            watchdog=assignment.watchdog,
            program=_program(assignment),
            beside=assignment.worker or (Beside(database=assignment.database) if assignment.database else None),
        )
    )
    stages: list[tuple[Stage, Callable[[], None]]] = [
        (Stage.PREPARE, course.prepare),
        (Stage.PRODUCE, course.produce),
        (Stage.SETTLE, course.settle),
    ]
    for stage, work in stages:
        begins(stage)
        _do(stage, work, assignment.folder)
    begins(Stage.CONSUME)
    return _do(Stage.CONSUME, course.consume, assignment.folder)


def _program(assignment: Assignment) -> Program | None:
    return None if assignment.program is None else Program(argv=(str(assignment.program),))


def _do(stage: Stage, work: Callable[[], Done], folder: Path) -> Done:
    try:
        return work()
    except Exception as error:
        _note(folder, stage, error)
        raise


def _tell(manifest: Manifest) -> None:
    """Leave a last word in the pod's status for the operator, who has no way into the store: why faults missed."""
    if manifest.missed and LAST_WORD.exists():
        with suppress(OSError):
            LAST_WORD.write_text(f"{MISSED}{one_line('; '.join(manifest.missed))}"[:LONGEST_WORD])


def _note(folder: Path, stage: Stage, error: Exception) -> None:
    """Say why the attempt has no manifest, unless it was said already.

    Who ends a pod from outside ends all its programs, but not at the same instant: if another one went first, then we
    are told now, and leave another word. That is how an interrupted attempt is told from one that failed by itself.
    """
    if (folder / Failure.FILE).exists():
        return
    time.sleep(ENDED_TOGETHER_S)
    note_ending(folder, stage.value, str(error), Kind.FAILED)


def main(arguments: list[str]) -> int:
    """The conductor's exit code."""
    if len(arguments) != 1:
        print("usage: python -m dedup_runners.conductor ASSIGNMENT", file=sys.stderr)
        return 2
    try:
        assignment = assignments.read(Path(arguments[0]))
    except SpecificationError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    stages = Stages(assignment)
    with lifelines.held(lifelines.CONDUCTOR, assignment.shared) as ended, programs.stopping(stages.end):
        ending = programs.attempt(lifelines.CONDUCTOR, lambda: _tell(conduct(assignment, stages)))
        ended(*ending)
    return ending.code


if __name__ == "__main__":
    programs.leave(main(sys.argv[1:]))
