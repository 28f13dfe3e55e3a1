"""`dedup check`: does *this* broker deduplicate? No experiment file, no Java, no cluster of ours.

The interposer stands between a producer and the brokers, and takes ten replies to messages that the broker has stored.
Once without deduplication (the control: the producer sends these messages again, and the broker stores them again), and
once with it. All else is as in every experiment: the same course of a run, the same clients, histories and judges.
The topics are ours, with names of their own, and are removed at the end, however the check ends.
"""

import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from dedup.errors import DedupError, PlatformError, SpecificationError
from dedup.experiment.endpoints import Endpoints, Security
from dedup.experiment.plans import Run, plan
from dedup.experiment.spec import Expectation, Experiment, Switch, parse
from dedup.experiment.systems import Protocol
from dedup.judgement import checks
from dedup.judgement.checks import Check, Half, Loss
from dedup.judgement.conclusions import differences
from dedup.judgement.verdicts import judge_alone
from dedup.process import machines
from dedup_lab.children import Children, OfRun
from dedup_lab.judging import judge
from dedup_lab.results import made_for
from dedup_lab.targets import Target, found, target
from dedup_lab.terminal.checks import show
from dedup_runners import admins, credentials
from dedup_runners.admins import Admin
from dedup_runners.attempt.courses import Course, Situation
from dedup_runners.chaos.sites.outside import Outside
from dedup_runners.interposer.conversations import FILE, Conversation, Done
from dedup_runners.interposer.protocols import Direction
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Act, Match, Rule
from dedup_runners.interposer.speeches import SPEECHES

COMMAND: Final = "dedup check"
CLIENTS: Final[Mapping[Protocol, Mapping[str, str]]] = {
    "kafka": {"batch.num.messages": "1", "linger.ms": "0"},
    "pulsar": {"batching_enabled": "false"},
}
"""The clients' settings with which each message is a request of its own."""
PREFIX: Final = "dedup-check-"
MESSAGES: Final = 100
STRUCK: Final = tuple(range(5, MESSAGES, 10))
"""The messages whose first reply is lost. So far apart that one loss is over before the next: five are in flight."""
IN_FLIGHT: Final = 5
RUN: Final = "60s"
"""The bound on each stage; half of it is the client's time for a message. On a busy machine the programs of a run took
ten seconds to start, and a broker that is late with its heartbeats loses its place after nine (Kafka's default)."""
JUDGED_S: Final = 60.0


def check(url: str, access: Security, *, admin: str | None, out: Path | None, as_json: bool, console: Console) -> int:
    """Check the brokers at `url`, and print the result; the exit code of the verdict.

    `access`: the brokers' TLS and authentication (`access_by`). `admin`: the address of a Pulsar's REST interface, port
    8080 of the first broker if it is None. `out`: a folder for the histories, which must not exist
    yet; else they are thrown away. A DedupError says in one line what made it impossible.
    """
    given = target(url, COMMAND, tuple(SPEECHES))
    with _folder(out) as folder, console.status("looking for the brokers") as status:
        result = _checked(given, found(given, access, admin), folder, status.update).model_copy(
            update={"folder": out and str(out)}
        )
    if as_json:
        print(result.model_dump_json())
    else:
        show(result, console)
    return result.verdict.exit_code


def _checked(given: Target, endpoints: Endpoints, folder: Path, note: Callable[[str], None]) -> Check:
    began = time.monotonic()
    experiment = _experiment(endpoints)
    with ExitStack() as leaving:
        interposer = leaving.enter_context(
            Interposer(SPEECHES[given.protocol].speech(), rules(experiment), credentials.tls(endpoints.security))
        )
        admin = leaving.enter_context(admins.connect(endpoints))
        leaving.callback(forget, admin)
        planned = sorted(plan(experiment), key=lambda run: run.variant)  # the control first: what it shows comes first
        runs = [_Run(experiment, each, endpoints, given, folder, admin, interposer) for each in planned]
        for run in runs:
            note(f"{run.name}: {MESSAGES} messages, and {len(STRUCK)} lost replies")
            run.carry_out()
        versions = admin.versions()
        note("judging")
        halves, unfair = _judged(runs, folder)
    verdict, reasons = checks.conclude(halves, unfair)
    return Check(
        url=given.url,
        verdict=verdict,
        reasons=reasons,
        halves=tuple(halves),
        versions=versions,
        seconds=round(time.monotonic() - began, 1),
    )


def rules(experiment: Experiment) -> Iterator[Rule]:
    """The replies that are lost: in each variant's session the first ones to the same messages."""
    carrier = SPEECHES[experiment.spec.systems[0].protocol].carrier
    for run in plan(experiment):
        for number in STRUCK:
            match = Match(carrier, session=run.variant, partition=0, number=number, attempt=1)
            yield Rule(f"{run.variant}: reply to message {number}", match, Act.LOSE_REPLY)


class _Run:
    """One variant's run: a course like any other, with the interposer in the clients' path."""

    def __init__(
        self,
        experiment: Experiment,
        run: Run,
        endpoints: Endpoints,
        given: Target,
        folder: Path,
        admin: Admin,
        interposer: Interposer,
    ) -> None:
        self.run, self.name, self.folder = run, run.variant, folder / "runs" / run.run_id / "attempt-1"
        self.seconds = 0.0
        self._experiment, self._admin, self._interposer = experiment, admin, interposer
        self._variant = next(each for each in experiment.spec.variants if each.name == run.variant)
        known = SPEECHES[given.protocol]
        self._carrier, doors = known.carrier, interposer.bootstrap(run.variant, given.brokers)
        self._endpoints = endpoints.model_copy(
            update={
                "client_bootstrap": known.bootstrap(doors),
                "client_security": endpoints.security.behind_tls,
                "topic_prefix": f"{PREFIX}{uuid.uuid4().hex[:8]}-",
            }
        )
        self.topic = admin.topic_name(
            f"{self._endpoints.topic_prefix}{run.run_id}-1", self._variant.deduplication is Switch.ENABLED
        )

    def carry_out(self) -> None:
        """From a fresh topic to a manifest. The topic is gone at the end, and so are the programs."""
        began = time.monotonic()
        self.folder.mkdir(parents=True)
        children = Children()
        try:
            course = Course(self._situation(children))
            with _creating(self.topic):
                course.prepare()
            course.produce()
            course.settle()
            self._interposer.conversation.save(self.folder / FILE, session=self.name)
            course.consume()
        finally:
            children.close()
            self._remove_topic()
        self.seconds = round(time.monotonic() - began, 1)

    @property
    def expectation(self) -> Expectation:
        return self._variant.expect

    def problems(self) -> list[str]:
        """What the interposer could not do."""
        return list(self._interposer.problems)

    def losses(self) -> list[Loss]:
        """The replies that were taken, by the conversation."""
        return list(losses(self._interposer.conversation, self.name, self._carrier))

    def seen(self) -> int:
        """How many messages the interposer saw on their way, each counted once."""
        rows = self._interposer.conversation.rows()
        return sum(
            row.messages or 0
            for row in rows
            if (row.session, row.api, row.direction, row.attempt) == (self.name, self._carrier, Direction.REQUEST, 1)
        )

    def _situation(self, children: Children) -> Situation:
        return Situation(
            experiment=self._experiment,
            system=self._experiment.spec.systems[0],
            variant=self._variant,
            run=self.run,
            attempt=1,
            folder=self.folder,
            endpoints=self._endpoints,
            admin=self._admin,
            site=Behind(self._endpoints, self._interposer, self.name),
            companions=OfRun(children, self.run.run_id, self.folder),
            dead=lambda: None,
            report=lambda phase, seen: None,
        )

    def _remove_topic(self) -> None:
        try:
            self._admin.delete_topic(self.topic)
        except DedupError as error:
            print(f"topic {self.topic} may be left: {error}", file=sys.stderr)


class Behind(Outside):
    """Brokers that the clients reach through the interposer only: it knows whether connections are left."""

    def __init__(self, endpoints: Endpoints, interposer: Interposer, session: str) -> None:
        super().__init__(endpoints.model_copy(update={"brokers": []}))
        self._interposer, self._session = interposer, session

    def idle(self) -> bool:
        return self._interposer.connections(self._session) == 0


def losses(conversation: Conversation, session: str, carrier: str = "Produce") -> Iterator[Loss]:
    """The replies to requests that carry messages that a session's client never got because a rule took them."""
    for row in conversation.rows():
        if (row.session, row.api, row.direction, row.done) == (session, carrier, Direction.REPLY, Done.LOST):
            values = (row.number, row.partition, row.offset, row.error_code, row.producer_id, row.base_sequence)
            number, partition, offset, error, producer_id, sequence = (-1 if each is None else each for each in values)
            yield Loss(
                message=number, partition=partition, offset=offset, error_code=error, producer_id=producer_id,
                base_sequence=sequence, monotonic_ns=row.monotonic_ns,
            )  # fmt: skip


def forget(admin: Admin) -> None:
    """Remove what was made for our topics, or say that it may be left."""
    try:
        admin.forget()
    except DedupError as error:
        print(f"namespaces may be left: {error}", file=sys.stderr)


def _judged(runs: Sequence[_Run], folder: Path) -> tuple[list[Half], list[str]]:
    """Each run's half, and where control and treatment differ besides."""
    children = Children()
    try:
        work = folder / "verification"
        work.mkdir()
        evidence = judge([run.folder for run in runs], children, work, JUDGED_S, lambda _: None, by_size=True)
    finally:
        children.close()
    halves = [
        checks.half(
            judge_alone(found, run.expectation),
            run.losses(),
            len(STRUCK),
            run.seen(),
            run.problems(),
            topic=run.topic,
            seconds=run.seconds,
        )
        for run, found in zip(runs, evidence, strict=True)
    ]
    return halves, differences([each.manifest for each in evidence if each.manifest is not None])


def _experiment(endpoints: Endpoints) -> Experiment:
    """What the check does, as an experiment: one message a batch, so that each reply is about one.

    TLS is no part of it: the interposer speaks it to the brokers, and the tester to their admin interface.
    """
    protocol = endpoints.system
    existing = {"bootstrap": endpoints.client_bootstrap}
    if protocol == "pulsar":
        brokers, admin = endpoints.client_bootstrap, endpoints.admin_urls[0]
        existing = {
            "serviceUrl": brokers.replace("pulsar+ssl:", "pulsar:"),
            "adminUrl": admin.replace("https:", "http:"),
        }
    system = {
        "name": protocol,
        protocol: {},
        "client": {"properties": CLIENTS[protocol]},
        "deploy": {"existing": existing},
    }
    spec = {
        "systems": [system],
        "workload": {"messages": MESSAGES, "inFlight": IN_FLIGHT},
        "variants": [
            {"name": "control", "deduplication": "Disabled", "expect": "Duplicates"},
            {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"},
        ],
        "timeouts": {"run": RUN},
    }
    document = {"apiVersion": "dedup.dev/v1alpha1", "kind": "DedupExperiment", "metadata": {"name": "check"}}
    return parse({**document, "spec": spec}, source=COMMAND)


@contextmanager
def _creating(topic: str) -> Iterator[None]:
    """Say what a refused topic means."""
    try:
        yield
    except PlatformError as error:
        if not error.where.startswith("creating"):
            raise
        raise PlatformError(
            where=f"creating topic {topic}",
            got=error.got,
            rule=f"the check makes topics of its own, named {PREFIX}*, and removes them at the end",
            todo="allow this client to create, write, read and delete such topics",
        ) from None


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """Where the histories go. A temporary folder is removed, unless an error names a log in it."""
    if out is not None:
        if out.exists():
            raise SpecificationError(
                where="--out",
                got=str(out),
                rule="it is made for this check, so nothing may be there",
                todo="name another",
            )
        with machines.at("--out"):
            out.mkdir(parents=True)
        with made_for(out):
            yield out
        return
    folder, keep = Path(tempfile.mkdtemp(prefix=PREFIX)), False
    try:
        yield folder
    except DedupError as error:
        keep = str(folder) in str(error)
        raise
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
