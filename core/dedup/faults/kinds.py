"""What a kind of fault declares: its settings, how long it lasts, what it needs, and which witnesses it must have.

A kind is a subclass of `FaultKind`. Its fields are its settings in an experiment file, its class variables are facts
about the kind, and its docstring is its description. Other code uses these facts and never tests which kind a fault is.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple, Self

from pydantic import model_validator

from dedup.parts import Part
from dedup.refusals import refusal
from dedup.wire.clients import Noticed
from dedup.wire.faults import Detail


class Platform(StrEnum):
    """Where brokers run."""

    PROCESSES = "processes"
    PODS = "pods"


EVERYWHERE: Final = (Platform.PROCESSES, Platform.PODS)


class Need(StrEnum):
    """Something that only some systems or experiments have."""

    KAFKA = "kafka"
    """Every system speaks Kafka's protocol."""
    PULSAR = "pulsar"
    """Every system speaks Pulsar's protocol."""
    BOOKIES = "bookies"
    """The system stores messages in processes of their own, as only Pulsar does."""
    OWN_BOOKIES = "ownBookies"
    """Every Pulsar is the experiment's own: of one that is there already nobody tells which pods store its messages."""
    POLICIES = "policies"
    """Our NetworkPolicy alone decides who reaches a broker. It stays in the cluster until it is healed."""
    PRIVILEGE = "privilege"
    """The fault may do more than Pod Security's level *restricted* permits."""
    TRANSACTIONS = "transactions"
    """The producer sends in transactions."""
    PROCESSES = "processes"
    """Brokers and clients are processes of one machine."""


class Right(NamedTuple):
    """A right that a fault needs in the brokers' namespace; `by_name`: only for the pods of the run's own brokers."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    by_name: bool


class Choice(NamedTuple):
    """A value of a setting that has a need. `rule` and `todo` are for our refusal, `said` is for the CEL rule's."""

    field: str
    value: StrEnum
    need: Need
    rule: str
    todo: str
    said: str
    rights: tuple[Right, ...] = ()


class OnlyWith(NamedTuple):
    """A setting that means something with one value of another setting only; `needed`: there it must be given."""

    field: str
    other: str
    value: StrEnum
    needed: bool
    rule: str


class Docs(NamedTuple):
    """The text on a kind in docs/faults.md, in Markdown: one line for each question, and a paragraph of details.

    `client_witness` is what is to be said beside the kind's `notices`.
    """

    action: str
    ends: str
    target_witness: str
    undone_by: str
    client_witness: str = ""
    details: str = ""


A_BROKER: Final = "a broker"


class FaultKind(Part):
    """The settings of one kind of fault, and the facts about the kind."""

    key: ClassVar[str]
    """The key that chooses this kind in an experiment file."""
    summary: ClassVar[str]
    """The description of that key, in a phrase."""
    docs: ClassVar[Docs]

    lasting: ClassVar[str | None] = None
    """The field that holds its duration until the heal, in seconds; None: it is over at once."""
    platforms: ClassVar[tuple[Platform, ...]] = EVERYWHERE
    through_proxy: ClassVar[bool] = False
    """It acts on the clients' connections, so a proxy must stand in their path."""
    on_existing: ClassVar[tuple[Platform, ...]] = ()
    """From where it can be injected into a system that the experiment has not deployed: this machine, or a pod."""
    on_consent: ClassVar[bool] = False
    """In a cluster it can strike pods of brokers that are there already, if their owner allows it by a label."""
    replaces_pod: ClassVar[bool] = False
    """It ends a pod, whose controller must make another of the same name."""
    on_frames: ClassVar[bool] = False
    """It strikes a single request or reply, so an interposer must stand in the producer's path.

    What it struck stands for "unacknowledged, and more to send".
    """
    own_networks: ClassVar[bool] = False
    """Where brokers are processes, each must have a network of its own."""
    own_disks: ClassVar[bool] = False
    """Where brokers are processes, each must have a small disk of its own."""
    newer: ClassVar[Mapping[str, object]] = MappingProxyType({})
    """Settings that are newer than the kind, by their keys: a digest leaves these defaults out."""
    single: ClassVar[str] = ""
    """Why an experiment can have one such fault at most; empty: it can have several."""
    only_with: ClassVar[tuple[OnlyWith, ...]] = ()
    rights: ClassVar[tuple[Right, ...]] = ()
    choices: ClassVar[tuple[Choice, ...]] = ()
    not_in_pods: ClassVar[str] = ""
    """Why the operator refuses a kind that is not for pods, in words that follow "pods"; empty: it is for pods."""
    in_every_digest: ClassVar[bool] = False
    """Every digest contains the kind's key, even if a fault is of another kind: the kind is as old as the digest."""

    of_one_broker: ClassVar[bool] = True
    """It strikes one broker, not the connections to all. Signs at clients of another broker are not its effect."""
    notices: ClassVar[frozenset[Noticed]]
    """What a client notices of it. A disturbance of another kind is not its effect."""
    must_last: ClassVar[bool] = False
    """The target must show the effect a second time, just before the end."""
    every_strike: ClassVar[bool] = False
    """It strikes several brokers one after the other, each while messages are still sent."""
    effect: ClassVar[str] = "cut off"
    """The state of the leader, in words."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        for each in self.only_with:
            given, key = getattr(self, each.field) is not None, self.alias(each.field)
            here = getattr(self, each.other) == each.value
            if given and not here:
                todo = f"take it out, or write {each.value} as {self.alias(each.other)}"
                raise refusal(key, f"{self.alias(each.other)} {getattr(self, each.other)}", each.rule, todo)
            if here and each.needed and not given:
                raise refusal(key, "nothing", each.rule, f"write {key}")
        return self

    @property
    def lasts_s(self) -> float:
        """How long it stays before it is healed, in seconds."""
        given = getattr(self, self.lasting) if self.lasting is not None else None
        return 0.0 if given is None else float(given)

    @property
    def settings(self) -> dict[str, float | str]:
        """Its settings, under the names that its injector records; without those that are not given."""
        given = {name: getattr(self, name) for name in type(self).model_fields if name != "target"}
        found = {name: value.value if isinstance(value, StrEnum) else value for name, value in given.items()}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def victim(self) -> str:
        """What it strikes, with these settings, in words."""
        return A_BROKER

    @property
    def group(self) -> str:
        """Among which processes of a system its victim is, with these settings: the field of its endpoints."""
        return "brokers"

    @property
    def needs_hold(self) -> bool:
        """Whether, with these settings, whom it strikes must be kept from starting again for a time."""
        return False

    @property
    def brings(self) -> str | None:
        """A text that its injector needs besides its settings."""
        return None

    @property
    def chosen(self) -> list[Choice]:
        """The `choices` that match its settings."""
        return [choice for choice in self.choices if getattr(self, choice.field) == choice.value]

    @property
    def all_rights(self) -> list[Right]:
        """The rights that it needs, with these settings."""
        return [*self.rights, *(right for choice in self.chosen for right in choice.rights)]

    def needs(self, need: Need) -> bool:
        """Whether it needs that, with these settings."""
        return any(choice.need is need for choice in self.chosen)

    @property
    def words(self) -> str:
        """What it does, in a phrase with its settings."""
        raise NotImplementedError

    @classmethod
    def denied(cls, shown: Detail) -> str:
        """What the target has shown that contradicts the effect, in words; empty if nothing does.

        An injector that notes no effect says so itself. This holds its word against its own witness once more.
        """
        return ""

    @classmethod
    def ends_life(cls, shown: Detail) -> bool:
        """Whether a fault that has shown this has ended a broker's process or container."""
        return False

    @classmethod
    def alias(cls, field: str) -> str:
        """The key of a field in an experiment file."""
        return cls.model_fields[field].alias or field
