"""The workload of an experiment: what the clients do in every run, and what a variant changes of that."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from pydantic import Field, create_model, model_validator

from dedup.experiment.clients import Sender, is_program
from dedup.experiment.variants import Expectation, Switch, Variant
from dedup.parts import Part
from dedup.refusals import refusal
from dedup.workloads.consumer import Consumer
from dedup.workloads.keys import Keys
from dedup.workloads.kinds import MOST_MESSAGES, Impossible, Shape, WorkloadKind, WorkloadPart, homes_of
from dedup.workloads.partitioners import PARTITIONER, PARTITIONERS, TRIED
from dedup.workloads.payload import Payload
from dedup.workloads.registry import KINDS, OTHERS, changed, fields
from dedup.workloads.replication import Replication
from dedup.workloads.services import Pattern

OF_COMMITS: Final = (Expectation.COMMITTED_ONCE, Expectation.DUPLICATES, Expectation.NONE)
"""What variants of a workload with transactions may expect; `Duplicates` is the control, which shows its subject."""
ONE_KIND: Final = f"a workload has at most one of {', '.join(kind.key for kind in KINDS)}"


class _Workload(Part):
    messages: int = Field(ge=1, le=10_000_000_000, description="how many messages each run sends, over all partitions")
    in_flight: int = Field(10_000, ge=1, le=1_000_000, description="the most messages that may be unacknowledged")
    partitions: int = Field(1, ge=1, le=1024, description="of the topic; each gets a rising sequence of its own")
    messages_per_second: int | None = Field(
        None, ge=1, le=1_000_000, description="the most that are sent in a second; as fast as it goes if left out"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [kind.key for kind in KINDS if getattr(self, kind.key) is not None]
        if len(given) > 1:
            raise refusal(given[1], f"{given[0]} beside it", ONE_KIND, "keep one of them")
        return self

    @property
    def given(self) -> WorkloadKind | None:
        """The kind that is given; None: each message is sent once, in one session."""
        return next((found for kind in KINDS if (found := getattr(self, kind.key)) is not None), None)

    @property
    def in_transactions(self) -> bool:
        """Whether the producer sends in transactions."""
        return self.given is not None and self.given.in_transactions

    @property
    def others(self) -> Iterator[WorkloadPart]:
        """The parts that are given beside the kind."""
        yield from (found for part in OTHERS if (found := getattr(self, part.key)) is not None)

    @property
    def payload_bytes(self) -> int | None:
        """How large a message is to be; None: as few bytes as it takes."""
        payload: Payload | None = getattr(self, Payload.key)
        return None if payload is None else payload.bytes

    @property
    def streams(self) -> int:
        """How many rising sequences there are: one a key, or one a partition, of each producer."""
        return self.partitions if self._spread is None else self._spread.streams(self.partitions)

    def homes(self, library: Sender, properties: Mapping[str, str]) -> tuple[int, ...]:
        """The partition that each stream is sent to, by this client with these settings."""
        if self._spread is None:
            return homes_of(self.partitions)
        return self._spread.homes(library, properties, self.partitions)

    @property
    def has_keys(self) -> bool:
        """Whether messages have keys, and the client chooses their partitions."""
        return getattr(self, Keys.key) is not None

    def tried(self, library: Sender) -> tuple[str, ...] | None:
        """The versions of a client of which it is known where they put these messages, as it says them; None: all."""
        return TRIED.get(library) if self.has_keys else None

    @property
    def _spread(self) -> WorkloadPart | None:
        """The part that says which streams there are, if one does: keys, for they stand beside no kind, or the kind."""
        keys: Keys | None = getattr(self, Keys.key)
        return self.given if keys is None else keys

    def served(self, variants: Sequence[Variant]) -> set[Pattern]:
        """The patterns of the services among these variants' applications: a service needs more than brokers."""
        kinds = [self.of(variant) for variant in variants]
        return {kind.service.pattern for kind in kinds if isinstance(kind, Consumer) and kind.service is not None}

    def works(self, variants: Sequence[Variant]) -> bool:
        """Whether some of these variants' applications are functions: a function worker runs them."""
        return any(isinstance(kind, Consumer) and kind.function is not None for kind in map(self.of, variants))

    def beside(self, variants: Sequence[Variant]) -> str | None:
        """The setting for which more than its brokers must be started; None: there is none."""
        if self.replicated:
            return Replication.key
        if self.served(variants):
            return "consumer.service"
        return "consumer.function" if self.works(variants) else None

    @property
    def replicated(self) -> bool:
        """Whether a second cluster must be started, to which the topic is replicated."""
        return isinstance(self.given, Replication)

    @property
    def coordinated(self) -> bool:
        """Whether brokers coordinate transactions: the producer's, or those of an application."""
        return self.in_transactions or (isinstance(self.given, Consumer) and self.given.writes)

    def of(self, variant: Variant) -> WorkloadKind | None:
        """The kind with what the variant changes of it."""
        return None if self.given is None else changed(self.given, variant.workload)


if TYPE_CHECKING:
    Workload = _Workload
else:
    Workload = create_model(
        "Workload",
        __base__=_Workload,
        __module__=__name__,
        __doc__="Producers, one unless more are given, send rising integers as fast as they can, at most `inFlight` of "
        "them unacknowledged.",
        **fields(),
    )


class Tested(NamedTuple):
    """A system as far as a workload depends on it."""

    name: str
    protocol: str
    library: Sender
    version: str
    """Of the client; empty: the one that is installed."""
    properties: Mapping[str, str]
    """The client's own settings."""


def check_workload(workload: Workload, variants: Sequence[tuple[Variant, Sequence[Tested]]]) -> None:
    """Raise a refusal if a variant's workload cannot be done with one of the systems, as they are in it.

    Or if it does not fit its promise.
    """
    check_promises(workload, [variant for variant, _ in variants])
    for index, (variant, systems) in enumerate(variants):
        for kind in KINDS:
            if getattr(variant.workload, kind.key, None) is not None and getattr(workload, kind.key) is None:
                raise refusal(
                    f"variants[{index}].workload.{kind.key}",
                    variant.name,
                    f"a variant changes what the workload has, and workload.{kind.key} is not there",
                    f"write workload.{kind.key}, or take this out",
                )
        own_kind, given = workload.of(variant), workload.given
        unlike = own_kind.unlike(given) if own_kind is not None and given is not None else None
        wrong = unlike or _impossible(workload, own_kind, systems)
        if wrong is not None:
            key, _, field = wrong.field.partition(".")
            own = getattr(getattr(variant.workload, key, None), field.partition(".")[0], None) is not None
            where = f"variants[{index}].workload" if own else "workload"
            raise refusal(f"{where}.{wrong.field}", wrong.got, wrong.rule, wrong.todo)


def check_promises(workload: Workload, variants: Sequence[Variant]) -> None:
    """Raise a refusal if a variant promises something about commits that its workload does not make, or the reverse."""
    given = workload.given
    for index, variant in enumerate(variants):
        if given is None or not given.in_transactions:
            if variant.expect is Expectation.COMMITTED_ONCE:
                raise refusal(
                    f"variants[{index}].expect",
                    variant.expect,
                    "nothing is committed without transactions",
                    "write ExactlyOnce, or give workload.transactions",
                )
            continue
        if variant.deduplication is not Switch.ENABLED:
            raise refusal(
                f"variants[{index}].deduplication",
                variant.deduplication,
                "what is promised of transactions takes deduplication: Kafka's transactional producer is idempotent",
                "write Enabled; a control differs in workload.transactions: read (Kafka), or send (Pulsar)",
            )
        own = workload.of(variant)
        if variant.expect is Expectation.COMMITTED_ONCE and own is not None and (why := own.promises_nothing):
            rule, todo = why
            raise refusal(f"variants[{index}].expect", variant.expect, rule, f"{todo}, or write Duplicates")
        if variant.expect not in OF_COMMITS:
            raise refusal(
                f"variants[{index}].expect",
                variant.expect,
                "of transactions it is promised that what was committed is read once, and nothing else",
                f"write one of {', '.join(OF_COMMITS)}",
            )


def _impossible(workload: Workload, kind: WorkloadKind | None, systems: Sequence[Tested]) -> Impossible | None:
    if kind is not None and workload.messages > MOST_MESSAGES:
        rule = f"with {kind.key} each message is kept track of, and at most {MOST_MESSAGES:,}"
        return Impossible("messages", str(workload.messages), rule, "send fewer")
    for each in systems if not workload.has_keys else ():
        if each.library in PARTITIONERS and PARTITIONER in each.properties:
            rule = f"system {each.name}: without keys the producer names the partition of each message"
            return Impossible("keys", "none, and a partitioner", rule, f"give keys, or take {PARTITIONER} out")
    parts = [*workload.others, *([] if kind is None else [kind])]
    for part in parts:
        for each in systems:
            program = is_program(each.library, each.version)
            if wrong := part.impossible_with(each.protocol, each.library, each.properties, is_program=program):
                return wrong._replace(rule=f"system {each.name}: {wrong.rule}")
    shape = Shape(workload.messages, workload.in_flight, workload.partitions, kind.key if kind is not None else "")
    return next(filter(None, (part.impossible(shape) for part in parts)), None)
