"""How an effect names the order that caused it, and the life of the service that had it: in a call, a row, an event."""

from typing import NamedTuple, Self


class Order(NamedTuple):
    """An order: who took it, where it lies in the log, and its stream and value."""

    life: int
    partition: int
    offset: int
    stream: int
    value: int

    @classmethod
    def of_text(cls, text: str) -> Self:
        """The order that `text` names; ValueError if it names none."""
        return cls(*map(int, text.split()))

    @property
    def text(self) -> str:
        """As an event names it."""
        return " ".join(map(str, self))


def events_of(topic: str) -> str:
    """The topic of a service's events, of a topic of orders."""
    return f"{topic}-events"
