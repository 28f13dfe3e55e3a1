"""`dedup check`: does *this* broker deduplicate? No experiment file, no Java, no cluster of ours.

The interposer stands between a producer and the brokers, and takes ten replies to messages that the broker has stored.
Once without deduplication (the control: the producer sends these messages again, and the broker stores them again), and
once with it. All else is as in every experiment: the same course of a run, the same clients, histories and judges.
The topics are ours, with names of their own, and are removed at the end, however the check ends.
"""

import shutil
import socket
import ssl
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from dedup.errors import DedupError, PlatformError, SpecificationError
from dedup.experiment.deployments import PLAIN_RULE, SaslMechanism
from dedup.experiment.endpoints import Endpoints, Security
from dedup.experiment.plans import Run, plan
from dedup.experiment.spec import Expectation, Experiment, parse
from dedup.judgement import checks
from dedup.judgement.checks import Check, Half, Loss
from dedup.judgement.conclusions import differences
from dedup.judgement.verdicts import judge_alone
from dedup.process import machines
from dedup_lab.children import Children, OfRun
from dedup_lab.judging import judge
from dedup_lab.terminal.checks import show
from dedup_runners import admins, credentials
from dedup_runners.admins import Admin
from dedup_runners.admins.discoveries import discovered
from dedup_runners.attempt.courses import Course, Situation
from dedup_runners.chaos.sites.outside import Outside
from dedup_runners.interposer.conversations import FILE, Conversation, Done
from dedup_runners.interposer.kafka import Kafka
from dedup_runners.interposer.protocols import Address, Direction
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Act, Match, Rule

SCHEME: Final = "kafka://"
EXAMPLE: Final = "kafka://HOST:9092, or several brokers with commas between them"
PREFIX: Final = "dedup-check-"
MESSAGES: Final = 100
STRUCK: Final = tuple(range(5, MESSAGES, 10))
"""The messages whose first reply is lost. So far apart that one loss is over before the next: five are in flight."""
IN_FLIGHT: Final = 5
FOUND_S: Final = 10.0
REACHED_S: Final = 5.0
RUN: Final = "30s"
JUDGED_S: Final = 60.0


def check(url: str, access: Security, *, out: Path | None, as_json: bool, console: Console) -> int:
    """Check the brokers at `url`, and print the result; the exit code of the verdict.

    `access`: the brokers' TLS and authentication (`access_by`). `out`: a folder for the histories, which must not exist
    yet; else they are thrown away. A DedupError says in one line what made it impossible.
    """
    given = addresses(url)
    with _folder(out) as folder, console.status("looking for the brokers") as status:
        result = _checked(given, access, folder, status.update).model_copy(update={"folder": out and str(out)})
    if as_json:
        print(result.model_dump_json())
    else:
        show(result, console)
    return result.verdict.exit_code


def access_by(tls: bool, ca: Path | None, sasl: SaslMechanism | None, login: Path | None) -> Security:
    """The TLS and authentication that the options ask for; SpecificationError if they do not fit together."""
    if tls and ca is None:
        known = ssl.get_default_verify_paths().cafile
        if known is None:
            raise _option(
                "--tls", "no list of authorities on this machine", "a certificate is verified", "give --ca FILE"
            )
        ca = Path(known)
    if ca is not None and not ca.is_file():
        raise _option("--ca", str(ca), "it is a file with certificates (PEM)", "name one")
    if (sasl is None) != (login is None):
        given, missing = ("--login", "--sasl") if sasl is None else ("--sasl", "--login")
        raise _option(given, f"no {missing}", "a log-in has a mechanism, a user and a password", f"give {missing}, too")
    if login is not None and not all((login / name).is_file() for name in ("username", "password")):
        raise _option("--login", str(login), "it is a folder with the files username and password", "name one")
    if sasl == "PLAIN" and ca is None:
        raise _option("--sasl", "PLAIN without --tls or --ca", PLAIN_RULE, "use TLS or a SCRAM mechanism")
    return Security(ca=ca and ca.absolute(), sasl=sasl, login=login and login.absolute())


def _option(where: str, got: str, rule: str, todo: str) -> SpecificationError:
    return SpecificationError(where=where, got=got, rule=rule, todo=todo)


def addresses(url: str) -> list[Address]:
    """The brokers that a URL names; SpecificationError, which shows no password, if it is not one."""
    rest = url.removeprefix(SCHEME)
    if "@" in rest:
        raise _wrong("a URL with a user or a password in it", "a log-in is given by --sasl and --login")
    if rest == url:
        raise _wrong(url, "only Kafka is supported yet, and its URL begins with kafka://")
    return [_address(each, url) for each in rest.rstrip("/").split(",")]


def _address(text: str, url: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16 or any(each in host for each in "/: "):
        raise _wrong(url, "brokers are host:port, with commas between them")
    return Address(host, int(port))


def _wrong(got: str, rule: str) -> SpecificationError:
    return SpecificationError(where="dedup check", got=got, rule=rule, todo=f"write {EXAMPLE}")


def _checked(given: Sequence[Address], access: Security, folder: Path, note: Callable[[str], None]) -> Check:
    began = time.monotonic()
    experiment = _experiment(given)
    endpoints = brokers_at(given, access)
    with ExitStack() as leaving:
        interposer = leaving.enter_context(Interposer(Kafka(), rules(experiment), credentials.tls(access)))
        admin = leaving.enter_context(admins.connect(endpoints))
        planned = sorted(plan(experiment), key=lambda run: run.variant)  # the control first: what it shows comes first
        runs = [_Run(experiment, each, endpoints, given, folder, admin, interposer) for each in planned]
        for run in runs:
            note(f"{run.name}: {MESSAGES} messages, and {len(STRUCK)} lost replies")
            run.carry_out()
        note("judging")
        halves, unfair = _judged(runs, folder)
    verdict, reasons = checks.conclude(halves, unfair)
    return Check(
        url=SCHEME + ",".join(map(str, given)),
        verdict=verdict,
        reasons=reasons,
        halves=tuple(halves),
        versions=admin.versions(),
        seconds=round(time.monotonic() - began, 1),
    )


def rules(experiment: Experiment) -> Iterator[Rule]:
    """The replies that are lost: in each variant's session the first ones to the same messages."""
    for run in plan(experiment):
        for number in STRUCK:
            match = Match("Produce", session=run.variant, partition=0, number=number, attempt=1)
            yield Rule(f"{run.variant}: reply to message {number}", match, Act.LOSE_REPLY)


class _Run:
    """One variant's run: a course like any other, with the interposer in the clients' path."""

    def __init__(
        self,
        experiment: Experiment,
        run: Run,
        endpoints: Endpoints,
        given: Sequence[Address],
        folder: Path,
        admin: Admin,
        interposer: Interposer,
    ) -> None:
        self.run, self.name, self.folder = run, run.variant, folder / "runs" / run.run_id / "attempt-1"
        self.seconds = 0.0
        self._experiment, self._admin, self._interposer = experiment, admin, interposer
        self._variant = next(each for each in experiment.spec.variants if each.name == run.variant)
        doors = interposer.bootstrap(run.variant, given)
        self._endpoints = endpoints.model_copy(
            update={
                "client_bootstrap": ",".join(map(str, doors)),
                "client_security": endpoints.security.model_copy(update={"ca": None}),  # the interposer speaks TLS
                "topic_prefix": f"{PREFIX}{uuid.uuid4().hex[:8]}-",
            }
        )
        self.topic = f"{self._endpoints.topic_prefix}{run.run_id}-1"

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
        return list(losses(self._interposer.conversation, self.name))

    def seen(self) -> int:
        """How many messages the interposer saw on their way, each counted once."""
        rows = self._interposer.conversation.rows()
        return sum(
            row.messages or 0
            for row in rows
            if (row.session, row.api, row.direction, row.attempt) == (self.name, "Produce", Direction.REQUEST, 1)
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


def losses(conversation: Conversation, session: str) -> Iterator[Loss]:
    """The replies to Produce that a session's client never got because a rule took them."""
    for row in conversation.rows():
        if (row.session, row.api, row.direction, row.done) == (session, "Produce", Direction.REPLY, Done.LOST):
            values = (row.number, row.partition, row.offset, row.error_code, row.producer_id, row.base_sequence)
            number, partition, offset, error, producer_id, sequence = (-1 if each is None else each for each in values)
            yield Loss(
                message=number, partition=partition, offset=offset, error_code=error, producer_id=producer_id,
                base_sequence=sequence, monotonic_ns=row.monotonic_ns,
            )  # fmt: skip


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


def _experiment(given: Sequence[Address]) -> Experiment:
    """What the check does, as an experiment: one message a batch, so that each reply is about one."""
    properties = {"batch.num.messages": "1", "linger.ms": "0"}
    system = {
        "name": "kafka",
        "kafka": {},
        "client": {"properties": properties},
        "deploy": {"existing": {"bootstrap": ",".join(map(str, given))}},
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
    return parse({**document, "spec": spec}, source="dedup check")


def brokers_at(given: Sequence[Address], access: Security) -> Endpoints:
    """The brokers, by the word of one of those given; PlatformError if they cannot be reached from here."""
    bootstrap = ",".join(map(str, given))
    asked = Endpoints(
        system="kafka", client_bootstrap=bootstrap, direct_bootstrap=bootstrap, security=access, brokers=[]
    )
    how = f"{'plaintext' if access.ca is None else 'TLS'}, {access.sasl or 'without a log-in'}"
    try:
        found = discovered(asked, FOUND_S)
    except PlatformError as error:
        raise PlatformError(
            where=SCHEME + bootstrap,
            got=error.got,
            rule=f"one of these brokers says who the brokers are, on a listener as asked for: {how}",
            todo="check the address, that the broker is up, and --tls, --ca, --sasl and --login",
        ) from None
    for broker in found.brokers:
        try:
            socket.create_connection((str(broker.host), broker.client_port), REACHED_S).close()
        except OSError as error:
            raise PlatformError(
                where=f"broker {broker.id}, {broker.host}:{broker.client_port}",
                got=str(error),
                rule="every broker can be reached by the address that it gives to clients (advertised.listeners)",
                todo="run this where that address leads to the broker, or have the broker advertise another",
            ) from None
    return found


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
