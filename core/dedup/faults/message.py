"""`message`: one request or one reply between a client and a broker is lost, or held back for a time."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from dedup.faults.kinds import EVERYWHERE, Choice, Docs, FaultKind, Need, OnlyWith
from dedup.quantities import Seconds
from dedup.wire.clients import Noticed
from dedup.wire.faults import Detail


class Api(StrEnum):
    """What a producer asks of its brokers, by the names of the protocols."""

    PRODUCE = "Produce"
    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS_TO_TXN = "AddPartitionsToTxn"
    ADD_OFFSETS_TO_TXN = "AddOffsetsToTxn"
    TXN_OFFSET_COMMIT = "TxnOffsetCommit"
    END_TXN = "EndTxn"
    METADATA = "Metadata"
    API_VERSIONS = "ApiVersions"
    SEND = "SEND"
    PRODUCER = "PRODUCER"
    LOOKUP = "LOOKUP"
    PARTITIONED_METADATA = "PARTITIONED_METADATA"
    CONNECT = "CONNECT"
    PULSARS_NEW_TXN = "NEW_TXN"
    PULSARS_ADD_PARTITION = "ADD_PARTITION_TO_TXN"
    PULSARS_END_TXN = "END_TXN"


class Side(StrEnum):
    """Which of the two frames of an exchange is meant."""

    REQUEST = "Request"
    REPLY = "Reply"


class Action(StrEnum):
    """What is done to the frame: no more than a network or a dying peer can do."""

    LOSE = "Lose"
    STALL = "Stall"


class Until(StrEnum):
    """An event that ends a stall."""

    RETRY = "Retry"
    NEXT_PRODUCE = "NextProduce"


OF_KAFKA: Final = (
    *(Api.PRODUCE, Api.INIT_PRODUCER_ID, Api.METADATA, Api.API_VERSIONS),
    *(Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN, Api.TXN_OFFSET_COMMIT, Api.END_TXN),
)
OF_PULSAR: Final = (
    *(Api.SEND, Api.PRODUCER, Api.LOOKUP, Api.PARTITIONED_METADATA, Api.CONNECT),
    *(Api.PULSARS_NEW_TXN, Api.PULSARS_ADD_PARTITION, Api.PULSARS_END_TXN),
)
OF_STALLS: Final = "a stall ends at an event or a deadline, and nothing else does"


def _spoken(api: Api, product: str, need: Need) -> Choice:
    """Only one of the protocols has a request of that name."""
    return Choice(
        field="api",
        value=api,
        need=need,
        rule=f"system {{system}} is no {product}, and only {product}'s protocol has this request",
        todo=f"test the {product} by itself",
        said=f"one of the systems is no {product}, and only {product}'s protocol has these requests; "
        f"test the {product} by itself",
    )


class Message(FaultKind):
    """Lose or hold back one request of the producer, or the reply to it."""

    api: Api = Field(description="the request's name in the protocol; Produce (Kafka) and SEND (Pulsar) carry messages")
    frame: Side = Field(description="the request itself, or the broker's reply to it")
    action: Action = Field(
        description="Lose closes the connection without it; Stall holds it, and all behind it on that connection"
    )
    nth: int = Field(
        1, ge=1, le=1_000_000, description="which of those that match, from the request that brings at.message on"
    )
    attempt: int | None = Field(
        None, ge=1, le=1000, description="match only the n-th time that a batch is sent; any if left out"
    )
    until: Until | None = Field(
        None,
        description="a stall ends when the client has sent it again and got an answer without an error (Retry), or "
        "when brokers have stored messages after that (NextProduce): of an EndTxn, those of the next transaction, "
        "whose own EndTxn waits until the held one was answered, at most 1 s",
    )
    deadline_s: Annotated[Seconds, Field(gt=0, le=600)] | None = Field(
        None, alias="deadline", description="a stall ends at the latest after this time, at most 10m"
    )

    key = "message"
    summary = "lose or hold back one request or reply"
    lasting = "deadline_s"
    on_frames = True
    on_existing = EVERYWHERE
    single = "one interposer stands between the producer and its brokers, and has one rule"
    only_with = (
        OnlyWith("deadline_s", "action", Action.STALL, True, OF_STALLS),
        OnlyWith("until", "action", Action.STALL, False, OF_STALLS),
    )
    choices = (
        *(_spoken(api, "Kafka", Need.KAFKA) for api in OF_KAFKA),
        *(_spoken(api, "Pulsar", Need.PULSAR) for api in OF_PULSAR),
    )
    notices = frozenset({Noticed.DISCONNECT, Noticed.RETRY, Noticed.ERROR})
    docs = Docs(
        action="the interposer, a proxy that reads the protocol, closes both sides of the connection instead of "
        "passing the frame on (`Lose`), or passes it on later (`Stall`)",
        ends="at once (`Lose`); when the client's retry has been answered without an error, or at the deadline "
        "(`Stall`)",
        target_witness="the conversation has the frame and what was done to it; and where it carries messages, the "
        "partition's log agrees: it has the batch where brokers answered that they stored it, and no more often than "
        "it was passed on",
        undone_by="nothing: the interposer ends with its injector, all connections through it too, and the run is an "
        "error",
        details="`at.message` is counted by the interposer, over all partitions of the topic: matches are counted "
        "from the request on that brings this message to a broker, or from the first connection on if it is 1. A "
        "request that carries messages matches if one of its batches is of the partition that the run's seed chooses. "
        "A request that a broker puts off (Kafka's error 51) is counted once however often it is asked again, and a "
        "fault of its reply passes over those that put it off. "
        "TCP never drops one frame and passes the next, so neither does the interposer: what is lost is lost with its "
        "connection, and frames are never reordered. The frame that was struck stands for *unacknowledged, and more "
        "to send*: such a fault needs no message in flight. A reply with an error, or a stall that no client notices, "
        "has tested nothing. The run's folder keeps everything that was said in `chaos/NAME/conversation.parquet` "
        "([interposer.md](interposer.md)). At most one fault of an experiment is of this kind.",
    )

    @property
    def words(self) -> str:
        verb = "lose" if self.action is Action.LOSE else f"hold back for at most {self.lasts_s:g} s"
        which = self.api.value if self.nth == 1 else f"{self.api}, the {self.nth}. that matches"
        return f"{verb} {'the reply to ' if self.frame is Side.REPLY else ''}{which}"

    @classmethod
    def denied(cls, shown: Detail) -> str:
        """The conversation alone shows that a frame was struck."""
        return "" if shown.frame else "the conversation shows no frame that was struck"
