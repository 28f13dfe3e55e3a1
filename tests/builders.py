"""Histories made by hand: from a few lines of YAML, or from lists, to a run folder with a manifest that is valid.

A golden history (tests/histories/*.yaml) is a story a person can check with a pencil:

    story: the tail of a batch is stored twice
    sent: 1..6
    outcomes: {ok: 1..6}
    received: 1..6 4..6
    expect:
      counts: {send: 6, ack: 6, positive_ack: 6, received: 9, values_with_duplicates: 3, extra_copies: 3, …}
      events: [4 DJB 2]
      blocks: {3: 1}

Messages are written `[pPARTITION/][sSTREAM/]VALUE[..VALUE][@LEDGER:ENTRY[:BATCH]][#SESSION.ATTEMPT]`. A received
message without a place gets the next entry of ledger 0 in its partition; an ok outcome without one gets the place where
its send was first read (none if it never was). `ends` ({partition: {ledger: entries}}) defaults to what was read,
`partitions` (the partition of stream 0, of stream 1, …) to none that is known. Counts not named are 0. A history in
which some message has a session and an attempt is of schema 2; those without one are of session 0 and attempt 0.
`processed: [1..5, 3..6]` is what each life of the application processed; without that key there was no application.
`commits: [began 1, committed 4, unknown 6, began 5]` is where its lives began and what they committed, at the places at
which these values were first read, or at places that are given; each `began` of a partition in which one is there
already begins the next life. Without that key nothing is known of it.
`transactions: [committed 1..3, aborted 4..6]` is what was sent in each transaction, and its end (ENDS); without that
key there were none. `holes: {PARTITION: [3, 7]}` are entries of ledger 0 that hold no message. `open: {PARTITION:
[PRODUCER.EPOCH@OFFSET SEEN/DUE]}` are transactions that had not ended there, with their seconds; the last stable offset
is the first one's, and without any it is not known."""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import yaml

from dedup.history import histories, latencies
from dedup.wire.manifests import (
    Application,
    ConsumerReport,
    Deduplication,
    EndPosition,
    Hole,
    Life,
    Manifest,
    OpenTransaction,
    ProducerReport,
    Segment,
    Session,
    Transactions,
)

GOLDEN: Final = Path(__file__).parent / "histories"
OUTCOMES: Final = {"ok": 0, "fail": 1, "unknown": 2}
NOWHERE: Final = (0, 0, -1, 0)
ENDS: Final = {
    "committed": (1, 0),
    "aborted": (2, 1),
    "refused": (1, 1),
    "in-doubt": (1, 2),
    "abort-in-doubt": (2, 2),
    "open": (0, 2),
    "taken-over": (0, 1),
}
"""Of a transaction: what was asked for, and what became of it (`Asked`, `Ended`). Refused: the commit, then aborted.

Taken over: brokers aborted it when they let another instance of the producer in."""
COMMITS: Final = {"committed": 0, "failed": 1, "unknown": 2}
"""Of a commit: what became of it (`Committed`)."""
_MESSAGE: Final = re.compile(
    r"(?:p(?P<partition>\d+)/)?(?:s(?P<stream>\d+)/)?(?P<first>\d+)(?:\.\.(?P<last>\d+))?"
    r"(?:@(?P<ledger>-?\d+):(?P<entry>-?\d+)(?::(?P<batch>\d+))?)?"
    r"(?:#(?P<session>\d+)\.(?P<attempt>\d+))?"
)
_OPEN: Final = re.compile(r"(\d+)\.(\d+)@(\d+) (\d+)/(\d+)")

Place = tuple[int, int, int, int]
"""partition, ledger, entry, batch"""


@dataclass(frozen=True)
class History:
    """The rows of one run, as the columns of a history name them; `ends` None: the end is what was read.

    `clock` None: all was sent within one nanosecond. `partitions`: where each stream is sent to; None: not known.
    `resent`: where it is sent again, if that is another one.
    `sessions`: how many there are, in schema 2, whose rows end with session and attempt; 0: schema 1.
    `processed`: what an application did; None: there was none. `commits`: the table's rows; None: there are none.
    `transactions`: the table's rows; None: there were none.
    `holes`: entries of ledger 0 that hold no message, by partition. `open`: transactions that had not ended there.
    """

    sent: Sequence[tuple[int, ...]] = field(default_factory=list)
    outcomes: Sequence[tuple[int, ...]] = field(default_factory=list)
    received: Sequence[tuple[int, ...]] = field(default_factory=list)
    ends: Mapping[int, Mapping[int, int]] | None = None
    clock: Sequence[tuple[int, int, int]] | None = None
    partitions: tuple[int, ...] | None = None
    resent: tuple[int, ...] | None = None
    sessions: int = 0
    processed: Sequence[tuple[int, ...]] | None = None
    transactions: Sequence[tuple[int, ...]] | None = None
    commits: Sequence[tuple[int, ...]] | None = None
    holes: Mapping[int, Sequence[int]] = field(default_factory=dict)
    open: Mapping[int, Sequence[OpenTransaction]] = field(default_factory=dict)

    @property
    def version(self) -> int:
        return histories.WITH_SESSIONS if self.sessions else histories.SCHEMA_VERSION

    def end_positions(self) -> tuple[EndPosition, ...]:
        ends: dict[int, dict[int, int]] = {p: dict(extents) for p, extents in (self.ends or {}).items()}
        if self.ends is None:
            for _, partition, ledger, entry, *_ in self.received:
                extents = ends.setdefault(partition, {})
                extents[ledger] = max(extents.get(ledger, 0), entry + 1)
        return tuple(
            EndPosition(
                partition=p,
                extents=tuple(sorted(e.items())),
                holes=tuple(Hole(ledger=0, first=each, last=each, proof="marker") for each in self.holes.get(p, ())),
                stable=min((each.first for each in self.open.get(p, ())), default=None),
                open=tuple(self.open.get(p, ())),
            )
            for p, e in sorted(ends.items())
        )


@dataclass(frozen=True)
class Golden:
    """A golden history: its story, its rows, and what every judge must say of it."""

    name: str
    story: str
    history: History
    expect: dict[str, Any]


def golden_histories() -> list[Golden]:
    """Every history of tests/histories, by name."""
    return [parse_golden(path) for path in sorted(GOLDEN.glob("*.yaml"))]


def parse_golden(path: Path) -> Golden:
    """One file of tests/histories."""
    document = yaml.safe_load(path.read_text())
    received = list(_received(_text(document.get("received"))))
    first_read: dict[tuple[int, ...], Place] = {}
    for _, partition, ledger, entry, batch, stream, value, *send in received:
        first_read.setdefault((stream, value, *send), (partition, ledger, entry, batch))
    outcomes: list[tuple[int, ...]] = [
        (
            stream,
            value,
            OUTCOMES[word],
            *(place or (first_read.get((stream, value, *send), NOWHERE) if word == "ok" else NOWHERE)),
            *send,
        )
        for word, text in (document.get("outcomes") or {}).items()
        for _, stream, value, place, send in _messages(_text(text))
    ]
    sent: list[tuple[int, ...]] = [
        (stream, value, *send) for _, stream, value, _, send in _messages(_text(document.get("sent")))
    ]
    partitions, resent = (tuple(document[key]) if key in document else None for key in ("partitions", "resent"))
    sessions = 1 + max((row[-2] for rows in (sent, outcomes, received) for row in rows), default=0)
    if "#" not in path.read_text():
        sessions, sent = 0, [row[:-2] for row in sent]
        outcomes, received = [row[:-2] for row in outcomes], [row[:-2] for row in received]
    ends = document.get("ends")
    history = History(
        *(sent, outcomes, received, ends),
        partitions=partitions,
        resent=resent,
        sessions=sessions,
        processed=list(_processed(document["processed"])) if "processed" in document else None,
        transactions=list(_transactions(document["transactions"])) if "transactions" in document else None,
        commits=list(_commits(document["commits"], received)) if "commits" in document else None,
        holes=document.get("holes", {}),
        open={p: [_open(text) for text in texts] for p, texts in document.get("open", {}).items()},
    )
    return Golden(path.stem, document["story"], history, document["expect"])


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _messages(text: str) -> Iterator[tuple[int, int, int, Place | None, tuple[int, int]]]:
    """(partition, stream, value, place, send) of each message that `text` names."""
    for word in text.split():
        match = _MESSAGE.fullmatch(word)
        assert match, f"{word!r} is not [pP/][sS/]VALUE[..VALUE][@LEDGER:ENTRY[:BATCH]][#SESSION.ATTEMPT]"
        part = {name: int(digits or 0) for name, digits in match.groupdict().items()}
        for value in range(part["first"], (part["last"] if match["last"] else part["first"]) + 1):
            place = (part["partition"], part["ledger"], part["entry"], part["batch"]) if match["ledger"] else None
            yield part["partition"], part["stream"], value, place, (part["session"], part["attempt"])


def _received(text: str) -> Iterator[tuple[int, ...]]:
    next_entry: defaultdict[int, Iterator[int]] = defaultdict(itertools.count)
    for arrival, (partition, stream, value, place, send) in enumerate(_messages(text)):
        yield (arrival, *(place or (partition, 0, next(next_entry[partition]), 0)), stream, value, *send)


def _processed(lives: Sequence[object]) -> Iterator[tuple[int, ...]]:
    for life, text in enumerate(lives):
        for partition, stream, value, place, _ in _messages(_text(text)):
            yield (life, *(place or (partition, 0, value - 1, 0)), stream, value)


def _commits(told: Sequence[str], received: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    life, begun = 0, set[int]()
    for text in told:
        word, _, messages = text.partition(" ")
        for partition, stream, value, place, _ in _messages(messages):
            read = (row[1:5] for row in received if (row[1], row[5], row[6]) == (partition, stream, value))
            at = place or next(read)
            if word == "began":
                life, begun = (life + 1, {partition}) if partition in begun else (life, begun | {partition})
            yield (life, int(word != "began"), *at, COMMITS.get(word, 0), 1, 2)


def _transactions(told: Sequence[str]) -> Iterator[tuple[int, ...]]:
    for number, text in enumerate(told, 1):
        end, _, messages = text.partition(" ")
        named = [((send[0], stream), value) for _, stream, value, _, send in _messages(messages)]
        yield from rows_of_transaction(number, named, ENDS[end])


def _open(text: str) -> OpenTransaction:
    match = _OPEN.fullmatch(text)
    assert match, f"{text!r} is not PRODUCER.EPOCH@OFFSET SEEN/DUE"
    producer, epoch, first, seen, due = map(int, match.groups())
    return OpenTransaction(producer_id=producer, epoch=epoch, first=first, seen_s=seen, due_s=due)


def rows_of_transaction(
    number: int, messages: Iterable[tuple[tuple[int, int], int]], end: tuple[int, int]
) -> Iterator[tuple[int, ...]]:
    """The rows of a transaction; each message is ((session, stream), value)."""
    rows: list[list[int]] = []
    for (session, stream), value in sorted(messages):
        if rows and rows[-1][:3] == [session, number, stream] and rows[-1][4] == value - 1:
            rows[-1][4] = value
        else:
            rows.append([session, number, stream, value, value])
    for row in rows:
        yield (*row, *end, 0, 1, 2)


def write_history(
    folder: Path,
    history: History,
    *,
    segment_rows: int = 1 << 20,
    row_group_rows: int = 1 << 16,
    empty: bool = False,
    **manifest: Any,
) -> Manifest:
    """Make `folder` a whole run folder that holds `history`, and return its manifest; `manifest` overrides fields.

    `empty`: each table begins with a segment without rows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"sent": history.sent, "outcomes": history.outcomes, "received": history.received}
    tables |= {} if history.processed is None else {"processed": history.processed}
    tables |= {} if history.transactions is None else {"transactions": history.transactions}
    tables |= {} if history.commits is None else {"commits": history.commits}
    files = {
        table: tuple(_write_segments(folder, table, rows, segment_rows, row_group_rows, empty, history.version))
        for table, rows in tables.items()
    }
    ticks: list[tuple[int, ...]] = list(history.clock or [(0, 0, 0), (0, len(history.sent), 1)])
    clock = _write_parquet(folder, "clock.parquet", "clock", ticks, len(ticks))
    made = _manifest(history, files, clock).model_copy(update=manifest)
    (folder / histories.MANIFEST).write_text(made.model_dump_json(indent=1))
    return made


def write_pair(folder: Path, history: History) -> None:
    """Make `folder` a CSV pair that holds `history`, as far as a pair can: each send has one outcome and no place."""
    told = {(stream, value): outcome for stream, value, outcome, *_ in history.outcomes}
    words = {number: word for word, number in OUTCOMES.items()}
    pulsar = any(ledger or batch for _, _, ledger, _, batch, *_ in history.received)
    streams = any(row[0] for row in history.sent) or any(row[5] for row in history.received)
    sent = [f"{value},{words[told[stream, value]]}" + f",{stream}" * streams for stream, value, *_ in history.sent]
    received = [
        f"{partition},{f'{ledger}:{entry}:{batch}' if pulsar else entry},{value}" + f",{stream}" * streams
        for _, partition, ledger, entry, batch, stream, value in history.received
    ]
    more = ",stream" * streams
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sent.csv").write_text("\n".join([f"value,outcome{more}", *sent, ""]))
    (folder / "received.csv").write_text("\n".join([f"partition,position,value{more}", *received, ""]))


def _write_segments(
    folder: Path,
    table: str,
    rows: Iterable[tuple[int, ...]],
    segment_rows: int,
    row_group_rows: int,
    empty: bool,
    version: int,
) -> Iterator[Segment]:
    (folder / table).mkdir()
    left = iter(rows)
    if empty:
        yield _write_parquet(folder, f"{table}/00000.parquet", table, [], row_group_rows, version)
    for number in itertools.count(int(empty)):
        chunk = list(itertools.islice(left, segment_rows))
        if not chunk:
            return
        yield _write_parquet(folder, f"{table}/{number:05}.parquet", table, chunk, row_group_rows, version)


def _write_parquet(
    folder: Path, name: str, table: str, rows: list[tuple[int, ...]], row_group_rows: int, version: int = 1
) -> Segment:
    schema, path = histories.schemas(version)[table], folder / name
    values = zip(*rows, strict=True) if rows else ((),) * len(schema)
    columns = [pa.array(column, schema.field(i).type) for i, column in enumerate(values)]
    with histories.parquet_writer(path, schema) as writer:
        writer.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=row_group_rows)
    return Segment(path=name, rows=len(rows), bytes=path.stat().st_size, sha256=histories.sha256_of(path))


def _manifest(history: History, files: Mapping[str, tuple[Segment, ...]], clock: Segment) -> Manifest:
    told = [row[2] for row in history.outcomes]
    producer = ProducerReport(
        complete=True,
        library="confluent-kafka",
        library_version="0",
        effective_config={},
        sent=len(history.sent),
        ok=told.count(0),
        fail=told.count(1),
        unknown=told.count(2),
        segments=(*files["sent"], *files["outcomes"], *files.get("transactions", ()), clock),
        transactions=None if history.transactions is None else _ended(history.transactions),
        sessions=(Session(identity="", began="started", ended="closed"),) * history.sessions,
        first_send_ns=0,
        last_acknowledgement_ns=1,
    )
    consumer = ConsumerReport(
        complete=True,
        reached_end=True,
        library="confluent-kafka",
        library_version="0",
        effective_config={},
        received=len(history.received),
        end=history.end_positions(),
        segments=(*files["received"], *files.get("processed", ()), *files.get("commits", ())),
        application=None if history.processed is None else _application(history.processed, history.commits),
    )
    return Manifest(
        schema_version=history.version,
        experiment="golden",
        spec_digest="0" * 64,
        run_id="d-aaaaaaaaaa",
        attempt=1,
        system="kafka",
        kind="kafka",
        variant="dedup",
        run=1,
        seed=1,
        messages=len({row[:2] for row in history.sent}),
        streams=max((row[0] for row in history.sent), default=0) + 1,
        stream_partitions=history.partitions,
        resent_partitions=history.resent,
        topic="t",
        versions={},
        producer=producer,
        consumer=consumer,
        deduplication=Deduplication(asked=True, in_force=True, proof="made by hand"),
        files=(*producer.segments, *consumer.segments),
    )


def _ended(rows: Sequence[tuple[int, ...]]) -> Transactions:
    ends = {row[:2]: row[6] for row in rows}
    told = [list(ends.values()).count(end) for end in range(3)]
    return Transactions(rows=len(rows), number=len(ends), committed=told[0], aborted=told[1], unknown=told[2])


def _application(processed: Sequence[tuple[int, ...]], commits: Sequence[tuple[int, ...]] | None) -> Application:
    lives = [row[0] for row in processed]
    number = max((row[0] for row in (*processed, *(commits or ()))), default=0) + 1
    return Application(
        reached_end=True,
        group="g",
        library_version="0",
        effective_config={},
        lives=tuple(
            Life(began="at 0", ended="closed", processed=lives.count(life), committed=lives.count(life))
            for life in range(number)
        ),
        processed=len(processed),
        commits=None if commits is None else len(commits),
    )


def write_latencies(folder: Path, rows: Sequence[tuple[int, ...]], schema: pa.Schema = histories.LATENCY) -> Manifest:
    """Put the optional file of latencies beside a history, and name it in its manifest.

    A row: second, outcome, lower_ns, upper_ns, count.
    """
    path = folder / latencies.NAME
    with histories.parquet_writer(path, schema) as writer:
        columns = zip(zip(*rows, strict=True), schema, strict=True)
        arrays = [pa.array(column, type=field.type) for column, field in columns]
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    made = histories.read_manifest(folder)
    segment = Segment(path=latencies.NAME, bytes=path.stat().st_size, sha256=histories.sha256_of(path))
    made = made.model_copy(update={"files": (*made.files, segment)})
    (folder / histories.MANIFEST).write_text(made.model_dump_json(indent=1))
    return made
