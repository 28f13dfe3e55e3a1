"""All kinds of faults, and `Fault`, the part of an experiment file that holds one of them with its time.

A new kind is one module beside this one, one entry in `KINDS`, and one module of `dedup_runners.chaos.faults`, which
injects it. `Fault` has one key for each kind, of which exactly one is given.
"""

from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import Field, create_model, model_validator

from dedup.faults.chaos import Chaos
from dedup.faults.delay_tcp import DelayTCP
from dedup.faults.drop_tcp import DropTCP
from dedup.faults.fill_disk import FillDisk
from dedup.faults.kill import Kill
from dedup.faults.kill_tcp import KillTCP
from dedup.faults.kinds import FaultKind, Need, Platform
from dedup.faults.message import Message
from dedup.faults.moments import At
from dedup.faults.move_leader import MoveLeader
from dedup.faults.partition import Partition
from dedup.faults.pause import Pause
from dedup.faults.pod_delete import PodDelete
from dedup.faults.rolling_restart import RollingRestart
from dedup.faults.throttle_tcp import ThrottleTCP
from dedup.parts import Name, Part, check_one_of
from dedup.refusals import refusal

KINDS: Final[tuple[type[FaultKind], ...]] = (
    *(KillTCP, DropTCP, DelayTCP, ThrottleTCP, Kill, MoveLeader, PodDelete, Partition, Pause, RollingRestart, FillDisk),
    *(Message, Chaos),
)

UNREACHED: Final = "its brokers are not the experiment's to hurt, only its own clients' connections are"
CONSENT_TODO: Final = "write existing.podSelector, and have their owner allow it"
STRAIGHT_RULE: Final = (
    "pods of a system that is there already are struck while clients go to them straight, without a proxy"
)
STRAIGHT_TODO: Final = "make two experiments of it: faults of pods, and faults or latency of connections"
LATENCY_FAULT: Final = "latency"
"""The system's own network latency: it is injected and witnessed as a fault is, but is no kind of fault."""


def _field(kind: type[FaultKind]) -> str:
    """The attribute of a `Fault` that holds this kind: the name of the kind's module."""
    return kind.__module__.rpartition(".")[2]


class _Kinded(Part):
    """What is one of the kinds, and has a name."""

    name: Name = Field(description="what results call this fault; unique among the faults")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        check_one_of(self, {kind.key: getattr(self, _field(kind)) for kind in KINDS}, "a fault")
        if self.name == LATENCY_FAULT:
            raise refusal(
                "name", f'"{LATENCY_FAULT}"', "the system's own network latency has this name", "choose another"
            )
        return self

    @property
    def given(self) -> FaultKind:
        """The one kind that is given, with its settings and facts."""
        found = next(found for kind in KINDS if (found := getattr(self, _field(kind))) is not None)
        assert isinstance(found, FaultKind)
        return found

    @property
    def kind(self) -> str:
        return self.given.key

    @property
    def lasts_s(self) -> float:
        """How long it stays before it is healed, in seconds."""
        return self.given.lasts_s

    @property
    def privileged(self) -> bool:
        """Whether it needs more than Pod Security's level *restricted* grants."""
        return self.given.needs(Need.PRIVILEGE)

    @property
    def needs_bookies(self) -> bool:
        """Whether it strikes what only Pulsar keeps apart from its brokers."""
        return self.given.needs(Need.BOOKIES)


class _Fault(_Kinded):
    at: At = Field(description="when it begins")

    @model_validator(mode="after")
    def _counted_from_a_message(self) -> Self:
        if self.given.on_frames and self.at.message is None:
            raise refusal(
                "at",
                self.at.words,
                f"{self.kind} counts from a message on, for no clock decides which request or reply is struck",
                "write at.message",
            )
        return self


KEYS: Final[dict[str, Any]] = {
    _field(kind): (kind | None, Field(None, alias=kind.key, description=kind.summary)) for kind in KINDS
}
"""A field for each kind, of which exactly one is given."""

Kinded = _Kinded
if TYPE_CHECKING:
    Fault = _Fault
else:
    Fault = create_model(
        "Fault",
        __base__=_Fault,
        __module__=__name__,
        __doc__="One fault: when it begins, and exactly one kind of it.",
        **KEYS,
    )


def on_existing(platform: Platform | None = None) -> list[type[FaultKind]]:
    """The kinds that can be injected into an existing system, from that platform; None: from any."""
    return [kind for kind in KINDS if kind.on_existing and platform in (None, *kind.on_existing)]


def possible_on_existing(platform: Platform | None = None) -> str:
    """Their keys, in words."""
    return " or ".join(kind.key for kind in on_existing(platform))


def on_consent() -> list[type[FaultKind]]:
    """The kinds that can strike, in a cluster, pods of others that their owner allows."""
    return [kind for kind in KINDS if kind.on_consent]


def pods_of_brokers(kind: FaultKind | type[FaultKind]) -> str:
    """What else can be done if the kind strikes pods whose owner allows it, in words."""
    return f"; in a cluster name the brokers' pods: {CONSENT_TODO}" if kind.on_consent else ""


def kind_of(key: str) -> type[FaultKind] | None:
    """The kind with that key; None for the link's latency, and for a kind of another version of dedup."""
    return next((kind for kind in KINDS if kind.key == key), None)
