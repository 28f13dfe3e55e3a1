"""Many visits side by side: most of their time they wait for time-outs.

A visit whose point did not strike is done again: which broker a client asks first is chance, so an exchange may be
missing now and then. A visit that could not be done is done again once; then its error is its result.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from enum import Enum, auto
from itertools import count
from pathlib import Path
from threading import Condition, Event
from typing import Final, NamedTuple

from dedup.errors import DedupError
from dedup.experiment.points import Exchange, Schedule, moves_a_leader, name_of
from dedup.judgement.explorations import Visit
from dedup.judgement.verdicts import Code, Reason, Verdict
from dedup_lab.children import Cancelled

STRIKES: Final = 8
"""So often a visit is done until its points strike. A pair may be out of reach: it is done twice."""
PAIR_STRIKES: Final = 2
ERRORS: Final = 2
LOOK_S: Final = 0.5


class Again(Enum):
    """After what a visit is done again."""

    UNNOTICED = auto()
    """Its points did not strike, or no client noticed; or it could not be done."""
    MISSED = auto()
    """Its points did not strike: such a run is no replay. Any other result counts."""
    NEVER = auto()
    """Whatever comes of it is its result: a run of what may be a shorter schedule."""


class Job(NamedTuple):
    """A visit that is to be done. `messages`, `transaction_size`: other than the exploration's."""

    schedule: Schedule
    deduplication: bool = True
    messages: int | None = None
    transaction_size: int | None = None
    again: Again = Again.UNNOTICED

    @property
    def strikes(self) -> int:
        if self.again is Again.NEVER:
            return 1
        return STRIKES if len(self.schedule) < 2 else PAIR_STRIKES


class Done(NamedTuple):
    """A job's visit, and of its conversation what `Visited` has."""

    job: Job
    visit: Visit
    exchanges: frozenset[Exchange] = frozenset()
    failed: frozenset[str] = frozenset()


Work = Callable[[Job, Path], Done]
"""Does one visit in a folder that it makes; DedupError if it could not be done."""


class Crew:
    """Does visits side by side. `close` returns when all that had begun have ended."""

    def __init__(self, work: Work, folder: Path, at_once: int, cancelled: Event) -> None:
        self.done = 0
        """How many visits were done, those that were done again included."""
        self._work, self._folder, self._cancelled = work, folder, cancelled
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="visit")
        self._at_work, self._changed = 0, Condition()
        kept = (each.name.partition("-")[0] for each in folder.glob("[0-9]*-*"))  # of an interrupted exploration
        self._numbers = count(1 + max((int(each) for each in kept if each.isdecimal()), default=0))

    def do(self, jobs: Iterable[Job], look: Callable[[], None] = lambda: None) -> Iterator[Done]:
        """The visits as they end: those that others notice come last, one by one. `look` is called now and then."""
        every = list(jobs)
        yield from self._at_once([job for job in every if not moves_a_leader(job.schedule)], look)
        for job in (each for each in every if moves_a_leader(each.schedule)):
            yield from self._at_once([job], look)

    def _at_once(self, jobs: Iterable[Job], look: Callable[[], None]) -> Iterator[Done]:
        pending: set[Future[Done]] = {self._pool.submit(self._do, job) for job in jobs}
        try:
            while pending:
                over, pending = wait(pending, LOOK_S, FIRST_COMPLETED)
                look()
                for each in over:
                    yield each.result()
        finally:
            for each in pending:
                each.cancel()

    def close(self) -> None:
        """The pool alone would not wait for all: it does not know a thread in whose start Ctrl-C came."""
        with self._changed:
            self._cancelled.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        with self._changed:
            self._changed.wait_for(lambda: self._at_work == 0)

    def _do(self, job: Job) -> Done:
        with self._changed:
            if self._cancelled.is_set():
                raise Cancelled
            self._at_work += 1
        try:
            return self._until_it_counts(job)
        finally:
            with self._changed:
                self._at_work -= 1
                self._changed.notify_all()

    def _until_it_counts(self, job: Job) -> Done:
        errors = 0
        for attempt in count(1):
            try:
                done = self._work(job, self._folder / f"{next(self._numbers):05}-{name_of(job.schedule)}")
            except DedupError as error:
                errors += 1
                if errors == ERRORS or job.again is not Again.UNNOTICED or self._cancelled.is_set():
                    return Done(job, failed(job, error))
                continue
            finally:
                self.done += 1
            struck = not done.visit.missed and (job.again is Again.MISSED or not done.visit.unnoticed)
            counts = struck or done.visit.verdict in (Verdict.FAIL, Verdict.ERROR)
            if counts or attempt >= job.strikes or self._cancelled.is_set():
                return done
            if done.visit.folder is not None:
                shutil.rmtree(done.visit.folder, ignore_errors=True)
        raise AssertionError


def failed(job: Job, error: DedupError) -> Visit:
    """The visit that could not be done."""
    return Visit(
        schedule=job.schedule,
        deduplication=job.deduplication,
        messages=job.messages or 0,
        verdict=Verdict.ERROR,
        reasons=(Reason(verdict=Verdict.ERROR, code=Code.PROBLEM, text=str(error)),),
        seconds=0,
    )
