"""Where an exploration takes place: brokers that run already, or those of an experiment file, started for it.

Of a file an exploration takes the system, the client's settings, the workload's shape and the variants. Its faults are
left out: an exploration has its own.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from dedup.errors import SpecificationError
from dedup.experiment.endpoints import Endpoints, Security
from dedup.experiment.plans import deduplicates
from dedup.experiment.spec import Expectation, Experiment, Switch, System, Variant, load, parse
from dedup.workloads.transactions import Isolation, Transactions
from dedup_lab import caches, checks, java, targets
from dedup_lab import clients as programs
from dedup_lab.exploring.protocols import EXPLORED, FIRST, words
from dedup_lab.exploring.visits import Ground
from dedup_lab.systems import labs
from dedup_lab.systems.running import RunningSystem
from dedup_runners import admins, clients
from dedup_runners.configs import Program
from dedup_runners.interposer.protocols import Address
from dedup_runners.interposer.speeches import SPEECHES

COMMAND: Final = "dedup explore"
MESSAGES: Final = 20
MOST_MESSAGES: Final = 1_000
PARTITIONS: Final = 2
IN_FLIGHT: Final = 5
RUN: Final = "60s"


class Access(NamedTuple):
    """How a URL's brokers are reached: TLS and log-in, and the address of a Pulsar's admin interface if it is given."""

    security: Security = Security()
    admin: str | None = None


class Shape(NamedTuple):
    """The workload, as far as the command line gives it."""

    messages: int | None = None
    partitions: int | None = None
    transaction_size: int | None = None
    """Of a file's transactions, for a replay; None: the file's. 0: it was explored without transactions."""


class Site(NamedTuple):
    """What is explored: `ground`, the settings that are not the client's defaults, and what was left out of a file."""

    ground: Ground
    settings: dict[str, str]
    notes: tuple[str, ...]


@contextmanager
def standing(
    target: str,
    access: Access,
    shape: Shape,
    logs: Path,
    cancelled: threading.Event,
    note: Callable[[str], None],
) -> Iterator[Site]:
    """The ground of a URL's brokers, or of a file's, which are started and ended here."""
    with ExitStack() as leaving:
        if any(target.startswith(f"{each}://") for each in FIRST):
            named = targets.target(target, COMMAND, tuple(FIRST))
            given = named.brokers
            if shape.transaction_size:
                rule = "its schedule is of a file's transactions, and brokers have none of their own"
                raise _wrong(target, "a witness with transactions", rule, "name the file that was explored")
            note("looking for the brokers")
            endpoints, dead = targets.found(named, access.security, access.admin), _nobody
            experiment, notes = _small(_document(given, endpoints), target, shape), tuple[str, ...]()
            check(experiment, target, program := _program(experiment, note))
            admin = leaving.enter_context(admins.connect(endpoints))
            leaving.callback(checks.forget, admin)
        else:
            _check_access(access, target)
            experiment, notes = of_file(load(Path(target)), target, shape)
            check(experiment, target, program := _program(experiment, note))
            running = leaving.enter_context(_started(experiment.spec.systems[0], logs, note))
            endpoints, admin, dead = running.endpoints, running.admin, running.dead
            given = SPEECHES[endpoints.system].brokers(endpoints.client_bootstrap)
        experiment, settings = stepped(experiment)
        variants = variants_of(experiment, target)
        ground = Ground(experiment, *variants, endpoints, given, admin, cancelled, dead, program)
        yield Site(ground, settings, notes)


def _check_access(access: Access, target: str) -> None:
    """SpecificationError for an option that says how brokers are reached: a file's have neither TLS nor a log-in."""
    security = access.security
    options = {
        "--sasl": security.sasl,
        "--token": security.token,
        "--cert": security.certificate,
        "--tls or --ca": security.ca,
        "--admin": access.admin,
    }
    for option, given in options.items():
        if given is not None:
            rule = "a file's brokers are started here, and are reached without"
            raise _wrong(option, f"the file {target}", rule, "leave it out, or name a URL")


def _nobody() -> str | None:
    """Brokers that are not ours may die: nobody tells us."""
    return None


def of_file(experiment: Experiment, target: str, shape: Shape) -> tuple[Experiment, tuple[str, ...]]:
    """The small experiment that an exploration makes of a file's, and what it left out, in words."""
    spec, notes = experiment.spec, []
    system = spec.systems[0]
    if system.protocol == "pulsar" and spec.workload.in_transactions and shape.transaction_size != 0:
        rule = "no transactions of Pulsar are explored"
        raise _wrong(target, f"workload.transactions of {system.library}", rule, "name a file with Kafka's")
    if len(spec.systems) != 1 or system.library not in EXPLORED:
        kinds = ", ".join(f"{each.name} ({each.kind}, {each.library})" for each in spec.systems)
        raise _wrong(target, kinds, f"explored is {words()}", "name a file with one")
    if changed := [each.name for each in spec.variants if each.client is not None]:
        rule = f"it is explored with {system.library}"
        raise _wrong(target, f"a client of variant {changed[0]}", rule, "take it out")
    if system.existing is not None:
        todo = f"name them: {system.protocol}://HOST:PORT"
        raise _wrong(target, "an unmanaged system", "a file's brokers are started here", todo)
    messages = shape.messages or spec.workload.messages
    if messages > MOST_MESSAGES:
        notes.append(f"{MESSAGES} messages instead of {messages:,}: --messages gives another number")
        messages = MESSAGES
    if spec.all_faults:
        notes.append(f"the file's faults are left out: {', '.join(each.name for each in spec.all_faults)}")
    document = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    partitions = shape.partitions or spec.workload.partitions
    in_flight = min(spec.workload.in_flight, messages)
    kept = {name: document["spec"][name] for name in ("systems", "variants")}
    workload: dict[str, Any] = {"messages": messages, "partitions": partitions, "inFlight": in_flight}
    given = spec.workload.given if shape.transaction_size != 0 else None
    if isinstance(given, Transactions):
        _check_aborts(given, target)
        if (rate := spec.workload.messages_per_second) is not None:
            workload["messagesPerSecond"] = rate
        workload[given.key] = document["spec"]["workload"][given.key]
        workload[given.key]["size"] = shape.transaction_size or given.size
    if dropped := list(_dropped(experiment, workload.keys(), target)):
        notes.append(f"left out of the file: {', '.join(dropped)}")
    document["spec"] = {**kept, "workload": workload, "timeouts": {"run": RUN}}
    return parse(document, source=target), tuple(notes)


def _dropped(experiment: Experiment, kept: Collection[str], target: str) -> Iterator[str]:
    """What of a file's workload, beside what is `kept` of it, link, timeouts and variants plays no part."""
    spec, explored = experiment.spec, variants_of(experiment, target)
    kind = [] if spec.workload.given is None else [spec.workload.given]
    yield from (f"workload.{part.key}" for part in (*spec.workload.others, *kind) if part.key not in kept)
    if spec.workload.messages_per_second is not None and "messagesPerSecond" not in kept:
        yield "workload.messagesPerSecond"
    if spec.systems[0].network.latency_s:
        yield "network.latency"
    if spec.timeouts.delivery_s is not None:
        yield "timeouts.delivery"
    yield from (f"variant {each.name}" for each in spec.variants if each not in explored)


def _check_aborts(given: Transactions, target: str) -> None:
    if given.zombie is not None:
        raise _wrong(target, "workload.transactions.zombie", "one instance of the producer is explored", "take it out")
    if given.abort is None:
        rule = "only what is aborted can be read although it was not committed"
        raise _wrong(target, "workload.transactions without abort", rule, "write abort: {every: 2}")


def _program(experiment: Experiment, note: Callable[[str], None]) -> Program | None:
    """How the client is started, if it is a program; built if need be."""
    return programs.program(experiment.spec.systems[0], experiment.folder, lambda what, *_: note(what))


def check(experiment: Experiment, target: str, program: Program | None = None) -> None:
    """Let the client library itself say whether it takes the settings; SpecificationError if it does not."""
    whole, _ = stepped(experiment)
    workload, system = whole.spec.workload, whole.spec.systems[0]
    for variant in variants_of(experiment, target):
        clients.check(system.library, system.client.properties, deduplicates(variant), workload.in_flight, program)


def _document(given: Sequence[Address], found: Endpoints) -> Experiment:
    protocol = found.system
    existing = EXPLORED[FIRST[protocol]].existing(given, found)
    system = {"name": protocol, protocol: {}, "deploy": {"existing": existing}}
    spec: dict[str, Any] = {
        "systems": [system],
        "workload": {"messages": MESSAGES, "partitions": PARTITIONS, "inFlight": IN_FLIGHT},
        "variants": [{"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}],
        "timeouts": {"run": RUN},
    }
    document = {"apiVersion": "dedup.dev/v1alpha1", "kind": "DedupExperiment", "metadata": {"name": "explore"}}
    return parse({**document, "spec": spec}, source=COMMAND)


def _small(experiment: Experiment, target: str, shape: Shape) -> Experiment:
    document = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    asked = {"messages": shape.messages, "partitions": shape.partitions}
    document["spec"]["workload"] |= {name: value for name, value in asked.items() if value is not None}
    return parse(document, source=target)


def stepped(experiment: Experiment) -> tuple[Experiment, dict[str, str]]:
    """The experiment with the settings that a stepped workload needs, and those settings. A file could not give all."""
    (system,) = experiment.spec.systems
    explored = EXPLORED[system.library]
    settings = {**explored.impatient, **system.client.properties, **explored.stepped}
    client = system.client.model_copy(update={"properties": settings})
    systems = [system.model_copy(update={"client": client})]
    spec = experiment.spec.model_copy(update={"systems": systems})
    return experiment.model_copy(update={"spec": spec}), settings


def variants_of(experiment: Experiment, target: str) -> tuple[Variant, Variant]:
    """The treatment, and the control: the file's, or one of ours."""
    treatment = next((each for each in experiment.spec.variants if each.expect.forbids_copies), None)
    if treatment is None:
        names = ", ".join(each.name for each in experiment.spec.variants)
        raise _wrong(target, f"the variants {names}", "one must forbid copies", "give one expect: ExactlyOnce")
    control = next((each for each in experiment.spec.variants if each.expect is Expectation.DUPLICATES), None)
    return treatment, control or (UNCOMMITTED if experiment.spec.workload.in_transactions else WITHOUT)


WITHOUT: Final = Variant(name="without", deduplication=Switch.DISABLED, expect=Expectation.DUPLICATES)
UNCOMMITTED: Final = Variant.model_validate(
    {
        "name": "uncommitted",
        "deduplication": Switch.ENABLED,
        "expect": Expectation.DUPLICATES,
        "workload": {Transactions.key: {"read": Isolation.UNCOMMITTED}},
    }
)


@contextmanager
def _started(system: System, logs: Path, note: Callable[[str], None]) -> Iterator[RunningSystem]:
    java.find()
    caches.check()
    labs.sweep()
    running = RunningSystem.start(system, proxied=False, logs=logs, note=note)
    try:
        yield running
    finally:
        running.close()


def _wrong(where: str, got: str, rule: str, todo: str) -> SpecificationError:
    return SpecificationError(where=where, got=got, rule=rule, todo=todo)
