"""One visit: a run of the small workload in which a schedule's points are struck, from a fresh topic to a verdict.

It is a course like any other (dedup_runners/attempt/courses.py), with an interposer of its own between the producer and
the brokers, and its clients in threads. Topic, producer and interposer are this visit's alone: so visits run side by
side. The history is judged by the local engine and by the oracle; that it passed through the interposer whole, and that
the points struck, is read from the conversation.
"""

import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from dedup.errors import DedupError, PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup.experiment.plans import Run, deduplicates
from dedup.experiment.points import Exchange, Schedule, name_of
from dedup.experiment.spec import Expectation, Experiment, System, Variant
from dedup.experiment.workloads import Workload
from dedup.judgement.counts import FORBIDDEN
from dedup.judgement.explorations import Visit
from dedup.judgement.verdicts import Code, Reason, RunVerdict, Verdict, judge_alone, worst
from dedup.workloads.kinds import subject_of
from dedup.workloads.transactions import Transactions
from dedup_lab.checks import Behind
from dedup_lab.children import Children
from dedup_lab.exploring import strikes
from dedup_lab.exploring.explanations import explain
from dedup_lab.exploring.moving import Moving
from dedup_lab.exploring.protocols import EXPLORED
from dedup_lab.exploring.strikes import Speaker
from dedup_lab.exploring.threads import Threads
from dedup_lab.judging import judge
from dedup_runners import credentials
from dedup_runners.admins import Admin
from dedup_runners.attempt.courses import Course, Situation
from dedup_runners.configs import Program
from dedup_runners.interposer.conversations import FILE, Row
from dedup_runners.interposer.protocols import Address, Direction
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.speeches import SPEECHES, Known

PREFIX: Final = "dedup-explore-"
SESSION: Final = "producer"
JUDGED_S: Final = 60.0
SEED: Final = 0


class Ground(NamedTuple):
    """What all visits stand on. `brokers`: where a client finds them. `dead`: which process of ours died, in words."""

    experiment: Experiment
    treatment: Variant
    control: Variant
    endpoints: Endpoints
    brokers: Sequence[Address]
    admin: Admin
    cancelled: threading.Event
    dead: Callable[[], str | None] = lambda: None
    program: Program | None = None
    """How the client is started, if it is a program."""

    @property
    def system(self) -> System:
        return self.experiment.spec.systems[0]

    @property
    def known(self) -> Known:
        """The protocol, as the interposer speaks it."""
        return SPEECHES[self.system.protocol]

    def smaller(self, messages: int, transaction_size: int | None = None) -> "Ground":
        """The same with another number of messages, and of those in a transaction."""
        spec = self.experiment.spec
        update: dict[str, object] = {"messages": messages}
        if transaction_size is not None and spec.workload.given is not None:
            kind = spec.workload.given.model_copy(update={"size": transaction_size})
            update[kind.key] = kind
        workload = spec.workload.model_copy(update=update)
        changed = self.experiment.model_copy(update={"spec": spec.model_copy(update={"workload": workload})})
        return self._replace(experiment=changed)


class Visited(NamedTuple):
    """A visit, what its client asked of the brokers, and the APIs of which a request had no success."""

    visit: Visit
    exchanges: frozenset[Exchange]
    failed: frozenset[str] = frozenset()


def visit(ground: Ground, schedule: Schedule, folder: Path, *, deduplication: bool = True) -> Visited:
    """Run a schedule once. `folder` is made, and kept unless nothing in it is of interest.

    A DedupError says why it could not be done; Cancelled is raised if `ground.cancelled` was set.
    """
    began = time.monotonic()
    run = _Run(ground, schedule, folder, ground.treatment if deduplication else ground.control)
    try:
        with (
            Moving(ground.admin, run.topic, schedule) as moving,
            Interposer(
                ground.known.speech(), strikes.rules(schedule, run.speaker), run.tls, moving.struck
            ) as interposer,
        ):
            moving.happen = interposer.release
            interposer.conversation.follow(strikes.following(schedule, run.speaker, interposer.happen))
            rows = run.carry_out(interposer)
            problems = [*interposer.problems, *moving.problems]
    finally:  # the course has removed it when all went well, but says nothing if it could not
        run.remove_topic()
    missed = strikes.missed(rows, schedule, run.speaker)
    unnoticed = strikes.unnoticed(rows, schedule, run.speaker)
    judged = _judged(folder, run.variant.expect)
    reasons = [
        *_of_history(judged, struck=bool(schedule) and not missed),
        *_of_conversation(rows, problems, judged, run),
    ]
    if missed and not any(reason.verdict in (Verdict.FAIL, Verdict.ERROR) for reason in reasons):
        reasons = [Reason(verdict=Verdict.INCONCLUSIVE, code=Code.FAULT_VACUOUS, text="; ".join(missed))]
    verdict = worst(reason.verdict for reason in reasons)
    counts, anomalies = judged.counts, {} if judged.void else _anomalies(judged)
    found = Visit(
        schedule=schedule,
        deduplication=deduplication,
        messages=ground.experiment.spec.workload.messages,
        missed=tuple(missed),
        unnoticed=tuple(unnoticed),
        verdict=verdict,
        reasons=tuple(reasons),
        transaction_size=size_of(ground.experiment.spec.workload),
        anomalies=anomalies,
        copies=getattr(counts, run.subject.count) if counts is not None else 0,
        unknown=_unknown(judged),
        explanation=(
            explain(rows, schedule, run.speaker, anomalies, judged.witnesses, judged.backward) if anomalies else ""
        ),
        seconds=round(time.monotonic() - began, 3),
        folder=str(folder),
    )
    if verdict is Verdict.PASS or (not deduplication and verdict is Verdict.INCONCLUSIVE):
        shutil.rmtree(folder, ignore_errors=True)
        found = found.model_copy(update={"folder": None})
    return Visited(found, frozenset(strikes.exchanges(rows, run.speaker)), frozenset(strikes.failed(rows, run.speaker)))


def size_of(workload: Workload) -> int | None:
    """How many messages a transaction has; None: they are sent in none."""
    return workload.given.size if isinstance(workload.given, Transactions) else None


class _Run:
    """The run of a visit: its topic is gone at the end, however it ends."""

    def __init__(self, ground: Ground, schedule: Schedule, folder: Path, variant: Variant) -> None:
        self.variant, self.folder = variant, folder
        self.tls = credentials.tls(ground.endpoints.security)
        name = f"{uuid.uuid4().hex[:8]}-{name_of(schedule)}"  # also of the producer: of two with one id one is fenced
        self._run = Run(run_id=name, system=ground.system.name, variant=variant.name, number=1, seed=SEED)
        self.subject = subject_of(ground.experiment.spec.workload.of(variant))
        self._ground, self._given_up = ground, False
        self.topic = ground.admin.topic_name(f"{PREFIX}{name}-1", deduplicates(variant))
        explored = EXPLORED[ground.system.library]
        client_id = explored.client_id(ground.system.client.properties, f"{name}-1")
        self.speaker = Speaker(explored.dialect, client_id)

    def carry_out(self, interposer: Interposer) -> list[Row]:
        """From a fresh topic to a manifest; what was said until the producer had left: a consumer may say no name."""
        self.folder.mkdir(parents=True)
        security = self._ground.endpoints.security.behind_tls
        doors = interposer.bootstrap(SESSION, self._ground.brokers)
        endpoints = self._ground.endpoints.model_copy(
            update={
                "client_bootstrap": self._ground.known.bootstrap(doors),
                "client_security": security,
                "topic_prefix": PREFIX,
            }
        )

        def ended(role: str) -> None:
            if role == "producer" and not self._given_up:  # else the interposer is closed by now
                with suppress(RuntimeError, PlatformError):
                    interposer.release(strikes.END)

        course = Course(
            Situation(
                experiment=self._ground.experiment,
                system=self._ground.system,
                variant=self.variant,
                run=self._run,
                attempt=1,
                folder=self.folder,
                endpoints=endpoints,
                admin=self._ground.admin,
                site=Behind(endpoints, interposer, SESSION),
                companions=Threads(self._run.run_id, self._ground.cancelled, ended),
                dead=self._ground.dead,
                report=lambda phase, seen: None,
                program=self._ground.program,
            )
        )
        try:
            course.prepare()
            course.produce()
            course.settle()
            rows = interposer.conversation.rows()
            interposer.conversation.save(self.folder / FILE)
            course.consume()
            return rows
        except BaseException:
            self._given_up = True
            raise

    def remove_topic(self) -> None:
        """Its producer is cut off by now: it might have a broker make the topic again. One that is gone is no error."""
        try:
            self._ground.admin.delete_topic(self.topic)
        except DedupError as error:
            print(f"topic {self.topic} may be left: {error}", file=sys.stderr)


def _judged(folder: Path, expectation: Expectation) -> RunVerdict:
    children = Children()
    try:
        (evidence,) = judge([folder], children, folder, JUDGED_S, lambda _: None, by_size=True)
    finally:
        children.close()
    return judge_alone(evidence, expectation)


def _anomalies(judged: RunVerdict) -> dict[str, int]:
    """The counts that the verdict accuses of."""
    failed = {reason.code for reason in judged.reasons if reason.verdict is Verdict.FAIL}
    names = [name for name in FORBIDDEN[judged.expectation] if name in failed]
    return {name: getattr(judged.counts, name) for name in names}


def _unknown(judged: RunVerdict) -> int:
    counts = judged.counts
    return 0 if counts is None else counts.unknown


def _of_history(judged: RunVerdict, *, struck: bool) -> list[Reason]:
    """What the judges say, but that the run was calm, and that sends ended unknown if a fault planned it."""
    beside = {Code.CALM, *((Code.UNCERTAIN_SENDS,) if struck else ())}
    left = [reason for reason in judged.reasons if reason.code not in beside]
    clean = Reason(verdict=Verdict.PASS, code=Code.CLEAN, text="the judges found nothing")
    return left or [clean]


def _of_conversation(rows: Sequence[Row], problems: Sequence[str], judged: RunVerdict, run: _Run) -> list[Reason]:
    """Errors of the interposer, which would make the rest worthless."""
    carrier = run.speaker.dialect.carrier
    seen = sum(
        row.messages or 0 for row in rows if (row.api, row.direction, row.attempt) == (carrier, Direction.REQUEST, 1)
    )
    found = list(problems)
    if judged.counts is not None and seen < judged.counts.positive_ack:
        found.append(f"the interposer saw {seen:,} messages, and {judged.counts.positive_ack:,} were acknowledged")
    return [Reason(verdict=Verdict.ERROR, code=Code.PROBLEM, text=each) for each in found]
