"""A history that another program recorded: a folder with a pair of CSV files.

`sent.csv` holds the sends and their outcomes, `received.csv` the messages read, in the order of arrival
(docs/history.md). Judges read one format only. So a pair is converted, batch by batch and in bounded memory, into the
tables of a run folder, and the same rules judge it.

Such files can be damaged in other ways than ours, and a file must never be read in part: every line must have the
columns of the header, every row is one line, and the last line must have a line end. A quote that nobody closes would
else make a text of the rows after it. Optional columns of other names are not read. With
`session` or `attempt` in both files the tables are of schema 2: a value may then be sent more than once. A pair that
comes with a manifest is checked against it, and has the schema that it names. A pair without one gets a manifest made
from its rows; what such rows prove is in dedup/judgement/bare.py.
"""

import csv
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from dedup.errors import EvidenceError
from dedup.history.histories import (
    ALL_TABLES,
    CLOCK,
    MANIFEST,
    SCHEMA_VERSION,
    SEND,
    TABLES,
    WITH_SESSIONS,
    damages_of,
    parquet_writer,
    read_manifest,
    schemas,
    sha256_of,
)
from dedup.history.stores import Place
from dedup.payloads import MAX_STREAMS, MAX_VALUE
from dedup.refusals import short
from dedup.wire.manifests import ConsumerReport, Deduplication, EndPosition, Manifest, ProducerReport, Segment, Session

SENT_CSV: Final = "sent.csv"
RECEIVED_CSV: Final = "received.csv"
COLUMNS: Final = {SENT_CSV: ("value", "outcome"), RECEIVED_CSV: ("partition", "position", "value")}
STREAM: Final = "stream"
OPTIONAL: Final = (STREAM, *SEND)
"""Columns that both files have, or neither has."""
OUTCOMES: Final = ("ok", "fail", "unknown")
"""The words for outcomes, in the order of the numbers that a history stores."""

MOST: Final = {
    STREAM: MAX_STREAMS - 1,
    "value": MAX_VALUE,
    "partition": (1 << 31) - 1,
    "position": 10**18 - 1,
    "session": (1 << 16) - 1,
    "attempt": (1 << 31) - 1,
}
"""The largest number that each column of whole numbers may hold; the smallest is 0."""

PLACE: Final = r"^(?P<ledger>[0-9]{1,18}):(?P<entry>[0-9]{1,18}):(?P<batch>[0-9]{1,9})$"
"""A position in Pulsar, as RE2 reads it. Kafka's is a whole number."""

BLOCK_BYTES: Final = 1 << 22
HEADER_BYTES: Final = 1 << 16
_NOT_A_CELL: Final = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to \w+: (.*)", re.DOTALL)
_NOT_A_ROW: Final = re.compile(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+)")


def holds_pair(folder: Place) -> bool:
    """Whether a folder holds a pair, or half of one."""
    return any((folder / name).exists() for name in COLUMNS)


def unpack(folder: Path, into: Path) -> None:
    """Make `into` a run folder from the pair in `folder`; EvidenceError if the pair is no evidence."""
    headers = {name: _Header.read(folder / name) for name in COLUMNS}
    _check_folder(folder, headers)
    manifest = read_manifest(folder) if (folder / MANIFEST).exists() else None
    sends = [name for name in SEND if name in headers[SENT_CSV].names]
    found = _Found(WITH_SESSIONS if sends else SCHEMA_VERSION)
    if manifest is not None:
        _check_checksums(folder, manifest)
        _check_schema(folder, manifest, sends)
        found.version = manifest.schema_version
    _unpack_sent(headers[SENT_CSV], into, found)
    _unpack_received(headers[RECEIVED_CSV], into, found)
    with parquet_writer(into / "clock.parquet", CLOCK):
        pass  # a pair has no times
    files = [into / table / "00000.parquet" for table in TABLES] + [into / "clock.parquet"]
    segments = tuple(_segment(into, path) for path in files)
    made = manifest or found.manifest(folder.resolve().name, headers[RECEIVED_CSV].pulsar, _values_sent(into, found))
    (into / MANIFEST).write_text(made.model_copy(update={"files": segments}).model_dump_json(indent=1))


@dataclass
class _Header:
    """The first line of a file, and the form of its positions, taken from the second line."""

    path: Path
    names: list[str]
    pulsar: bool

    @classmethod
    def read(cls, path: Path) -> "_Header":
        """Check all that can be known of a file before its rows are read."""
        wanted = ",".join(COLUMNS[path.name])
        try:
            with path.open("rb") as file:
                lines = [file.readline(HEADER_BYTES) for _ in range(2)]
                file.seek(-1 if lines[0] else 0, os.SEEK_END)
                last = file.read()
        except FileNotFoundError:
            raise _error(path, "no such file", f"{' and '.join(COLUMNS)} are a pair", "put it there") from None
        except OSError as error:
            got = error.strerror or type(error).__name__
            raise _error(path, got, "it must be a file that can be read", "correct it or its permissions") from None
        if not lines[0]:
            raise _error(path, "an empty file", f"its first line is {wanted}", "write it again, with its rows")
        names, first = (_cells(path, number, line) for number, line in enumerate(lines, 1))
        known = {*COLUMNS[path.name], *OPTIONAL}
        misspelt = [name for name in names if name not in known and name.strip().lower() in known]
        if misspelt or not set(COLUMNS[path.name]) <= set(names) or len(set(names)) != len(names):
            raise _error(
                f"{path}: line 1",
                short(",".join(names)),
                f"the header names {wanted}, each once and in small letters, and may name {STREAM} and others",
                "write that header",
            )
        if not lines[1]:
            raise _error(path, "a header without rows", "a history without rows proves nothing", "add the rows")
        if last != b"\n":
            with path.open("rb") as file:
                where = f"{path}: line {sum(1 for _ in file)}"
            todo = f"write the file again, or if it is whole, end its last line: echo >> {path.name}"
            raise _error(where, "a last line without a line end", "it may have been cut off", todo)
        position = dict(zip(names, first, strict=False)).get("position", "")
        return cls(path, names, pulsar=":" in position)


def _cells(path: Path, number: int, line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode("utf-8-sig")]))
    except (UnicodeDecodeError, csv.Error):
        raise _not_utf8(path, number) from None


def _check_folder(folder: Path, headers: dict[str, _Header]) -> None:
    """Both files have an optional column or neither has, and no other history lies beside them."""
    for name in OPTIONAL:
        without = [header.path for header in headers.values() if name not in header.names]
        if len(without) == 1:
            raise _error(
                without[0],
                f"no column {name}",
                "the other file of the pair has one",
                "add it here or take it out there",
            )
    if other := [table for table in ALL_TABLES if (folder / table).exists()]:
        raise _error(
            folder, f"a CSV pair and {other[0]}/", "a folder holds one history", "give each a folder of its own"
        )


def _check_checksums(folder: Path, manifest: Manifest) -> None:
    named = {segment.path for segment in manifest.files}
    found = [f"{name}: not named by the manifest" for name in COLUMNS if name not in named]
    found += [damage for segment in manifest.files for damage in damages_of(folder, segment)]
    if found:
        raise _error(
            folder / MANIFEST,
            "; ".join(found),
            "a manifest beside a CSV pair names both files with their bytes and SHA-256",
            "restore what was recorded, or remove the manifest (then nothing passes unless it is trusted)",
        )


def _check_schema(folder: Path, manifest: Manifest, sends: list[str]) -> None:
    if sends and manifest.schema_version == SCHEMA_VERSION:
        raise _error(
            folder / MANIFEST,
            f"schema_version {SCHEMA_VERSION} beside files with columns {', '.join(sends)}",
            f"only the tables of schema {WITH_SESSIONS} have them: which send a copy is of would be lost",
            f"write schema_version {WITH_SESSIONS} and the producer's sessions, or take these columns out",
        )


def _batches(header: _Header) -> Iterator[tuple[int, dict[str, Any]]]:
    """The columns of a file, some rows at a time, each with the number of its first line."""
    texts = {"outcome"} | ({"position"} if header.pulsar else set())
    names = [name for name in header.names if name in {*COLUMNS[header.path.name], *OPTIONAL}]
    types = {name: pa.string() if name in texts else pa.int64() for name in names}
    line = 2
    try:
        with pyarrow.csv.open_csv(
            header.path,
            # One thread: only then does an error name its line.
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(
                ignore_empty_lines=False,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types, include_columns=names, null_values=[], strings_can_be_null=False
            ),
        ) as reader:
            for batch in reader:
                columns = dict(zip(names, batch.columns, strict=True))
                for name in names:
                    if name not in texts:
                        _check_bounds(header.path, line, name, columns[name])
                yield line, {name: _same(0, batch.num_rows) for name in OPTIONAL} | columns
                line += batch.num_rows
    except pa.ArrowInvalid as error:
        raise _unreadable(header, str(error)) from None
    lines, lone = _lines(header.path)
    if lone or line != lines + 1:
        raise _row_of_lines(header.path)


def _lines(path: Path) -> tuple[int, int]:
    """How many lines a file has; and how many CRs that end none, where Arrow begins another row unless in a quote."""
    lines = lone = 0
    with path.open("rb") as file:
        before = b""
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            lines += block.count(b"\n")
            lone += block.count(b"\r") - (before + block).count(b"\r\n")
            before = block[-1:]
    return lines, lone


def _row_of_lines(path: Path) -> EvidenceError:
    """The error for a text that goes on in the next line, where it may have swallowed rows; or behind a lone CR."""
    with path.open("rb") as file:
        opens = next((number for number, line in enumerate(file, 1) if _goes_on(line)), None)
    return _error(
        f"{path}: line {opens}" if opens else str(path),
        "a line end within a row",
        "each row is one line: of a quote that is not closed, and of a line end in a text, nobody knows which it was",
        "close the quote, or write the file without that column",
    )


def _goes_on(line: bytes) -> bool:
    if b"\r" in line.removesuffix(b"\r\n"):
        return True
    try:
        return not list(csv.reader([line.decode(errors="replace")], strict=True))
    except csv.Error:
        return True


def _unreadable(header: _Header, message: str) -> EvidenceError:
    """The error for a line that Arrow cannot read, made from Arrow's message."""
    if found := _NOT_A_ROW.match(message):
        line, wanted, got = found.groups()
        return _error(
            f"{header.path}: line {line}",
            f"{got} columns",
            f"the header has {wanted}",
            "correct the line; if it is the last one, the file was cut off",
        )
    if found := _NOT_A_CELL.match(message):
        name, line, got = header.names[int(found[1])], found[2], found[3].removeprefix("invalid value ").strip("'")
        if "\ufffd" in got or "UTF8" in got:
            return _not_utf8(header.path, line)
        return _no_number(header.path, line, name, short(got))
    return _error(header.path, short(message), "every line has the columns of the header", "write the file again")


def _not_utf8(path: Path, line: int | str) -> EvidenceError:
    return _error(f"{path}: line {line}", "bytes that are not UTF-8", "a CSV file is text in UTF-8", "convert it")


def _check_bounds(path: Path, line: int, name: str, column: Any) -> None:
    wrong = pc.index(pc.or_(pc.less(column, 0), pc.greater(column, MOST[name])), True).as_py()
    if wrong >= 0:
        raise _no_number(path, line + wrong, name, str(column[wrong]))


def _no_number(path: Path, line: int | str, name: str, got: str) -> EvidenceError:
    form = " (all positions in a file have the form of the first)" if name == "position" else ""
    rule = f"{name} is a whole number from 0 to {MOST[name]:,}{form}"
    todo = "number the messages 1, 2, 3, … as they are sent" if name == "value" else "write digits only"
    return _error(f"{path}: line {line}", got, rule, todo)


class _Rising:
    """The last value of each stream so far: values rise as they are sent, and each is sent once.

    In schema 2 that is so of each attempt of each session.
    """

    def __init__(self, version: int) -> None:
        self._keys = (STREAM,) if version == SCHEMA_VERSION else OPTIONAL
        self._last: dict[tuple[int, ...], int] = {}

    def check(self, path: Path, line: int, columns: dict[str, Any]) -> None:
        streams, values = (columns[name].to_numpy(zero_copy_only=False) for name in (STREAM, "value"))
        keys = [columns[name].to_numpy(zero_copy_only=False) for name in self._keys]
        order = np.lexsort(list(reversed(keys)))
        value, sorted_keys = values[order], [key[order] for key in keys]
        first = np.flatnonzero(np.logical_or.reduce([np.diff(key, prepend=-1) != 0 for key in sorted_keys]))
        before = np.roll(value, 1)
        named = list(zip(*(key[first].tolist() for key in sorted_keys), strict=True))
        before[first] = [self._last.get(each, -1) for each in named]
        wrong = order[value <= before]
        if len(wrong):
            row = int(wrong.min())
            last = int(before[np.flatnonzero(order == row)[0]])
            raise _error(
                f"{path}: line {line + row}",
                f"value {values[row]} after {last}" + (f" in stream {streams[row]}" if streams[row] else ""),
                "the values of a stream rise in the order of sending, each once",
                f"write the rows in the order of sending; of several sequences each needs a {STREAM} of its own",
            )
        last_rows = np.append(first[1:], len(value)) - 1
        self._last.update(zip(named, value[last_rows].tolist(), strict=True))


@dataclass
class _Found:
    """What a manifest is made from: sums over the rows of a pair."""

    version: int
    sessions: int = 1
    outcomes: Counter[int] = field(default_factory=Counter)
    streams: set[int] = field(default_factory=set)
    received: int = 0
    ends: dict[int, dict[int, int]] = field(default_factory=dict)
    """By partition and ledger, one more than the last entry read: no later entry is known."""

    def manifest(self, name: str, pulsar: bool, values: int) -> Manifest:
        """A manifest for files that came without one; it does not name the partitions of streams."""
        unknown = Session(identity="", began="", ended="")
        ends: dict[int, dict[int, int]] = {partition: {} for partition in range(len(self.streams))} | self.ends
        producer = ProducerReport(
            complete=True,
            library="",
            library_version="",
            effective_config={},
            sent=self.outcomes.total(),
            ok=self.outcomes[0],
            fail=self.outcomes[1],
            unknown=self.outcomes[2],
            sessions=(unknown,) * self.sessions if self.version == WITH_SESSIONS else (),
            segments=(),
            first_send_ns=0,
            last_acknowledgement_ns=0,
        )
        consumer = ConsumerReport(
            complete=True,
            reached_end=True,
            library="",
            library_version="",
            effective_config={},
            received=self.received,
            end=tuple(EndPosition(partition=p, extents=tuple(sorted(ends[p].items()))) for p in sorted(ends)),
            segments=(),
        )
        return Manifest(
            schema_version=self.version,
            experiment="",
            spec_digest="",
            run_id=name,
            attempt=1,
            system="",
            kind="pulsar" if pulsar else "kafka",
            variant="",
            run=0,
            seed=0,
            messages=values,
            streams=len(self.streams),
            topic="",
            versions={},
            producer=producer,
            consumer=consumer,
            deduplication=Deduplication(asked=False, in_force=None, proof="a CSV pair has none"),
            files=(),
        )


def _unpack_sent(header: _Header, into: Path, found: _Found) -> None:
    words, rising = pa.array(OUTCOMES), _Rising(found.version)
    with _table(into, "sent", found.version) as sent, _table(into, "outcomes", found.version) as outcomes:
        for line, columns in _batches(header):
            outcome = pc.index_in(columns["outcome"], value_set=words)
            if (wrong := pc.index(pc.is_null(outcome), True).as_py()) >= 0:
                raise _error(
                    f"{header.path}: line {line + wrong}",
                    short(columns["outcome"][wrong].as_py()),
                    f"outcome is one of {', '.join(OUTCOMES)}, in small letters",
                    "write ok for an acknowledgement, fail only if the message provably never left, else unknown",
                )
            rising.check(header.path, line, columns)
            nowhere = {"partition": _same(0, len(outcome)), "ledger": _same(0, len(outcome))}
            nowhere |= {"entry": _same(-1, len(outcome)), "batch": _same(0, len(outcome))}
            _write(sent, columns)
            _write(outcomes, columns | nowhere | {"outcome": outcome})
            found.sessions = max(found.sessions, 1 + pc.max(columns["session"]).as_py())
            found.outcomes.update({each["values"]: each["counts"] for each in pc.value_counts(outcome).to_pylist()})
            found.streams.update(pc.unique(columns[STREAM]).to_pylist())


def _unpack_received(header: _Header, into: Path, found: _Found) -> None:
    with _table(into, "received", found.version) as received:
        for line, columns in _batches(header):
            position, rows = columns.pop("position"), len(columns["value"])
            place = {"ledger": _same(0, rows), "entry": position, "batch": _same(0, rows)}
            if header.pulsar:
                parts = pc.extract_regex(position, PLACE)
                if (wrong := pc.index(pc.is_null(parts), True).as_py()) >= 0:
                    raise _error(
                        f"{header.path}: line {line + wrong}",
                        short(position[wrong].as_py()),
                        "position is ledger:entry:batch in every line, as in the first",
                        "write three whole numbers; the batch index is 0 outside a batch",
                    )
                place = {name: parts.field(name).cast(pa.int64()) for name in place}
            arrival = pa.array(np.arange(found.received, found.received + rows))
            _write(received, columns | place | {"arrival": arrival})
            found.sessions = max(found.sessions, 1 + pc.max(columns["session"]).as_py())
            found.received += rows
            keys = {"partition": columns["partition"], "ledger": place["ledger"], "entry": place["entry"]}
            last = pa.table(keys).group_by(["partition", "ledger"]).aggregate([("entry", "max")])
            for each in last.to_pylist():
                ledgers = found.ends.setdefault(each["partition"], {})
                ledgers[each["ledger"]] = max(ledgers.get(each["ledger"], 0), each["entry_max"] + 1)


def _values_sent(into: Path, found: _Found) -> int:
    """How many values were sent; in schema 2 a value may have several rows, and this takes 16 bytes a row."""
    if found.version == SCHEMA_VERSION:
        return found.outcomes.total()
    sent = pq.read_table(into / "sent", columns=[STREAM, "value"])
    values: int = sent.group_by([STREAM, "value"]).aggregate([]).num_rows
    return values


@contextmanager
def _table(into: Path, name: str, version: int) -> Iterator[pq.ParquetWriter]:
    (into / name).mkdir(parents=True)
    with parquet_writer(into / name / "00000.parquet", schemas(version)[name]) as writer:
        yield writer


def _write(writer: pq.ParquetWriter, columns: dict[str, Any]) -> None:
    arrays = [columns[field.name].cast(field.type) for field in writer.schema]
    writer.write_table(pa.Table.from_arrays(arrays, schema=writer.schema))


def _same(number: int, rows: int) -> Any:
    return pa.repeat(pa.scalar(number, pa.int64()), rows)


def _segment(folder: Path, path: Path) -> Segment:
    rows = pq.read_metadata(path).num_rows
    return Segment(
        path=path.relative_to(folder).as_posix(), rows=rows, bytes=path.stat().st_size, sha256=sha256_of(path)
    )


def _error(where: object, got: str, rule: str, todo: str) -> EvidenceError:
    return EvidenceError(where=str(where), got=got, rule=rule, todo=todo)
