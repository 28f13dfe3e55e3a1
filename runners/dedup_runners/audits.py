"""What the audit asks of brokers where there are transactions: what holds no message, and what keeps it from the end.

Both systems mark the end of a transaction in each partition's log, and give no reader of committed messages what lies
behind the beginning of an open one. How that is asked for is theirs (admins/transactions.py, pulsar_transactions.py).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, cast

from dedup.errors import PlatformError
from dedup.experiment import systems
from dedup.wire.manifests import EndPosition
from dedup_runners import admins
from dedup_runners.admins import pulsar_transactions, transactions
from dedup_runners.clients import Rows
from dedup_runners.watches import Watch

MOST_WORDS: Final = 10
Ends = tuple[EndPosition, ...]


class Reader(Protocol):
    """A reader that can come to its end before the topic ends."""

    subscription: str

    def drained(self) -> list[Rows]:
        """What of any partition has come and was not read, behind its end, too; PlatformError if it is not known."""
        ...


class Transacted(Protocol):
    """A topic in which transactions are."""

    def readable(self, ends: Ends) -> Ends:
        """The ends as a reader of committed messages can come to them, once no transaction is open."""
        ...

    def behind(self, ends: Ends, client: object) -> tuple[str | None, list[Rows]]:
        """What brokers have not offered to a reader that came to its end, in words; and what it was given since then.

        All was given to it if it is (None, []). PlatformError if that cannot be asked.
        """
        ...

    def proven(self, ends: Ends, unread: Sequence[admins.Hole], *, committed: bool) -> Ends:
        """The ends, with what of these entries is proven to hold no message. PlatformError if that cannot be asked."""
        ...

    def kept(self, ask: Callable[[], Ends], unread: Callable[[Ends], Sequence[admins.Hole]]) -> tuple[Ends, list[str]]:
        """What keeps a reader from the end now, in words; and the ends, with what they tell of it.

        `ask`: for the ends; `unread`: what was not read of them.
        """
        ...

    def overdue(self) -> bool:
        """Whether something that keeps it was to have ended by now."""
        ...


class OfKafka:
    """Kafka's: markers need not be told apart from messages that are still to come, for offsets go on behind them."""

    def __init__(self, admin: admins.Admin, topic: str) -> None:
        self._admin, self._topic = cast(transactions.Reads, admin), topic
        self._watch = Watch(lambda: cast(transactions.Describes, admin).open_transactions(topic))

    def readable(self, ends: Ends) -> Ends:
        return ends

    def behind(self, ends: Ends, client: object) -> tuple[str | None, list[Rows]]:
        return None, []

    def proven(self, ends: Ends, unread: Sequence[admins.Hole], *, committed: bool) -> Ends:
        return tuple(transactions.proven(self._admin, self._topic, ends, unread, committed=committed))

    def kept(self, ask: Callable[[], Ends], unread: Callable[[Ends], Sequence[admins.Hole]]) -> tuple[Ends, list[str]]:
        ends, stable = ask(), self._admin.stable_offsets(self._topic)
        self._watch.look()
        return self._watch.named(ends, stable), self._watch.words()

    def overdue(self) -> bool:
        return self._watch.overdue()


class OfPulsar:
    """Pulsar's. A topic ends with a marker, which no reader is given. How long one may be open is not watched."""

    def __init__(self, admin: admins.Admin, topic: str) -> None:
        self._found = pulsar_transactions.Transacted(cast(pulsar_transactions.Reads, admin), topic)
        self._readable: tuple[Ends, Ends] = ((), ())
        self._asked_s = 0.0

    def readable(self, ends: Ends) -> Ends:
        again = self._found.unsure and time.monotonic() - self._asked_s >= admins.READ_AGAIN_PAUSE_S
        if again or self._readable[0] != ends:
            self._readable, self._asked_s = (ends, self._found.readable(ends)), time.monotonic()
        return self._readable[1]

    def behind(self, ends: Ends, client: object) -> tuple[str | None, list[Rows]]:
        reader = cast(Reader, client)
        held_back = self._found.held_back(ends, reader.subscription)  # first: what was sent by then is drained
        found = reader.drained()
        if held_back is None and not found:  # who lost the connection meanwhile is offered all again
            held_back = self._found.held_back(ends, reader.subscription)
        return held_back, found

    def proven(self, ends: Ends, unread: Sequence[admins.Hole], *, committed: bool) -> Ends:
        return tuple(self._found.proven(ends, unread))

    def kept(self, ask: Callable[[], Ends], unread: Callable[[Ends], Sequence[admins.Hole]]) -> tuple[Ends, list[str]]:
        ends = ask()
        return ends, self._found.open(ends, unread(ends))

    def overdue(self) -> bool:
        return False


OF: Final[Mapping[systems.Protocol, Callable[[admins.Admin, str], Transacted]]] = {"kafka": OfKafka, "pulsar": OfPulsar}


def words(
    transacted: Transacted, ask: Callable[[], Ends], unread: Callable[[Ends], Sequence[admins.Hole]]
) -> tuple[Ends | None, str]:
    """As `kept`, in one text; None instead of ends if nobody tells them."""
    try:
        ends, found = transacted.kept(ask, unread)
    except PlatformError as error:
        return None, f"; which transactions are open is not known: {error}"
    return ends, "".join(f"; {each}" for each in found[:MOST_WORDS])
