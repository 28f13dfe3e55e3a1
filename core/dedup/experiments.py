"""The experiment: the one file that people write, for `dedup run` and for `kubectl apply` alike.

It names systems, a workload, variants of the thing under test, faults, and a number of runs. Everything in it is
checked here, before anything is started: unknown keys are refused, durations carry units, a fault lies within the
workload. Field names in the file are camelCase and enum values CamelCase, as in every Kubernetes resource.
"""

import hashlib
import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from dedup.errors import SpecificationError
from dedup.quantities import Seconds

LATENCY_FAULT = "latency"

Name = Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$", max_length=40)]
Version = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+){1,3}(-[A-Za-z0-9.]+)?$", max_length=32)]


class Part(BaseModel):
    """A part of an experiment: frozen, camelCase in the file, unknown keys refused, nothing coerced."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, strict=True
    )


class Expectation(StrEnum):
    """What a variant promises; each is a set of counts that must be zero (design.md §7)."""

    EXACTLY_ONCE = "ExactlyOnce"
    AT_LEAST_ONCE = "AtLeastOnce"
    AT_MOST_ONCE = "AtMostOnce"
    DUPLICATES = "Duplicates"
    NONE = "None"


class Switch(StrEnum):
    """A setting that is on or off; an enum, because a third state may come."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class Kafka(Part):
    """A Kafka to deploy: combined KRaft nodes, replication 3, min ISR 2."""

    version: Version = "4.3.1"
    brokers: Literal[3] = 3


class Pulsar(Part):
    """A Pulsar to deploy: ensemble 3, write quorum 3, ack quorum 2."""

    version: Version = "4.2.4"
    brokers: Literal[3] = 3
    bookies: Literal[3] = 3


class Client(Part):
    """Which client library sends and reads, and the settings to give it, under its own names."""

    library: Literal["confluent-kafka", "pulsar-client"] | None = None
    properties: Annotated[
        dict[Annotated[str, Field(max_length=128)], Annotated[str, Field(max_length=1024)]], Field(max_length=64)
    ] = Field(default_factory=dict)


class Network(Part):
    """What lies between clients and brokers for the whole of every run."""

    latency_s: Seconds = Field(0.0, alias="latency", le=10)


class System(Part):
    """One messaging system under test: exactly one of `kafka` and `pulsar`."""

    name: Name
    kafka: Kafka | None = None
    pulsar: Pulsar | None = None
    client: Client = Client()
    network: Network = Network()

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.kafka is None) == (self.pulsar is None):
            raise ValueError("a system is exactly one of kafka and pulsar; give one of the two keys")
        if self.client.library not in (None, self.library):
            raise ValueError(f"client.library {self.client.library} does not speak to {self.kind}; use {self.library}")
        return self

    @property
    def kind(self) -> Literal["kafka", "pulsar"]:
        return "kafka" if self.kafka is not None else "pulsar"

    @property
    def version(self) -> str:
        deployed = self.kafka or self.pulsar
        assert deployed is not None
        return deployed.version

    @property
    def library(self) -> Literal["confluent-kafka", "pulsar-client"]:
        return "confluent-kafka" if self.kind == "kafka" else "pulsar-client"


class Workload(Part):
    """One producer sends rising integers as fast as it can, at most `inFlight` of them unacknowledged."""

    messages: int = Field(ge=1, le=10_000_000_000)
    in_flight: int = Field(10_000, ge=1, le=1_000_000)
    partitions: int = Field(1, ge=1, le=1024)


class Variant(Part):
    """One setting of the thing under test, and what it is expected to do."""

    name: Name
    deduplication: Switch
    expect: Expectation


class At(Part):
    """When a fault begins: when the producer's own counter passes this message."""

    message: int = Field(ge=1)


class KillTCP(Part):
    """Reset every client connection to every broker, over and over, for a time."""

    target: Literal["Clients"] = "Clients"
    duration_s: Seconds = Field(alias="duration", gt=0, le=3600)


class Kill(Part):
    """SIGKILL the broker that leads the partition (Kafka) or owns the topic (Pulsar); start it again later."""

    target: Literal["Leader"] = "Leader"
    restart_after_s: Seconds = Field(alias="restartAfter", ge=0, le=3600)


class MoveLeader(Part):
    """Move the partition's leader, or the topic's ownership, to another broker without any failure."""

    target: Literal["Leader"] = "Leader"


class Fault(Part):
    """One fault: when it begins, and exactly one kind of it."""

    name: Name
    at: At
    kill_tcp: KillTCP | None = Field(None, alias="killTCP")
    kill: Kill | None = None
    move_leader: MoveLeader | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if sum(kind is not None for kind in (self.kill_tcp, self.kill, self.move_leader)) != 1:
            raise ValueError("a fault is exactly one of killTCP, kill and moveLeader; give one of the keys")
        if self.name == LATENCY_FAULT:
            raise ValueError(f'"{LATENCY_FAULT}" is the name of the system\'s own network latency; choose another')
        return self

    @property
    def kind(self) -> Literal["killTCP", "kill", "moveLeader"]:
        if self.kill_tcp is not None:
            return "killTCP"
        return "kill" if self.kill is not None else "moveLeader"


class Timeouts(Part):
    """Bounds on the stages: a stage that takes longer is cancelled and counts as an error."""

    provision_s: Seconds = Field(900.0, alias="provision", gt=0)
    run_s: Seconds = Field(600.0, alias="run", gt=0, description="each of prepare, produce, settle and consume")
    verify_s: Seconds = Field(900.0, alias="verify", gt=0)
    teardown_s: Seconds = Field(600.0, alias="teardown", gt=0)


class Spec(Part):
    """What is to be done. Defaults live here; nothing that runs an experiment ever writes to it."""

    systems: Annotated[list[System], Field(min_length=1, max_length=8)]
    workload: Workload
    variants: Annotated[list[Variant], Field(min_length=1, max_length=8)]
    runs: int = Field(1, ge=1, le=1000, description="of each variant on each system")
    confidence_percent: float | None = Field(None, gt=0, lt=100)
    seed: int = Field(0, ge=0, le=2**53)
    faults: Annotated[list[Fault], Field(max_length=16)] = Field(default_factory=list)
    timeouts: Timeouts = Timeouts()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for what, names in (
            ("systems", [system.name for system in self.systems]),
            ("variants", [variant.name for variant in self.variants]),
            ("faults", [fault.name for fault in self.faults]),
        ):
            for index, name in enumerate(names):
                if name in names[:index]:
                    raise _refusal(
                        f"{what}[{index}].name", f'"{name}"', f"another of the {what} has this name", "rename one of them"
                    )
        for index, fault in enumerate(self.faults):
            if fault.at.message > self.workload.messages:
                raise _refusal(
                    f"faults[{index}].at.message",
                    str(fault.at.message),
                    f"the last message is {self.workload.messages}, and a fault must begin while messages are sent",
                    "name an earlier message or send more",
                )
        if self.workload.messages < self.workload.partitions:
            raise _refusal(
                "workload.messages",
                str(self.workload.messages),
                f"there are {self.workload.partitions} partitions and each gets at least one message",
                "send more or use fewer partitions",
            )
        return self


class Metadata(Part):
    """The resource's name. Labels, annotations and a namespace are Kubernetes' business, and accepted."""

    name: Name
    namespace: Annotated[str, Field(max_length=63)] | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class Experiment(Part):
    """A `DedupExperiment` resource."""

    api_version: Literal["dedup.dev/v1alpha1"]
    kind: Literal["DedupExperiment"]
    metadata: Metadata
    spec: Spec

    @property
    def name(self) -> str:
        return self.metadata.name

    def digest(self) -> str:
        """A sha256 of everything that decides what the experiment does; equal digests mean the same experiment."""
        canonical = json.dumps(self.spec.model_dump(mode="json", by_alias=True), sort_keys=True)
        return hashlib.sha256(f"{self.name}\n{canonical}".encode()).hexdigest()

    def with_changes(
        self, *, runs: int | None = None, messages: int | None = None, systems: Sequence[str] = ()
    ) -> "Experiment":
        """The same experiment, smaller: what `dedup run --runs --messages --system` asks for."""
        document = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        spec = document["spec"]
        if runs is not None:
            spec["runs"] = runs
        if messages is not None:
            spec["workload"]["messages"] = messages
        if systems:
            known = [system.name for system in self.spec.systems]
            if unknown := [name for name in systems if name not in known]:
                raise SpecificationError(
                    where="--system",
                    got=unknown[0],
                    rule=f"the experiment's systems are {', '.join(known)}",
                    todo="name one of them",
                )
            spec["systems"] = [system for system in spec["systems"] if system["name"] in systems]
        return parse(document, source="the command line's changes to " + self.name)


def load(path: Path) -> Experiment:
    """Read and check an experiment file; SpecificationError in one line if it is wrong."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise SpecificationError(
            where=str(path), got=reason, rule="an experiment is a YAML file", todo="give the path of one; see examples/"
        ) from None
    try:
        document = yaml.load(text, Loader=_StrictLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SpecificationError(
            where=where, got=problem, rule="an experiment is one YAML document", todo="mend the YAML at that line"
        ) from None
    return parse(document, source=str(path))


def parse(document: object, *, source: str) -> Experiment:
    """Check a document that was read from `source`."""
    if not isinstance(document, dict):
        raise SpecificationError(
            where=source,
            got=type(document).__name__ if document is not None else "nothing",
            rule="an experiment is a mapping with apiVersion, kind, metadata and spec",
            todo="start from one of examples/",
        )
    try:
        return Experiment.model_validate_json(json.dumps(document, default=str))
    except ValidationError as error:
        raise _readable(error, source) from None


def json_schema() -> dict[str, Any]:
    """The JSON schema of an experiment file, for editors and for `dedup schema`."""
    return Experiment.model_json_schema(by_alias=True)


def _refusal(where: str, got: str, rule: str, todo: str) -> PydanticCustomError:
    """A rule that spans several keys: it names the key that breaks it."""
    return PydanticCustomError("refusal", "{rule}; {todo}", {"where": where, "got": got, "rule": rule, "todo": todo})


def _readable(error: ValidationError, source: str) -> SpecificationError:
    problems = error.errors(include_url=False)
    first = problems[0]
    location = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    message = first["msg"].removeprefix("Value error, ")
    rule, _, todo = message.partition("; ")
    if first["type"] == "extra_forbidden":
        rule, todo = "no such key is known here", "mend its spelling or take it out (dedup schema lists the keys)"
    elif first["type"] == "missing":
        rule, todo = "this key is required", "add it"
    got = "nothing" if first["type"] == "missing" else _short(first.get("input"))
    if first["type"] == "refusal":
        location, got = f"{location}.{first['ctx']['where']}", first["ctx"]["got"]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return SpecificationError(
        where=f"{source}: {location or 'document'}",
        got=got,
        rule=rule,
        todo=(todo or "change it so (dedup schema tells the rules)") + more,
    )


def _short(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(map(str, value)) + "}"
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


class _StrictLoader(yaml.SafeLoader):
    """YAML that refuses a key given twice; plain YAML silently keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'the key "{key.value}" is given twice', key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)
