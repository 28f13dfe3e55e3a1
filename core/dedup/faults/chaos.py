"""`chaos`: an experiment of Chaos Toolkit that somebody else wrote runs as a fault, as it is."""

import hashlib
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from dedup.faults.kinds import Docs, FaultKind, Platform
from dedup.parts import Name
from dedup.quantities import Seconds
from dedup.wire.clients import Noticed
from dedup.wire.faults import Detail

MOST_BYTES = 1 << 17


def sha256_of(document: str) -> str:
    """By what an experiment's text is known: what `sha256sum` says of its file."""
    return hashlib.sha256(document.encode()).hexdigest()


class Chaos(FaultKind):
    """Run a Chaos Toolkit experiment of your own, unchanged; its steady-state hypothesis shows whether it struck."""

    experiment: Annotated[str, Field(min_length=1, max_length=1024)] = Field(
        description="the path of the experiment, JSON or YAML, from the folder of this file"
    )
    deadline_s: Seconds = Field(
        alias="deadline",
        gt=0,
        le=3600,
        description="when it has not ended by then, it is interrupted and its rollbacks are played; at most 1h",
    )
    document: Annotated[str, Field(max_length=MOST_BYTES)] | None = Field(
        None,
        description="the experiment's text; `dedup run` fills it in from the file, so that results say what was run; "
        "in a cluster it has to be there",
    )
    image: Name | None = Field(
        None,
        description="in a cluster: the entry of the administrator's list in whose image it runs; `dedup run` uses what "
        "is installed",
    )

    key = "chaos"
    newer = MappingProxyType({"image": None})
    summary = "run a Chaos Toolkit experiment of your own"
    lasting = "deadline_s"
    through_proxy = True
    on_existing = (Platform.PROCESSES,)
    notices = frozenset({Noticed.DISCONNECT, Noticed.RETRY, Noticed.LEADER, Noticed.ERROR})
    effect = "out of its steady state"
    docs = Docs(
        action="`chaos run --rollback-strategy always` of that very file, with the extensions that are installed",
        ends="when the experiment has ended, its rollbacks are played, and its hypothesis holds again",
        target_witness="the experiment's own steady-state hypothesis: it holds while the fault is armed, a probe of it "
        "is out of its tolerance after the method began, at the latest 15 s after the experiment's end, and it holds "
        "again after the rollbacks",
        undone_by="a process beside it, which interrupts the experiment and plays its rollbacks; if a pod's whole "
        "container is gone, nobody",
        details="The hypothesis is asked every 0.2 s, in a process of its own. Without one nothing shows the effect, "
        "and the run is *inconclusive*; so is one whose hypothesis holds all the while (an *error* if a broker ended "
        "meanwhile: whose doing that was is not shown). If it does not hold before, "
        "the fault is not armed, and the run is an *error*, as it is if an action or a rollback fails. Whom an "
        "experiment strikes is not known to us: as for any fault of one broker, the leader's clients must have "
        "noticed. The experiment finds the system in its environment: `DEDUP_PROTOCOL` (kafka or pulsar), "
        "`DEDUP_TOXIPROXY_URL`, `DEDUP_PROXIES` (by the brokers' order, with commas), `DEDUP_LEADER_PROXY`, "
        "`DEDUP_LEADER_PORT`, `DEDUP_BOOTSTRAP` and `DEDUP_TOPIC`; in pods also `DEDUP_NAMESPACE` and "
        "`DEDUP_LEADER_POD`. "
        "**It is code**: by `dedup run` it runs with your rights and in your environment, as `chaos run` would, so run "
        "only files that you trust. In a cluster it runs in an image, and with rights, of the administrator's list "
        "(`settings.chaosImages` of the operator's chart); what that does not permit is `Stalled`.",
    )

    @property
    def words(self) -> str:
        return f"run the Chaos Toolkit experiment {self.experiment}, for {self.deadline_s:g} s at most"

    @property
    def settings(self) -> dict[str, float | str]:
        """What is recorded of it: of the text its hash, for the text itself is in the results' experiment."""
        digest = sha256_of(self.document or "")
        named = {} if self.image is None else {"image": self.image}
        return {"experiment": self.experiment, "deadline_s": self.deadline_s, "sha256": digest, **named}

    @property
    def brings(self) -> str | None:
        return self.document

    @classmethod
    def denied(cls, shown: Detail) -> str:
        """Only a probe that was out of its tolerance after the method began shows an effect."""
        return shown.refused or (
            "" if shown.probe else "no probe of the experiment's hypothesis was out of its tolerance"
        )

    @classmethod
    def ends_life(cls, shown: Detail) -> bool:
        """Whom it strikes is not known to us: what has ended while it ran is taken for its doing."""
        return shown.ended > 0
