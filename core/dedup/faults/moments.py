"""When a fault begins: at a message, some time after the first send, or some time after the effect of another fault.

The producer tells each fault that its moment has come. It counts its messages itself, it knows when its first send was,
and it hears of every fault's effect; so all moments are on one clock, and what is in flight then is what a fault hits.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple, Protocol, Self

from pydantic import Field, model_validator

from dedup.parts import Name, Part
from dedup.quantities import Seconds, format_duration
from dedup.refusals import refusal

FIRST_SEND: Final = ""
"""What times are counted from, where that is no other fault."""


class At(Part):
    """When a fault begins: `message` or `after`; with `fault`, the time is counted from that one's effect."""

    message: int | None = Field(
        None, ge=1, description="the fault begins when this many messages were sent; at most the last"
    )
    after_s: Annotated[Seconds, Field(ge=0, le=24 * 3600)] | None = Field(
        None,
        alias="after",
        description="the fault begins so long after the first send, or after the effect of `fault`; at most 24h",
    )
    fault: Name | None = Field(None, description="another fault of the experiment, from whose effect `after` counts")

    @model_validator(mode="after")
    def _one_moment(self) -> Self:
        if (self.message is None) == (self.after_s is None):
            given = "both" if self.message is not None else "neither"
            raise refusal(
                "message",
                given,
                "a fault begins at a message or after a time",
                "write {message: 50000}, {after: 5s} or {fault: NAME, after: 2s}",
            )
        if self.fault is not None and self.after_s is None:
            raise refusal("fault", self.fault, "only a time is counted from another fault's effect", "write after")
        return self

    @property
    def time(self) -> str | None:
        """The moment in words, if it is no message; what a manifest records."""
        if self.after_s is None:
            return None
        since = "the first send" if self.fault is None else f"the effect of {self.fault}"
        return f"{format_duration(self.after_s)} after {since}"

    @property
    def words(self) -> str:
        """The moment in words: `at message 50,000`, `5s after the first send`."""
        return self.time or f"at message {self.message:,}"


class Begins(Protocol):
    """What is asked of a fault here."""

    @property
    def name(self) -> str: ...

    @property
    def at(self) -> At: ...

    @property
    def kind(self) -> str: ...

    @property
    def lasts_s(self) -> float: ...


class Wrong(NamedTuple):
    """Why a moment cannot be: the fault's place in the list, its key, and the words of the refusal."""

    place: int
    key: str
    got: str
    rule: str
    todo: str


def wrong(faults: Sequence[Begins]) -> Wrong | None:
    """The first fault that waits for one that is not there, or for itself, or strikes while its like is in force."""
    named = {fault.name: fault for fault in faults}
    for index, fault in enumerate(faults):
        if fault.at.fault is not None and fault.at.fault not in named:
            rule = f"the experiment's faults are {', '.join(named)}"
            return Wrong(index, "at.fault", fault.at.fault, rule, "name one of them")
        if since(fault, named) is None:
            rule = "it waits for a fault that waits for it"
            return Wrong(index, "at.fault", str(fault.at.fault), rule, "let one of them begin at a message or a time")
    for index, fault in enumerate(faults):
        for other in faults[:index]:
            if _together(fault, other, named):
                rule = (
                    f"fault {other.name} of the same kind is still in force then, and whose effect is seen "
                    "cannot be told"
                )
                return Wrong(index, "at", fault.at.words, rule, "let one begin when the other is over")
    return None


def since(fault: Begins, named: dict[str, Any]) -> tuple[str, float] | None:
    """What a fault's time is counted from in the end (the first send, or a fault at a message), and how long.

    Of a fault at a message: itself. None if it waits for itself.
    """
    after_s, seen = 0.0, {fault.name}
    while fault.at.fault is not None:
        after_s += fault.at.after_s or 0.0
        fault = named[fault.at.fault]
        if fault.name in seen:
            return None
        seen.add(fault.name)
    if fault.at.after_s is None:
        return fault.name, after_s
    return FIRST_SEND, after_s + fault.at.after_s


def _together(one: Begins, other: Begins, named: dict[str, Begins]) -> bool:
    """Whether two faults of one kind are in force at the same time, as far as that is known before the run.

    What begins at a message is not known in time, and its overlap with others shows in their witnesses only.
    """
    mine, its = since(one, named), since(other, named)
    if one.kind != other.kind or mine is None or its is None or mine[0] != its[0]:
        return False
    earlier, later = sorted(((mine[1], one.lasts_s), (its[1], other.lasts_s)))
    return earlier[0] == later[0] or later[0] < earlier[0] + earlier[1]
