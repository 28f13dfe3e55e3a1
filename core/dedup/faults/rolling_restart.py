"""`rollingRestart`: all brokers are restarted one after the other, the leader first, as an upgrade does it."""

from enum import StrEnum
from typing import Final

from pydantic import Field

from dedup.faults.kill import KILLED
from dedup.faults.kinds import Docs, FaultKind, Platform
from dedup.quantities import Seconds
from dedup.wire.clients import Noticed
from dedup.wire.faults import Detail

CLEAN: Final = (0, 143)
"""The exit codes of a program that ended in order after SIGTERM: a JVM ends with 143."""


class Stop(StrEnum):
    """How each broker ends."""

    CLEAN = "Clean"
    KILL = "Kill"


class RollingRestart(FaultKind):
    """Restart all brokers one after the other; the next one ends when the last one is whole again."""

    stop: Stop = Field(
        Stop.CLEAN, description="Clean is SIGTERM, at which a broker hands over what it leads; Kill is SIGKILL"
    )
    restart_after_s: Seconds = Field(
        0.0, alias="restartAfter", ge=0, le=600, description="how long each broker stays down at least, at most 10m"
    )
    rest_s: Seconds = Field(
        2.0, alias="rest", ge=0, le=600, description="how long all brokers run between two restarts, at most 10m"
    )
    within_s: Seconds = Field(
        180.0, alias="within", ge=1, le=3600, description="the time in which all are restarted, at most 1h"
    )

    key = "rollingRestart"
    summary = "restart all brokers, one after the other"
    lasting = "within_s"
    platforms = (Platform.PROCESSES,)
    not_in_pods = "were not tried: there controllers replace pods, as podDelete has them replace one"
    of_one_broker = False
    every_strike = True
    notices = frozenset({Noticed.DISCONNECT, Noticed.RETRY, Noticed.LEADER})
    docs = Docs(
        action="SIGTERM (or SIGKILL) for the broker that leads the partition or owns the topic, then for the others",
        ends="when the last broker is whole again; not all within `within` is an error",
        target_witness="exit codes in the keepers' status files, 143 or 0 for a clean end and 137 for a kill, and the "
        "processes are gone",
        undone_by="the keepers themselves",
        details="Between two restarts the system is whole again: all brokers are registered, the topic is led or "
        "owned, and with Kafka every replica is in sync. This is how upgrades are done. The first stop counts as the "
        "fault's effect, and must meet messages in flight; each later one must come while messages are still sent. A "
        "broker that ends cleanly hands over its partitions or topics first, so clients notice less than with a kill.",
    )

    @property
    def words(self) -> str:
        how = "kill" if self.stop is Stop.KILL else "stop"
        return f"{how} and start again all brokers one after the other, {self.rest_s:g} s apart"

    @classmethod
    def denied(cls, shown: Detail) -> str:
        """What ended with another code ended by itself."""
        ours = shown.exit_code in (None, KILLED, *CLEAN)
        return "" if ours else f"the first broker ended with exit code {shown.exit_code}, not by our signal"

    @classmethod
    def ends_life(cls, shown: Detail) -> bool:
        return True
