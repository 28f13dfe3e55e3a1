"""What a kind of fault declares: its settings, how long it lasts, what it needs, and which witnesses it must have.

A kind is a class below `FaultKind`. Its fields are its settings in an experiment file, its class variables are facts
about the kind, and its docstring is its description. Nothing else in the project asks which kind a fault is of: it asks
the kind for these facts.
"""

from enum import StrEnum
from typing import ClassVar, Final, NamedTuple

from dedup.parts import Part
from dedup.wire.faults import Detail


class Platform(StrEnum):
    """Where brokers run."""

    PROCESSES = "processes"
    PODS = "pods"


EVERYWHERE: Final = (Platform.PROCESSES, Platform.PODS)


class Need(StrEnum):
    """What not every system or experiment has."""

    BOOKIES = "bookies"
    """The system stores messages in processes of their own, as only Pulsar does."""
    POLICIES = "policies"
    """A NetworkPolicy of ours decides alone who reaches a broker. It is left in the cluster until it is healed."""
    PRIVILEGE = "privilege"
    """The fault may do more than Pod Security's level *restricted* permits."""


class Right(NamedTuple):
    """What a run may do in the brokers' namespace because of a fault; `by_name`: to its own brokers' pods only."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    by_name: bool


class Choice(NamedTuple):
    """A value of a setting that needs something. Words after `{system}` are for a refusal of ours, `said` for CEL's."""

    field: str
    value: StrEnum
    need: Need
    rule: str
    todo: str
    said: str
    rights: tuple[Right, ...] = ()


class Docs(NamedTuple):
    """What docs/faults.md says of a kind, in Markdown: one line for each question, and a paragraph of details."""

    deed: str
    ends: str
    target_witness: str
    client_witness: str
    undone_by: str
    details: str = ""


class FaultKind(Part):
    """The settings of one kind of fault, and the facts about the kind."""

    key: ClassVar[str]
    """The key of a fault in an experiment file that chooses this kind."""
    summary: ClassVar[str]
    """The description of that key, in a phrase."""
    docs: ClassVar[Docs]

    lasting: ClassVar[str | None] = None
    """The field that says how many seconds it lasts until it is healed; None: it is over at once."""
    platforms: ClassVar[tuple[Platform, ...]] = EVERYWHERE
    through_proxy: ClassVar[bool] = False
    """It acts on the clients' connections, so a proxy must stand in their path."""
    on_existing: ClassVar[bool] = False
    """It can be done to a system that the experiment has not deployed."""
    rights: ClassVar[tuple[Right, ...]] = ()
    choices: ClassVar[tuple[Choice, ...]] = ()
    in_every_digest: ClassVar[bool] = False
    """The kind is as old as the digest of an experiment, which contains its key even if a fault is of another kind."""

    of_one_broker: ClassVar[bool] = True
    """It strikes one broker, not the connections to all. What a client notices of another broker is not its doing."""
    moves_leader: ClassVar[bool] = True
    """It can make another broker the leader."""
    must_last: ClassVar[bool] = False
    """The target must show the effect a second time, just before the end."""
    effect: ClassVar[str] = "cut off"
    """What became of the leader, in words."""

    @property
    def lasts_s(self) -> float:
        """How long it stays before it is healed, in seconds."""
        return float(getattr(self, self.lasting)) if self.lasting is not None else 0.0

    @property
    def settings(self) -> dict[str, float | str]:
        """Its settings, under the names by which its injector writes them down."""
        given = {name: getattr(self, name) for name in type(self).model_fields if name != "target"}
        return {name: value.value if isinstance(value, StrEnum) else value for name, value in given.items()}

    @property
    def chosen(self) -> list[Choice]:
        """Those of its `choices` that its settings make."""
        return [choice for choice in self.choices if getattr(self, choice.field) == choice.value]

    @property
    def all_rights(self) -> list[Right]:
        """What a run may do because of it, with these settings."""
        return [*self.rights, *(right for choice in self.chosen for right in choice.rights)]

    def needs(self, need: Need) -> bool:
        """Whether it needs that, with these settings."""
        return any(choice.need is need for choice in self.chosen)

    @property
    def words(self) -> str:
        """What it does, in a phrase with its settings."""
        raise NotImplementedError

    @classmethod
    def ends_life(cls, shown: Detail) -> bool:
        """Whether a fault that has shown this has ended a broker's process or container."""
        return False

    @classmethod
    def alias(cls, field: str) -> str:
        """The key of a field in an experiment file."""
        return cls.model_fields[field].alias or field
