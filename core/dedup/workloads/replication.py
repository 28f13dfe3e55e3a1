"""`replication`: brokers replicate the topic to a second cluster, the link is cut, and the topic is read there.

A broker of the first cluster reads the topic and sends what it reads to the second one, as a producer of its own does.
A link that is cut loses answers: the sender cannot know what was stored, and sends it again when it is connected again.
Whether the second cluster then has copies is for its own deduplication to say. Since 4.0.4 that goes by where a message
lies in the first cluster (apache/pulsar 23697), before by the name and sequence id that its first producer gave it.

All is sent before anything is replicated, so the first cluster's topic is known whole. Answers of the second cluster
are delayed on the link, so that some are on their way when it is cut. It is read when brokers say that nothing is left
to replicate; before that, what is missing there may only be late.
"""

from collections.abc import Iterator, Mapping

from pydantic import Field

from dedup.quantities import Seconds
from dedup.wire.manifests import Manifest
from dedup.workloads.kinds import Impossible, Shape, WorkloadKind
from dedup.workloads.restart import RestartAt

BATCHING = ("batching_enabled", "batchingEnabled")
"""The switch of the clients for Python and Java; both send batches if it is left out."""


class Replication(WorkloadKind):
    """Brokers replicate the topic to a second cluster, and the link is cut; the second cluster's topic is judged."""

    at: RestartAt = Field(description="when the link is cut: so many messages are stored in the second cluster then")
    delay_s: Seconds = Field(
        2.0,
        alias="delay",
        gt=0,
        le=10,
        description="so late the second cluster's answers come until the link is cut, at most 10s",
    )
    duration_s: Seconds = Field(
        2.0, alias="duration", gt=0, le=600, description="how long it stays cut, more than 0s and at most 10m"
    )

    key = "replication"
    summary = "Pulsar, on this machine: the topic is replicated to a second cluster over a link that is cut"
    names_sends = False
    words = "in the second cluster"

    def impossible(self, shape: Shape) -> Impossible | None:
        if shape.partitions > 1:
            return Impossible(
                "replication",
                f"{shape.partitions} partitions",
                "a topic of one partition is replicated here; more were not tried",
                "write partitions: 1, or take replication out",
            )
        if self.at.message < shape.messages:
            return None
        return Impossible(
            "replication.at.message",
            str(self.at.message),
            f"the last message is {shape.messages}, and the link must have some left to carry",
            "name an earlier message or send more",
        )

    def impossible_with(
        self, protocol: str, library: str, properties: Mapping[str, str], *, is_program: bool
    ) -> Impossible | None:
        if protocol != "pulsar":
            return Impossible(
                "replication",
                protocol,
                "only Pulsar's brokers replicate a topic to another cluster",
                "test the Pulsar by itself, or take replication out",
            )
        if not any(properties.get(name, "").lower() == "false" for name in BATCHING):
            return Impossible(
                "replication",
                f"client.library {library}, which sends batches",
                "brokers tell how many entries are replicated, and an entry may be a batch",
                'give client.properties batching_enabled: "false" (pulsar-java: batchingEnabled)',
            )
        return None

    def broken(self, manifest: Manifest) -> Iterator[str]:
        found = manifest.consumer.replicated
        if found is None:
            yield "its history does not say what was replicated"
            return
        if found.source_entries != manifest.producer.ok:
            yield (
                f"the first cluster stored {found.source_entries:,} entries, and {manifest.producer.ok:,} messages "
                "were acknowledged: what differs is not the link's"
            )
        if found.stored < self.at.message:
            yield f"the link was cut when {found.stored:,} messages had come; planned: {self.at.message:,}"

    def untested(self, manifest: Manifest) -> Iterator[str]:
        found = manifest.consumer.replicated
        if found is not None and found.acknowledged >= found.stored:
            yield "the link was cut when the first cluster knew of all that the second had stored, and nothing was open"
