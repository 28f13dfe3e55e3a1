"""`pause`: a broker's or bookie's process is stopped for a time and then goes on where it was."""

from pydantic import Field

from dedup.faults.kinds import Docs
from dedup.faults.targets import WORDS, OfOneProcess, choices
from dedup.quantities import Seconds
from dedup.wire.faults import Detail


class Pause(OfOneProcess):
    """Stop, for a time, the process of the leader, or of one on which it depends; its connections stay."""

    duration_s: Seconds = Field(alias="duration", ge=1, le=600, description="how long, at least 1s and at most 10m")

    key = "pause"
    on_consent = True
    summary = "stop a broker's process for a time, as a long garbage collection does"
    lasting = "duration_s"
    must_last = True
    effect = "stopped"
    choices = choices("pause")
    docs = Docs(
        action="SIGSTOP for the process of the broker that leads the partition or owns the topic, or of the "
        "process that `kill` with that target would choose",
        ends="after `duration`, by SIGCONT",
        target_witness="the kernel shows the process as stopped (state `T`), when the fault begins and when it ends",
        client_witness="for the other targets also the brokers, as with a `kill`",
        undone_by="a line of shell that waits beside the broker, outlives the injector, and sends SIGCONT 3 s after "
        "the end; it leaves when the broker goes on or is gone",
        details="A pause stands for a long garbage collection or a frozen virtual machine: connections stay open, "
        "requests are accepted by the kernel, and nothing answers. When its session with the controllers has run out "
        "(6 s in the lab, and up to 9 s if it is the active controller, too) another broker leads. The paused one does "
        "not know it: it continues as the leader, with the requests that came meanwhile, until it learns of the other. "
        "With a shorter `duration` no other broker takes over; if clients notice nothing, the run is inconclusive. In "
        "a pod the process must not be the container's first, which a signal from inside cannot stop; under tini, as "
        "in our charts and Strimzi's, it is not.",
    )

    @property
    def words(self) -> str:
        return f"stop {WORDS[self.target]} for {self.duration_s:g} s"

    @classmethod
    def denied(cls, shown: Detail) -> str:
        """Only a stopped process answers nobody."""
        return f"the state of the process was {shown.state}, not T (stopped)" if shown.state not in (None, "T") else ""
