"""`kill`: a broker's or bookie's process gets SIGKILL, and is started again after a time."""

from typing import Final

from pydantic import Field, model_validator

from dedup.faults.kinds import Docs
from dedup.faults.targets import GROUPS, SESSION_S, WORDS, OfOneProcess, Target, choices, target
from dedup.quantities import Seconds, format_duration
from dedup.refusals import refusal
from dedup.wire.faults import Detail

KILLED: Final = 137
"""The exit code of SIGKILL, as a container reports it."""


class Kill(OfOneProcess):
    """SIGKILL the broker that leads the partition or owns the topic, or one on which it depends; start it again."""

    restart_after_s: Seconds = Field(
        alias="restartAfter", ge=0, le=600, description="how long the process stays down, at most 10m"
    )

    key = "kill"
    on_consent = True
    summary = "SIGKILL a broker or bookie and start it again later"
    lasting = "restart_after_s"
    in_every_digest = True
    choices = choices("kill")
    docs = Docs(
        action="SIGKILL of the broker that leads the partition or owns the topic; for `target: Bookie`, of the first "
        "bookie in the ensemble of the topic's newest ledger, for `Controller` of the active one of the quorum, for "
        "`ZooKeeper` of the ZooKeeper process, for `TransactionCoordinator` of the broker that coordinates the "
        "producer's transactions",
        ends="after `restartAfter`, by the process's keeper",
        target_witness="exit code 137 in the keeper's status file, and the process is gone; a bookie is one of the "
        "ensemble that the broker named at that moment, a controller the quorum's leader by the brokers' word; the "
        "coordinator is the one that the brokers name",
        undone_by="the keeper itself",
        client_witness="for a bookie also the broker, which is the bookie's client: it began another ledger or took "
        "another bookie into the ensemble; for a controller or coordinator also the brokers, which have another one; "
        "for ZooKeeper also the brokers and bookies, which have connected again by the kernel's table",
        details="The lab shortens two settings so that a fail-over takes seconds: Kafka's broker session is 6 s (its "
        "default: 9 s), a Pulsar broker's ZooKeeper session 6 s (its default: 30 s). A killed broker loses its "
        "partitions or topics when its session has run out; with a `restartAfter` below that it may be back before. "
        "With three bookies and an ensemble of three no bookie can replace a killed one: writing stops until it is "
        "back (observed: 19 s for a `restartAfter` of 15 s), and then continues in a new ledger. A dead bookie can "
        "still be *known* to the brokers, so that proves nothing; healed means that it accepts connections and that "
        "messages go through. ZooKeeper must stay away for longer than a session, 6 s: any restart makes brokers "
        "connect again. What that proves is that they were without it for so long, not that a topic lost its owner.",
    )

    @model_validator(mode="after")
    def _longer_than_a_session(self) -> "Kill":
        if self.target is Target.ZOOKEEPER and self.restart_after_s <= SESSION_S:
            got, rule = format_duration(self.restart_after_s), "brokers outlast a ZooKeeper that is back in a session"
            raise refusal("restartAfter", got, rule, f"write more than {format_duration(SESSION_S)}")
        return self

    @property
    def needs_hold(self) -> bool:
        return self.restart_after_s > 0

    @property
    def words(self) -> str:
        return f"kill {WORDS[self.target]} and start it again after {self.restart_after_s:g} s"

    @classmethod
    def ends_life(cls, shown: Detail) -> bool:
        """A bookie is no broker, and neither is ZooKeeper."""
        return target(shown) not in GROUPS

    @classmethod
    def denied(cls, shown: Detail) -> str:
        """What ended with another code was not killed: SIGKILL cannot be caught."""
        killed = shown.exit_code in (None, KILLED)
        return "" if killed else f"it ended with exit code {shown.exit_code}, not by SIGKILL"
