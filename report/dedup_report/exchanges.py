"""The decisive exchanges of a run in which one frame was struck: which frames to show, and what they say.

A run with the fault `message` has its conversation in `chaos/FAULT/conversation.parquet`: every frame between producer
and brokers, and what the interposer did to it (docs/interposer.md). Shown are the exchange before the struck one, the
struck frame, all attempts at the same batch, other batches that were sent again, and the first frames after the strike.
What the words say of copies rests on the brokers' answers alone; whether copies are there is for the judges.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from dedup.errors import EvidenceError, one_line, shown
from dedup.history.stores import Place, below, parquet

FILE: Final = "conversation.parquet"
PASSED: Final = "passed"
LOST: Final = "lost"
UNANSWERED: Final = "unanswered"
REQUEST: Final = "request"
MOST: Final = 18
MOST_OTHERS: Final = 6
MOST_AFTER: Final = 4
LONGEST: Final = 24


class Frame(NamedTuple):
    """A row of the conversation; the fields are its columns."""

    connection: int
    broker: str
    direction: str
    monotonic_ns: int
    api: str
    partition: int | None
    messages: int | None
    number: int | None
    attempt: int | None
    error_code: int | None
    ledger: int | None
    offset: int | None
    done: str
    rule: str | None
    held_ns: int | None

    @property
    def is_request(self) -> bool:
        return self.direction == REQUEST

    @property
    def batch(self) -> tuple[object, ...]:
        """What is the same in all attempts at it."""
        return self.api, self.partition, self.number

    @property
    def place(self) -> str | None:
        """Where an answer says that the batch lies; None: nowhere new."""
        if self.is_request or self.offset is None or self.offset < 0 or self.error_code:
            return None
        return f"{self.offset:,}" if self.ledger is None else f"{self.ledger}:{self.offset}"

    @property
    def is_no_answer(self) -> bool:
        """A reply that never came: the interposer notes one where a connection ends."""
        return not self.is_request and self.done == UNANSWERED and self.offset is None and not self.error_code


class Exchanges(NamedTuple):
    """The frames to show, by time, and how many lie between each and the one before it."""

    fault: str
    struck: Frame
    batch: tuple[Frame, ...]
    """All frames of the struck one's batch, shown or not: what is said of copies rests on them."""
    frames: tuple[Frame, ...]
    left_out: tuple[int, ...]
    brokers: tuple[str, ...]
    """Their addresses; a broker is named by its place here, from 1."""

    def broker(self, frame: Frame) -> str:
        """Its name, where there are several."""
        return f"broker {self.brokers.index(frame.broker) + 1}" if len(self.brokers) > 1 else "broker"


def conversations(folder: Place) -> Iterator[tuple[str, Place]]:
    """The faults of a run that left a conversation, and its file."""
    for name in below(folder / "chaos"):
        if (steps := name.split("/"))[1:] == [FILE]:
            yield steps[0], folder / "chaos" / name


def decisive(fault: str, path: Place) -> Exchanges | None:
    """What to show of a conversation; None if no frame was struck. EvidenceError if it cannot be read."""
    columns = _columns(path)
    struck = np.flatnonzero((columns["rule"] != None) & (columns["done"] != PASSED))  # noqa: E711
    if not len(struck):
        return None
    at = int(struck[0])
    struck_frame = _frame(columns, at)
    same = _same_batch(columns, struck_frame)
    chosen = np.array(sorted(_chosen(columns, at, same)))
    frames = tuple(_frame(columns, index) for index in chosen)
    between = np.diff(chosen, prepend=-1) - 1
    named = dict.fromkeys(frame.broker for frame in frames)
    batch = tuple(_frame(columns, int(index)) for index in np.flatnonzero(same))
    return Exchanges(fault, struck_frame, batch, frames, tuple(int(each) for each in between), tuple(named))


def _columns(path: Place) -> dict[str, Any]:
    """The columns by time."""
    with parquet(path) as file:
        table = file.read()
    if lacking := sorted(set(Frame._fields) - set(table.column_names)):
        raise EvidenceError(
            where=str(path),
            got=f"no column {lacking[0]}",
            rule="a conversation has the columns of docs/interposer.md",
            todo="read it with the dedup that wrote it",
        )
    columns = {name: np.array(table[name].to_pylist(), dtype=object) for name in Frame._fields}
    order = np.argsort(columns["monotonic_ns"].astype(np.int64), kind="stable")
    return {name: column[order] for name, column in columns.items()}


def _frame(columns: dict[str, Any], index: int) -> Frame:
    return Frame(*(columns[name][index] for name in Frame._fields))


def _same_batch(columns: dict[str, Any], frame: Frame) -> Any:
    api, partition, number = frame.batch
    return (columns["api"] == api) & (columns["partition"] == partition) & (columns["number"] == number)


def _chosen(columns: dict[str, Any], at: int, same: Any) -> set[int]:
    same_api = columns["api"] == columns["api"][at]
    answers = np.flatnonzero(same & (columns["direction"] != REQUEST) & (columns["offset"] != None))  # noqa: E711
    again = same_api & ~same & np.array([(each or 0) > 1 for each in columns["attempt"]], dtype=bool)
    before = np.flatnonzero(same_api & ~same)
    after = np.flatnonzero(~same_api)
    wanted = [
        *answers[-1:],
        *np.flatnonzero(same),
        *before[before < at][-2:],
        *after[after > at][:MOST_AFTER],
        *np.flatnonzero(again)[:MOST_OTHERS],
    ]
    return {at, *(int(each) for each in list(dict.fromkeys(wanted))[:MOST])}


# What is said in words.


def said(frame: Frame) -> str:
    """What a frame says, in a few words."""
    api = _cut(frame.api)
    name = api if frame.messages is None or frame.number is None else f"{api} {frame.number:,}"
    if frame.is_request:
        if frame.messages is None:
            return name
        attempt = f", attempt {frame.attempt}" if (frame.attempt or 1) > 1 else ""
        return f"{name}{attempt}: {frame.messages:,} {'message' if frame.messages == 1 else 'messages'}"
    if frame.error_code:
        return f"{name}: error {frame.error_code}"
    if frame.is_no_answer:
        return f"{name}: no answer"
    if frame.place is not None:
        return f"{name}: stored at {frame.place}"
    return f"{name}: known already" if frame.messages is not None and frame.offset is not None else f"{name}: done"


def fate(frame: Frame) -> str:
    """What was done to a frame, if it was not passed on at once."""
    if frame.done == PASSED:
        return ""
    held = "" if frame.held_ns is None else f" for {frame.held_ns / 1e9:.3g} s"
    return {LOST: "lost", UNANSWERED: "never passed on"}.get(frame.done, f"{_cut(frame.done)}{held}")


def words(found: Exchanges) -> tuple[str, ...]:
    """What the exchanges show, and then each frame, in sentences."""
    struck, batch = found.struck, found.batch
    kind = "request" if struck.is_request else "reply"
    first = f"The {kind} “{said(struck)}” was {fate(struck)}."
    attempts = max((frame.attempt or 1 for frame in batch if frame.is_request), default=1)
    told = [first]
    if attempts == 1 and any(frame.messages is not None for frame in batch):
        told.append("This batch was not sent again by the client; what an application sends again is another batch.")
    elif attempts == 1:
        told.append("It carries no batch; whether the client asked the same again is to be seen below.")
    else:
        told += [f"It was sent {attempts} times.", _answers(batch)]
    others = {frame.batch for frame in found.frames if (frame.attempt or 1) > 1} - {struck.batch}
    if others:
        told.append(f"Also sent again: {', '.join(sorted(_name(each) for each in others))}.")
    begin = found.frames[0].monotonic_ns
    listed = "; ".join(
        f"{number}. after {time(frame.monotonic_ns - begin)}, {_ways(found, frame)}: {said(frame)}"
        + (f", {fate(frame)}" if fate(frame) else "")
        for number, frame in enumerate(found.frames, 1)
    )
    return (*(each for each in told if each), f"In order: {listed}.")


def _answers(batch: Sequence[Frame]) -> str:
    """What the answers to all attempts at a batch say of copies."""
    answers = [frame for frame in batch if not (frame.is_request or frame.error_code or frame.is_no_answer)]
    places = list(dict.fromkeys(frame.place for frame in answers if frame.place is not None))
    if len(places) > 1:
        return f"By the brokers' answers it was stored {len(places)} times: at {' and at '.join(places)}."
    if any(frame.place is None and frame.offset is not None for frame in answers):
        return "An answer names no position: the broker knew the batch already."
    if len(answers) > 1 and places:
        return f"All answers name one position, {places[0]}: it was recognised, and stored once."
    return ""


def _name(batch: tuple[object, ...]) -> str:
    api, partition, number = batch
    return f"{_cut(str(api))} {number}" + ("" if partition is None else f" of partition {partition}")


def _ways(found: Exchanges, frame: Frame) -> str:
    broker = found.broker(frame)
    return f"producer to {broker}" if frame.is_request else f"{broker} to producer"


def time(nanoseconds: int) -> str:
    """A time that has passed, in three digits."""
    return f"{nanoseconds / 1e9:.3g} s" if nanoseconds >= 1e9 else f"{nanoseconds / 1e6:.3g} ms"


def _cut(text: str) -> str:
    text = one_line(shown(text))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
