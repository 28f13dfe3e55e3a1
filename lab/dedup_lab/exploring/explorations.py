"""An exploration from start to end: calm conversations, every point once, pairs, replays of alarms, and the verdict.

What was visited is noted as it ends, so that an interrupted exploration goes on where it was. Alarms are replayed at
the end, one of each kind; those that count are shrunk.
"""

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console

from dedup.errors import PlatformError, SpecificationError
from dedup.experiment.points import (
    Action,
    Exchange,
    Point,
    Schedule,
    controls_of,
    in_all,
    moves_a_leader,
    pairs_known,
    pairs_of,
    points_of,
)
from dedup.judgement import explorations
from dedup.judgement.explorations import REPLAYS, Alarm, Exploration, Replay, Shrunk, Unexplored, Visit
from dedup.judgement.verdicts import Verdict
from dedup.process import machines
from dedup.workloads.transactions import Transactions
from dedup_lab import estimates, results
from dedup_lab.exploring import experiments, folders, replays, threads
from dedup_lab.exploring.crews import Again, Crew, Done, Job, Work
from dedup_lab.exploring.folders import Asked, Calm, Folder
from dedup_lab.exploring.grounds import Access, Shape, Site, standing
from dedup_lab.exploring.protocols import EXPLORED
from dedup_lab.exploring.shrinking import Candidate, shrink, shrink_transactions
from dedup_lab.exploring.visits import Ground, size_of, visit
from dedup_lab.terminal.consoles import saying
from dedup_lab.terminal.explorations import show

CALM: Final = 3
MOST_DISTURBED: Final = 12
"""So many conversations may be none that is calm: a broker that has just started refuses the first request for a
producer id, and there may be several; a busy machine is late now and then."""
AT_ONCE: Final = 12
KINDS: Final = 12
"""So many kinds of alarms are replayed and shrunk; of others it is said that they were not."""

Note = Callable[[str], None]


class Options(NamedTuple):
    """What the command line asks for besides the target."""

    shape: Shape = Shape()
    pairs: int = 0
    seed: int = 1
    at_once: int = AT_ONCE
    out: Path | None = None
    resume: Path | None = None
    replay: Path | None = None


def explore(target: str, access: Access, options: Options, *, as_json: bool, console: Console) -> int:
    """Explore the brokers at a URL, or those of a file, and print the result; the exit code of its verdict.

    With `options.replay` only the schedule of that witness is run again.
    """
    witness = None if options.replay is None else replays.read(options.replay)
    if witness is not None:
        _check_alone(options)
        options = options._replace(shape=Shape(witness.messages, witness.partitions, witness.transaction_size or 0))
    root = _root(options.out, options.resume)
    cancelled = threading.Event()
    with (
        nullcontext() if options.resume is not None else results.made_for(root),
        machines.at(f"folder {root}"),
        results.alone(root, "dedup explore"),
        saying(console, "beginning") as say,
        standing(target, access, options.shape, root / folders.LOGS, cancelled, say) as site,
    ):
        threads.begin()
        for note in site.notes:
            console.print(note, soft_wrap=True, markup=False)
        folder = Folder(root)
        folder.begin(_asked(target, site, options))
        crew = Crew(worker(site.ground), folder.visits, options.at_once, cancelled)
        try:
            result: Exploration | Replay
            if witness is None:
                result = Exploring(target, site, options, folder, crew, say).run()
            else:
                result = replays.replay(witness, crew)
        except KeyboardInterrupt:
            say("interrupted; removing the topics")
            crew.close()
            if witness is None:
                console.print(f"to finish it: dedup explore {target} … --resume {root}", soft_wrap=True, markup=False)
            raise
        finally:
            crew.close()
    if as_json:
        print(result.model_dump_json())
    else:
        show(result, console)
    return result.verdict.exit_code


def worker(ground: Ground) -> Work:
    """Does a visit on this ground."""

    def work(job: Job, folder: Path) -> Done:
        here = ground if job.messages is None else ground.smaller(job.messages, job.transaction_size)
        return Done(job, *visit(here, job.schedule, folder, deduplication=job.deduplication))

    return work


def _not_calm(got: str, todo: str) -> PlatformError:
    return PlatformError(
        where="a calm conversation",
        got=got,
        rule=f"{CALM} runs in which nothing is broken and every request succeeds say what there is to break",
        todo=todo,
    )


class Exploring:
    """One exploration, on its way."""

    def __init__(self, target: str, site: Site, options: Options, folder: Folder, crew: Crew, note: Note) -> None:
        self._target, self._site, self._options = target, site, options
        self._folder, self._crew, self._note = folder, crew, note
        self._workload = site.ground.experiment.spec.workload
        self._visits: dict[tuple[Schedule, bool], Visit] = {}
        self._rate = 0.0

    def run(self) -> Exploration:
        """From the first calm conversation to the result, which is in the folder then."""
        began = time.monotonic()
        calm = self._folder.heard() or self._listen()
        exchanges, others = in_all(calm.conversations)
        moves = len(self._site.ground.endpoints.brokers) > 1
        points = points_of(exchanges, EXPLORED[self._site.ground.system.library].dialect, moves=moves)
        pairs = pairs_of(points, self._options.pairs, self._options.seed) if self._options.pairs and points else []
        self._visit(points, pairs)
        alarms = self._replayed([each for each in self._visits.values() if each.alarm])
        visits = list(self._visits.values())
        verdict, reasons = explorations.conclude(points, pairs, visits, alarms)
        done = {each.schedule for each in visits if each.deduplication and each.done}
        result = Exploration(
            target=self._target,
            verdict=verdict,
            reasons=reasons,
            messages=self._workload.messages,
            partitions=self._workload.partitions,
            in_flight=self._workload.in_flight,
            transaction_size=size_of(self._workload),
            points=len(points),
            points_visited=sum((point,) in done for point in points),
            pairs=pairs_known(points),
            pairs_visited=sum(pair in done for pair in pairs),
            seed=self._options.seed,
            rows=explorations.table(points, visits),
            alarms=tuple(alarms),
            unexplored=tuple(Unexplored(exchange=str(each), why=why) for each, why in others),
            versions=self._site.ground.admin.versions(),
            settings=self._site.settings,
            seconds=round(time.monotonic() - began, 1),
            visits=self._crew.done,
            points_a_minute=round(self._rate, 1),
            folder=str(self._folder.root),
        )
        self._folder.finish(result)
        return result

    def _listen(self) -> Calm:
        """The calm conversations; their histories are judged like any other."""
        heard: list[frozenset[Exchange]] = []
        failed, disturbed = set[str](), 0
        while len(heard) < CALM:
            if disturbed > MOST_DISTURBED:
                got = f"errors or no replies to {', '.join(sorted(failed))}"
                raise _not_calm(got, "wait until brokers and machine are at rest")
            for done in self._crew.do([Job(())] * (CALM - len(heard))):
                self._note(f"listening to {CALM} calm conversations: {len(heard)} heard")
                self._keep(done.visit)
                if done.visit.verdict is Verdict.ERROR:
                    raise _not_calm(done.visit.reasons[0].text, f"see {done.visit.folder or self._folder.visits}")
                if done.failed:  # what is asked again for that is no part of a calm conversation
                    failed |= done.failed
                    disturbed += 1
                else:
                    heard.append(done.exchanges)
        return self._folder.hear(heard)

    def _visit(self, points: Sequence[Point], pairs: Sequence[Schedule]) -> None:
        for each in self._folder.noted():
            if each.done:  # what could not be done is tried again
                self._remember(each)
        jobs = [*(Job((point,)) for point in points), *(Job((point,), False) for point in controls_of(points))]
        jobs += [Job(pair) for pair in pairs]
        left = [job for job in jobs if (job.schedule, job.deduplication) not in self._visits]
        began, ready = time.monotonic(), 0

        def look() -> None:
            alarms = sum(each.alarm for each in self._visits.values())
            left_s = (time.monotonic() - began) / ready * (len(left) - ready) if ready else None
            words = "" if left_s is None else f", {estimates.words(left_s)} left"
            self._note(f"{len(jobs) - len(left) + ready:,} of {len(jobs):,} visits, {alarms:,} alarms{words}")

        for done in self._crew.do(left, look):
            ready += 1
            self._keep(done.visit)
        self._rate = 60 * ready / max(time.monotonic() - began, 1e-9) if ready else 0.0

    def _keep(self, found: Visit) -> None:
        self._remember(self._folder.keep(found))

    def _remember(self, found: Visit) -> None:
        """The last visit of a schedule counts, but an alarm stays one."""
        before = self._visits.get((found.schedule, found.deduplication))
        if before is None or not before.alarm:
            self._visits[found.schedule, found.deduplication] = found

    def _replayed(self, found: Iterable[Visit]) -> list[Alarm]:
        """An alarm of each kind that comes again, and shrunk; else the one that came again most often.

        A pair is of the kind of a point that suffices.
        """
        kinds: dict[tuple[str, ...], list[Visit]] = {}
        for each in sorted(found, key=lambda one: (len(one.schedule), _places(one.schedule))):
            alone = (self._visits.get(((less,), True)) for point in each.schedule for less in _parts(point))
            same = (
                one for one in alone if one is not None and one.alarm and each.anomalies.keys() <= one.anomalies.keys()
            )
            cause = next(same, each)
            kinds.setdefault(cause.kind, []).append(each)
        alarms = []
        for number, own in enumerate(kinds.values(), 1):
            if number > KINDS:
                alarms.append(Alarm(visit=own[0], replayed=0, replays=0, alike=len(own) - 1))
                continue
            found_again = []
            for first in _some(own):
                self._note(f"replaying {first.name}, alarm {number} of {len(kinds)}")
                shown = self._shown(first, Candidate(first.schedule, first.messages, first.transaction_size))
                found_again.append(Alarm(visit=first, replayed=shown, replays=REPLAYS, alike=len(own) - 1))
                if found_again[-1].counts:
                    break
            alarm = max(found_again, key=lambda each: each.replayed)
            if alarm.counts:
                self._note(f"shrinking {alarm.visit.name}")
                alarm = alarm.model_copy(update={"shrunk": self._shrunk(alarm.visit, alarm.replayed)})
            alarms.append(alarm)
        return alarms

    def _shrunk(self, first: Visit, shown: int) -> Shrunk:
        def shows(candidate: Candidate) -> int:
            return self._shown(first, candidate, at_once=False)

        def as_it_was(schedule: Schedule, messages: int) -> int:
            return shows(Candidate(schedule, messages, first.transaction_size))

        partitions, given = self._workload.partitions, self._workload.given
        if isinstance(given, Transactions):
            best = Candidate(first.schedule, first.messages, given.size)
            found = shrink_transactions(best, given.every, partitions, shows, shown)
        else:
            found = shrink(first.schedule, first.messages, partitions, as_it_was, shown)
        found = found.model_copy(update={"anomalies": tuple(first.anomalies)})
        self._folder.keep_schedule(first, found, experiments.text_of(self._site.ground, found, first.explanation))
        return found

    def _shown(self, first: Visit, candidate: Candidate, *, at_once: bool = True) -> int:
        """In how many of ten runs of a schedule an anomaly of the alarm's name is there; without `at_once` the others
        are run only if the first one shows it. A first one that did not strike is no such run, but of a shorter
        conversation: that one may not have the point at all."""
        schedule, messages, size = candidate
        job, shown = Job(schedule, messages=messages, transaction_size=size, again=Again.MISSED), 0
        as_long = (messages, size) == (first.messages, first.transaction_size)
        first_one = job if as_long else job._replace(again=Again.NEVER)
        for jobs in [[job] * REPLAYS] if at_once else [[first_one], [job] * (REPLAYS - 1)]:
            for done in self._crew.do(jobs):
                shown += done.visit.shows(first.anomalies)
                if done.visit.folder is not None:
                    shutil.rmtree(done.visit.folder, ignore_errors=True)
            if not shown:
                break
        return shown


def _some(alike: Sequence[Visit]) -> list[Visit]:
    """Of alarms of one kind those that are replayed until one counts: any of them may have come by chance."""
    return [alike[place] for place in sorted({0, len(alike) // 2, len(alike) - 1})]


def _parts(point: Point) -> list[Point]:
    """What of a point may suffice, the least first: that a leader moves besides need not matter."""
    plain = [point.model_copy(update={"action": Action.LOSE_REPLY})] if moves_a_leader((point,)) else []
    return [*plain, point]


def _places(schedule: Schedule) -> list[tuple[str, int, int]]:
    return [each.exchange.order for each in schedule]


def _asked(target: str, site: Site, options: Options) -> Asked:
    workload, treatment = site.ground.experiment.spec.workload, site.ground.treatment
    return Asked(
        target=target,
        messages=workload.messages,
        partitions=workload.partitions,
        in_flight=workload.in_flight,
        transactions=workload.given.model_dump_json(exclude_none=True) if workload.given is not None else "",
        messages_per_second=workload.messages_per_second,
        seed=options.seed,
        treatment={"deduplication": treatment.deduplication, "expect": treatment.expect},
        settings=site.settings,
        system=site.ground.system.model_dump_json(by_alias=True, exclude_none=True),
        versions=site.ground.admin.versions(),
    )


def _check_alone(options: Options) -> None:
    """SpecificationError for an option that would play no part in a replay."""
    given = {
        "--messages": options.shape.messages,
        "--partitions": options.shape.partitions,
        "--pairs": options.pairs or None,
        "--resume": options.resume,
    }
    for option, value in given.items():
        if value is not None:
            raise SpecificationError(
                where=option,
                got=f"{value} beside --replay",
                rule="a replay runs the witness's schedule as it is, ten times",
                todo="leave one of them out",
            )


def _root(out: Path | None, resume: Path | None) -> Path:
    """The folder of the exploration: a new one, or one that is there."""
    if resume is not None:
        if out is not None:
            raise SpecificationError(
                where="--out", got=str(out), rule="--resume names the folder already", todo="leave one of them out"
            )
        if not folders.is_one(resume):
            raise SpecificationError(
                where="--resume", got=str(resume), rule="it is the folder of an exploration", todo="name one"
            )
        return resume.absolute()
    root = out or Path("results") / f"explore-{time.strftime('%Y%m%d-%H%M%S')}"
    if root.exists():
        raise SpecificationError(
            where="--out",
            got=str(root),
            rule="it is made for this exploration, so nothing may be there",
            todo=f"name another, or go on with it: --resume {root}",
        )
    root.mkdir(parents=True)
    return root.absolute()
