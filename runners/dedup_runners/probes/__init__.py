"""Probes: one question about deduplication each, asked of a running broker by a producer of our own making.

Faults find out by chance what a broker does with a batch that it has already, or with one that has a gap before it. A
probe sends just that batch, and needs no fault and no luck: a second a rule. Client libraries would not send it, so
`kafka_topics` speaks the protocol itself; Pulsar's client lets its user choose sequence ids (`pulsar_topics`).

A *probe* is a record (`Rule`: what is tried, what the seed claims, what is expected of which version) and one function,
which is given a topic that is there for it alone. The lists are `kafka.PROBES` and `pulsar.PROBES`: the command, its
table and that of docs/probes.md are made from them. What the function returns rests on the log, read back to its end.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from dedup.errors import PlatformError
from dedup.judgement.probes import Row, Rule, Seen, Version, row
from dedup_runners.admins import NotLetIn

PREFIX: Final = "dedup-probes-"
"""What the names of all topics and namespaces begin with that probes make."""
TRIES: Final = 3
"""So often a rule is tried that the brokers are too busy for, each time on a fresh topic."""
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class NotSeen(Exception):
    """The rule could not be tried, and why, in words."""


class NotNow(NotSeen):
    """Another broker leads the topic than the one that was asked, or a replica was too slow: busy machines do both."""


class NotMade(PlatformError):
    """No topic could be made, so no rule can be tried."""


@contextmanager
def making(what: str) -> Iterator[None]:
    """Make something for a probe: what goes wrong is NotMade, and says what must be allowed."""
    try:
        yield
    except NotLetIn:
        raise
    except (PlatformError, OSError) as error:
        raise NotMade(
            where=f"creating {what}",
            got=error.got if isinstance(error, PlatformError) else str(error),
            rule=f"probes make topics of their own, named {PREFIX}* (on Pulsar namespaces, too), and remove them",
            todo="allow this client to create, write, read and delete such topics",
        ) from None


@dataclass(frozen=True)
class Probe(Generic[T]):
    """One rule and how it is tried. `ask` may raise NotSeen, PlatformError or OSError: then it was not seen."""

    rule: Rule
    ask: Callable[[T], Seen]


class Brokers(Protocol[T_co]):
    """Running brokers as probes see them."""

    def version(self) -> tuple[Version, str]:
        """Their version, for what is expected of it, and in words."""
        ...

    def topic(self, name: str) -> AbstractContextManager[T_co]:
        """A fresh topic, with whatever a producer can say to it. It is removed at the end, however that comes."""
        ...


def asked(brokers: Brokers[Any], probes: Sequence[Probe[Any]], version: Version) -> Iterator[Row]:
    """Try one rule after the other. NotMade or NotLetIn if none can be tried."""
    for probe in probes:
        began = time.monotonic()
        for tries_left in reversed(range(TRIES)):
            seen, busy = _tried(brokers, probe)
            if not busy or not tries_left:
                break
        yield row(probe.rule, version, seen, time.monotonic() - began)


def _tried(brokers: Brokers[Any], probe: Probe[Any]) -> tuple[Seen | str, bool]:
    """What was seen on a topic of its own, or why nothing was; and whether that is because brokers were busy."""
    with brokers.topic(probe.rule.name) as topic:
        try:
            return probe.ask(topic), False
        except (NotLetIn, NotMade):
            raise
        except (NotSeen, PlatformError, OSError) as error:
            return str(error), isinstance(error, NotNow)
