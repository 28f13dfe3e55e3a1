"""`fillDisk`: a file takes all that is free on the disk of the leader's broker, and later it is removed.

The broker has a small disk of its own (dedup_lab/systems/disks.py). On a full disk Kafka halts, for it has no other
one. So that it comes back whoever has died, its end is announced to its keeper beforehand, for these exit codes
and for so long as the disk may be full; and a line of shell, out of the injector's reach, removes the file a little
after the end. It leaves as soon as the file is gone. Who frees the disk takes the announcement back if the broker goes
on; if nobody lives who could, it is void from the time at which the keeper would start the broker.

The witnesses are the kernel's word on what is free, when the file is there and just before the end, and the keeper's on
how the broker ended.
"""

import contextlib
import errno
import math
import os
import shlex
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker
from dedup.faults.fill_disk import GAVE_UP, PAGE_BYTES, FillDisk
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos import keepers
from dedup_runners.chaos.actions import inject, no_effect, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.sessions import Session, current, target_of
from dedup_runners.chaos.sites.protocol import Site, Victim
from dedup_runners.waiting import WaitedTooLong, until

BALLAST: Final = "ballast"
GRACE_S: Final = 1
"""So much later than asked, in whole seconds of the clock, the line of shell removes the file, if it is still there."""
STARTS_S: Final = 3.0
"""So long after the end a broker that gave up starts again: the file is gone by then, whoever has died."""
REMOVE: Final = """\
(until=$(($(date +%s) + {seconds}));
while [ -e {file} ] && [ "$(date +%s)" -lt "$until" ]; do sleep 0.2 || sleep 1; done;
rm -f {file}) </dev/null >/dev/null 2>&1 &\
""".replace("\n", " ")
SEEN_S: Final = 1.0
"""So long after the end an end of the broker may still come to light that the full disk caused."""
STEPS: Final = 64
"""So often at most the file is made larger: each time by what is free, or by half of that if it was too much."""
LED_S: Final = 2.0
"""So long who leads is asked again: long before the broker's session can have run out, another leads."""
AT_END_S: Final = 0.5


@dataclass
class _Deed:
    """Whose disk was filled, when, and what it showed."""

    broker: Broker | None = None
    victim: Victim | None = None
    struck_s: float = 0.0
    at_end: list[str] = field(default_factory=list)


def _prepare(session: Session) -> None:
    if any(broker.disk is None for broker in session.scene.endpoints.brokers):
        raise PlatformError(
            where=f"fault {session.scene.fault}",
            got="brokers that share this machine's disk",
            rule="a disk is filled that a broker has for itself",
            todo="use `dedup run`, which gives each broker one",
        )
    session.site.warm_up()
    session.watch_leader()


def _method(fault: FillDisk, latency_s: float) -> list[Activity]:
    return [action(fill_disk, duration_s=fault.duration_s), action(free_disk), action(await_restart)]


def fill_disk(duration_s: float, configuration: dict[str, Any]) -> dict[str, Any]:
    """Fill the disk of the leader (or of the broker that the scene names), and return at the end of that time."""
    session = triggered(configuration)
    leader = session.known_leader()
    if (struck := target_of(session, leader)) is None:
        no_effect(session, "nobody leads the topic")
        return {"effective": False}
    broker, victim, deed = session.scene.endpoints.broker(struck), session.site.victim(struck), session.recall(_Deed)
    had = free_bytes(broker)
    session.announce(
        FaultEvent.INJECTING, broker=struck, leader=leader, duration_s=duration_s, free_before=had, **victim.about
    )
    deed.broker, deed.victim, deed.struck_s = broker, victim, time.monotonic()
    deadline = deed.struck_s + duration_s
    starts_ns = int((deadline + STARTS_S) * 1e9)
    keepers.hold(broker, int(victim.life), starts_ns, GAVE_UP, latest_monotonic_ns=starts_ns)
    ballast(broker).touch()
    line = REMOVE.format(seconds=math.ceil(duration_s) + GRACE_S, file=shlex.quote(str(ballast(broker))))
    session.site.run(victim, line)
    size = fill(broker)
    session.stamp(FaultEvent.INJECTED)
    left = free_bytes(broker)
    if session.leaders is not None:
        leader = session.leaders.again(min(LED_S, duration_s / 2), deed.struck_s)
    if left < PAGE_BYTES:
        inject(session, touched=[struck], leader=leader, free_bytes=left, ballast_bytes=size, **victim.about)
    else:
        no_effect(session, f"{left:,} bytes are free on the disk of broker {struck}")
    time.sleep(max(0.0, deadline - AT_END_S - time.monotonic()))
    deed.at_end = [struck] if ballast(broker).exists() and free_bytes(broker) < PAGE_BYTES else []
    time.sleep(max(0.0, deadline - time.monotonic()))
    return {"broker": struck, "ballast_bytes": size, "free_at_end": free_bytes(broker)}


def free_disk(configuration: dict[str, Any]) -> dict[str, Any]:
    """Remove the file, see that there is room again, and that the broker's ends are its own again. Harmless twice."""
    session = current(configuration)
    deed = session.recall(_Deed)
    if (broker := deed.broker) is None:
        return {}
    ballast(broker).unlink(missing_ok=True)
    left, full_s = free_bytes(broker), round(time.monotonic() - deed.struck_s, 3)
    deed.broker = None
    session.note(FaultEvent.CLEARED, broker=broker.id, free=left, full_s=full_s)
    assert deed.victim is not None
    _release(session.site, broker, deed.victim)
    return {"free_bytes": left}


def _release(site: Site, broker: Broker, victim: Victim) -> None:
    """Take the announcement back, unless the broker has ended: a halt of the last moment is given time to be seen."""
    try:
        until(lambda: site.death(victim), SEEN_S, f"broker {broker.id} ends")
    except WaitedTooLong:
        keepers.unhold(broker)
    except BaseException:
        keepers.unhold(broker)
        raise


def await_restart(configuration: dict[str, Any]) -> dict[str, Any]:
    """Say how the broker fared; block until one that gave up runs again, for which it needs nothing of us."""
    session = current(configuration)
    deed, site = session.recall(_Deed), session.site
    if (victim := deed.victim) is None:
        return {}
    death = site.death(victim)  # after the announcement was taken back: an end that is not seen here is not held either
    if death is None:
        session.note(FaultEvent.EFFECT, at_end=deed.at_end)
        return {"exit_code": None}
    session.note(FaultEvent.EFFECT, at_end=deed.at_end, exit_code=death.exit_code)
    again = until(
        lambda: site.restarted(victim), STARTS_S + site.restart_grace_s, f"broker {victim.broker} runs again", 0.1
    )
    assert again is not None
    session.note(FaultEvent.RESTARTED, broker=victim.broker, exit_code=death.exit_code, **again)
    return {"exit_code": death.exit_code, **again}


def ballast(broker: Broker) -> Path:
    """The file that fills the broker's disk."""
    assert broker.disk is not None
    return broker.disk / BALLAST


def free_bytes(broker: Broker) -> int:
    """What is free on the broker's disk, by the kernel's word."""
    assert broker.disk is not None
    found = os.statvfs(broker.disk)
    return found.f_bavail * found.f_frsize


def fill(broker: Broker) -> int:
    """Have the file take what is free; how large it is then. The broker writes meanwhile, and its files grow too."""
    size = 0
    with ballast(broker).open("r+b") as file:
        for _ in range(STEPS):
            wanted = free_bytes(broker)
            while wanted >= PAGE_BYTES:
                with contextlib.suppress(_Full):
                    _grow(file.fileno(), size, wanted)
                    size += wanted
                    break
                wanted //= 2
            else:
                break
    return size


class _Full(Exception):
    """So much is not free any more."""


def _grow(file: int, size: int, more: int) -> None:
    try:
        os.posix_fallocate(file, size, more)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise _Full from None


INJECTION: Final = Injection(_prepare, _method, rollbacks=(free_disk,))
