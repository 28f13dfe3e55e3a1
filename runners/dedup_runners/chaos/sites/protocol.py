"""What a fault needs of the brokers' surroundings: the protocol `Site`, and the records it speaks in.

A fault needs few things of a broker beyond its protocol: to kill its process and prove the death, to see it come back,
and to see which client connections it holds. A `Site` gives them, and says what it cannot give instead of guessing. On
this machine brokers are processes under keepers (`processes`); in a cluster they are containers that the kubelet
keeps, reached by exec (`pods`); and of a system that is not ours to touch only our own end of the connections can be
seen (`outside`).
"""

from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from dedup_runners.chaos.sockets import Connection


class Victim(NamedTuple):
    """One life of one broker, which a kill is to end. `about` names it: a process id, or a pod and its container."""

    broker: str
    life: str
    """The process id, or the container's id: whatever comes after has another."""
    about: dict[str, Any]


class Death(NamedTuple):
    """The end of that life, by the word of the broker's keeper or kubelet. 137 is SIGKILL."""

    exit_code: int
    about: dict[str, Any]


class Site(Protocol):
    """All brokers of one system. Every call is bounded; what cannot be done or seen raises PlatformError."""

    restart_grace_s: float
    """How much later than asked a killed broker may start again, here."""

    def warm_up(self) -> None:
        """Connect whatever looking and killing need, so that a fault strikes within milliseconds. Harmless twice."""
        ...

    def connections(self) -> dict[str, set[Connection]]:
        """The clients' connections that each broker holds now, by its id, as the broker's own kernel tells.

        A broker that cannot be looked into now is left out: not seeing a connection is not seeing it gone.
        """
        ...

    def idle(self) -> bool:
        """Whether no broker may still read anything from a client: no connection at the brokers, none at our own end.

        One that the client has closed counts until the broker has closed it, too: requests may lie in it unread.
        """
        ...

    def victim(self, broker: str) -> Victim:
        """The broker's present life; PlatformError if it has none, or if it may not be killed here."""
        ...

    def kill(self, victim: Victim, down_s: float, *, clean: bool = False) -> None:
        """Have the broker stay down for `down_s` seconds, then SIGKILL it. It comes back even if we are gone by then.

        Returns at the first sign that it is gone; the proof is `death`. `clean`: SIGTERM it, so that it can end in
        order, and return at once.
        """
        ...

    def death(self, victim: Victim) -> Death | None:
        """How that life ended; None while its keeper has not said so."""
        ...

    def restarted(self, victim: Victim) -> dict[str, Any] | None:
        """The broker's next life, which really runs and is not held any more: its names; None while there is none."""
        ...

    def run(self, victim: Victim, script: str, *, strikes: bool = False) -> str:
        """Run a line of shell beside the broker, which names its process `$process`; what the line printed.

        One that `strikes` is run only if its pod's owner still allows it, which is asked as the last thing before.
        What the line leaves in the background goes on when we are gone. PlatformError if it cannot be run now.
        """
        ...

    def exits(self) -> int:
        """How many lives of all these brokers have ended so far: of one `Site` the number never falls."""
        ...

    def close(self) -> None:
        """Drop all connections."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
