"""`fillDisk`: the disk of the leader's broker is full for a time, and then it is not."""

from typing import Final, Literal

from pydantic import Field

from dedup.faults.kinds import Choice, Docs, FaultKind, Need, Platform
from dedup.faults.targets import Target
from dedup.quantities import Seconds
from dedup.wire.clients import Noticed
from dedup.wire.faults import Detail

GAVE_UP: Final = (1,)
"""The exit codes of a broker that can write to none of its disks any more: Kafka halts with 1."""
PAGE_BYTES: Final = 4096
"""A disk on which less is free is full: a file that grows finds no place."""


class FillDisk(FaultKind):
    """Leave no byte free on the disk of the broker that leads the partition, for a time."""

    target: Literal["Leader"] = Field("Leader", description="the partition's leader")
    duration_s: Seconds = Field(alias="duration", ge=1, le=600, description="how long, at least 1s and at most 10m")

    key = "fillDisk"
    summary = "fill a broker's disk for a time"
    lasting = "duration_s"
    platforms = (Platform.PROCESSES,)
    not_in_pods = "share their node's disks, or have volumes that are not ours to fill"
    own_disks = True
    must_last = True
    effect = "out of disk"
    choices = (
        Choice(
            field="target",
            value=Target.LEADER,
            need=Need.KAFKA,
            rule="system {system} is a Pulsar, whose brokers store nothing",
            todo="take the fault out, or test the Kafka by itself",
            said="one of the systems is a Pulsar, whose brokers store nothing; take the fault out, or test the Kafka "
            "by itself",
        ),
    )
    notices = frozenset({Noticed.DISCONNECT, Noticed.RETRY, Noticed.LEADER})
    docs = Docs(
        action="a file takes all that is free on the broker's disk, a small one of its own",
        ends="after `duration`, when the file is removed; the keeper starts the broker again 3 s later",
        target_witness="what the kernel says is free on that disk, less than a page of 4 KiB when the fault begins "
        "and when it ends; and exit code 1 in the keeper's status file: the broker gave up",
        undone_by="a line of shell that outlives the injector and removes the file, 2 s after the end at the latest; "
        "the keeper",
        details="On one machine `dedup run` moves itself, and all that it starts, into a mount namespace (and a "
        "user's if it is not root), in which each broker has a disk of its own: a tmpfs, which takes memory for "
        "what is written to it, large enough for two runs of the workload and 192 MiB more. Nobody outside sees it. "
        "It needs Linux with `unshare` and a kernel that lets users make namespaces, and the memory: all of one "
        "disk, and on the others what was sent. `dedup plan` says if this machine does not do; `dedup run` refuses "
        "then. Kafka has no other disk there: at the first record that it cannot append it halts, and another "
        "broker leads when its session has run out (6 s in the lab), or sooner. What it had appended is on its disk "
        "when it comes back. A broker that wrote nothing meanwhile goes on: that run is inconclusive. One that ends "
        "otherwise is not started again, and that run is an error: on a full disk a write to a mapped index file "
        "can end the JVM by SIGBUS (exit code 134). Kafka ends with 1 whatever the fatal error is; that it was the "
        "disk, its log says. A pass says little about copies: what could not be appended is nowhere, so that what "
        "the client sends again is seldom a copy, and the example has no control.",
    )

    @property
    def words(self) -> str:
        return f"fill the disk of the leader for {self.duration_s:g} s"

    @classmethod
    def denied(cls, shown: Detail) -> str:
        """A broker that could go on writing, or that ended for another reason, met no full disk."""
        if shown.free_bytes is not None and shown.free_bytes >= PAGE_BYTES:
            return f"{shown.free_bytes:,} bytes were free on the disk"
        if shown.exit_code is None:
            return "the broker went on, so that it wrote nothing to the full disk"
        return "" if shown.exit_code in GAVE_UP else f"the broker ended with exit code {shown.exit_code}, of itself"

    @classmethod
    def ends_life(cls, shown: Detail) -> bool:
        return shown.exit_code in GAVE_UP
