"""The conversation: every frame that the interposer saw, what it said, and what was done to it.

A row is one frame; a request or reply that concerns several partitions has a row for each. What a client logs in with
is never written down: frames of authentication have their header only, as all others have no more than is listed here.
A column without a value is null. Times are taken when the whole frame was there.
"""

import threading
import time
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_runners.interposer.protocols import Direction, Frame
from dedup_runners.interposer.rules import Place

FILE: Final = "conversation.parquet"


class Done(StrEnum):
    """What was done to a frame."""

    PASSED = "passed"
    LOST = "lost"
    HELD = "held"
    """It was passed on when the event that it waited for had happened."""
    HELD_TO_DEADLINE = "held to its deadline"
    UNANSWERED = "unanswered"
    """A reply that never came, or was no longer passed on, since the connection had ended."""


class Row(NamedTuple):
    """One line of the table."""

    connection: int
    session: str
    broker: str
    direction: str
    monotonic_ns: int
    unix_ns: int
    api: str
    version: int | None
    correlation: int | None
    client_id: str | None
    topic: str | None
    partition: int | None
    producer_id: int | None
    epoch: int | None
    base_sequence: int | None
    messages: int | None
    number: int | None
    attempt: int | None
    error_code: int | None
    ledger: int | None
    offset: int | None
    bytes: int
    done: str
    rule: str | None
    held_ns: int | None

    @property
    def place(self) -> str | None:
        """Where a reply says that the batch is stored, in the words of the system's admin; None: nowhere new."""
        if self.offset is None or self.offset < 0:
            return None
        return str(self.offset) if self.ledger is None else f"{self.ledger}:{self.offset}"


_TYPES: Final = {"str": pa.string(), "int": pa.int64()}
SCHEMA: Final = pa.schema(
    [
        pa.field(name, _TYPES[str(getattr(kind, "__name__", kind)).split(" ")[0]], nullable=not isinstance(kind, type))
        for name, kind in Row.__annotations__.items()
    ]
)


class Moment(NamedTuple):
    """When a frame was there."""

    monotonic_ns: int
    unix_ns: int


def now() -> Moment:
    """This moment, on both clocks."""
    return Moment(time.monotonic_ns(), time.time_ns())


class Conversation:
    """The rows, in memory, in the order in which it was known what became of each. Any thread may read them."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._followers: list[Callable[[Row], None]] = []
        self._changed = threading.Lock()

    def follow(self, tell: Callable[[Row], None]) -> None:
        """Have `tell` called with each row from now on, in the interposer's event loop: it must not wait."""
        self._followers.append(tell)

    def add(
        self,
        connection: int,
        session: str,
        broker: str,
        frame: Frame,
        places: Iterable[Place],
        moment: Moment,
        done: Done,
        rule: str | None = None,
        held_ns: int | None = None,
    ) -> None:
        """Note a frame. `places` are its request's; a reply's own parts say what the broker answered to each."""
        answers = frame.parts if frame.direction is Direction.REPLY else ()
        found = list(places)
        rows = []
        for index, place in enumerate(found):
            part = answers[index] if len(answers) == len(found) else place.part
            error = frame.error_code if part.error_code is None else part.error_code
            rows.append(
                Row(
                    connection=connection, session=session, broker=broker, direction=frame.direction.value,
                    monotonic_ns=moment.monotonic_ns, unix_ns=moment.unix_ns, api=frame.api, version=frame.version,
                    correlation=frame.correlation, client_id=frame.client_id, topic=part.topic,
                    partition=part.partition, producer_id=part.producer_id, epoch=part.epoch,
                    base_sequence=part.base_sequence, messages=part.messages, number=place.number,
                    attempt=place.attempt, error_code=error, ledger=part.ledger, offset=part.offset,
                    bytes=len(frame.raw), done=done.value, rule=rule, held_ns=held_ns,
                )
            )  # fmt: skip
        with self._changed:
            self._rows += rows
        for tell in self._followers:
            for row in rows:
                tell(row)

    def rows(self) -> list[Row]:
        """All rows until now."""
        with self._changed:
            return list(self._rows)

    def save(self, path: Path, session: str | None = None) -> int:
        """Write them as Parquet, those of one session or all; how many there are."""
        rows = [row for row in self.rows() if session in (None, row.session)]
        columns = zip(*rows, strict=True) if rows else ((),) * len(SCHEMA)
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), path, compression="zstd")
        return len(rows)


class Unrecorded(Conversation):
    """Of an interposer that only leads clients to their brokers: nothing is kept."""

    def add(self, *_: object, **__: object) -> None:
        """It may go on for days."""
