"""What an exploration must know of a protocol: what carries messages, what comes by chance, how a client waits."""

from collections.abc import Mapping
from typing import NamedTuple

NOTHING: Mapping[str, str] = {}


class Dialect(NamedTuple):
    """The requests of one protocol, by their names in a conversation."""

    carrier: str
    """It carries messages: a batch, which has a number among those of its partition, and is sent again as the same."""
    opening: str
    """The first request of each connection. Another connection's is no retry, so a stall of it ends at the end only."""
    logins: frozenset[str] = frozenset()
    """What else is asked before a connection is of use."""
    by_timers: Mapping[str, str] = NOTHING
    """Requests that come when their time has come, and why: no two conversations have the same."""
    later: Mapping[str, str] = NOTHING
    """The same, but for the first one of each."""
    in_transactions: tuple[str, ...] = ()
    """What a producer asks in each of its transactions."""
    ends_transaction: str = ""
    joins_transaction: frozenset[str] = frozenset()
    """By which something joins a transaction. Until it is answered the coordinator refuses whatever ends it."""
    returns_by: str = ""
    """By which a client takes its producer's place again, on another connection; empty: it just sends."""
    parting: frozenset[str] = frozenset()
    """By which a client takes its leave: it does not ask again."""
    waits: bool = False
    """A client waits for an answer as long as its connection lives. So a stall ends the client's side of it."""
    bare: int | None = None
    """The sequence number of a batch without deduplication; None: what it has with it."""
    already: int | None = None
    """The error that says that a batch is stored already; None: that is said without an error."""
    put_off: int | None = None
    """The error that says that nothing is wrong, and that the client is to ask again soon."""
