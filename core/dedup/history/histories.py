"""The history: what was sent, the outcome of each send, and what was read back.

A history is the product (style.md, rule 1): judges read only it, so any verdict can be recomputed offline. It is a
folder of closed Parquet segments and a manifest that is written last. This file holds the schemas, the names, and the
check that decides whether a folder may be judged: every segment that the manifest names is there, with the recorded
bytes and rows, and nothing else is there.

A history may have three more tables. `processed`: what an application did with the messages of the topic. `commits`:
where its sessions began, and what they committed. `transactions`: which messages were sent in which transaction, and
what became of it.

Schema 2 adds `session` and `attempt` to the three tables: which life of the producer sent the message, and which of the
application's own sends of it this was. Schema 1 is read for ever; it has one send of each message. A manifest says
which schema its tables have.
"""

import hashlib
import stat
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from dedup.errors import EvidenceError
from dedup.history.stores import Place, below, in_store, is_away, parquet, reached
from dedup.refusals import location, short
from dedup.wire.manifests import Manifest, Segment

SCHEMA_VERSION: Final = 1
"""What a run writes that sends each message once."""
WITH_SESSIONS: Final = 2
"""The schema of tables with sessions and attempts."""

OPEN_SUFFIX: Final = ".open"
MANIFEST: Final = "manifest.json"
VERIFICATION: Final = "verification.json"
"""The judges' answers on a history; the file lies beside the evidence and is no part of it."""

TABLES: Final = ("sent", "outcomes", "received")
PROCESSED: Final = "processed"
"""A table of histories with an application; others have no such folder."""
TRANSACTIONS: Final = "transactions"
"""A table of histories whose producer sends in transactions; others have no such folder."""
COMMITS: Final = "commits"
"""A table of histories with an application; others, and older ones, have no such folder."""
ALL_TABLES: Final = (*TABLES, PROCESSED, TRANSACTIONS, COMMITS)


def _schema(**columns: pa.DataType) -> pa.Schema:
    """A schema without nulls: such a file is read in two thirds of the time."""
    return pa.schema([pa.field(name, type_, nullable=False) for name, type_ in columns.items()])


_POSITION: Final = {"partition": pa.int32(), "ledger": pa.int64(), "entry": pa.int64(), "batch": pa.int32()}
SENT: Final = _schema(stream=pa.int32(), value=pa.int64())
OUTCOMES: Final = _schema(stream=pa.int32(), value=pa.int64(), outcome=pa.int8(), **_POSITION)
RECEIVED: Final = _schema(arrival=pa.int64(), **_POSITION, stream=pa.int32(), value=pa.int64())
PROCESSINGS: Final = _schema(life=pa.int32(), **_POSITION, stream=pa.int32(), value=pa.int64())
"""In the order of processing; `life`: of the application, from 0."""
IN_TRANSACTIONS: Final = _schema(
    session=pa.int32(),
    number=pa.int64(),
    stream=pa.int32(),
    first=pa.int64(),
    last=pa.int64(),
    asked=pa.int8(),
    outcome=pa.int8(),
    begun_ns=pa.int64(),
    asked_ns=pa.int64(),
    ended_ns=pa.int64(),
)
"""A row for each transaction and stream: the values `first` to `last` were sent in transaction `number` of `session`.
What the producer asked for, and what became of it: `Asked` and `Ended` (dedup.wire.manifests)."""
POSITIONS: Final = _schema(
    life=pa.int32(), kind=pa.int8(), **_POSITION, outcome=pa.int8(), asked_ns=pa.int64(), ended_ns=pa.int64()
)
"""In the order in which the application came to them; what a row is: `Told` (dedup.wire.manifests). The position is
that of the first message that a life was given of the partition, or of the last one that a commit covers."""
CLOCK: Final = _schema(kind=pa.int8(), index=pa.int64(), monotonic_ns=pa.int64())
LATENCY: Final = _schema(
    second=pa.int32(), outcome=pa.int8(), lower_ns=pa.int64(), upper_ns=pa.int64(), count=pa.int64()
)
"""Of an optional file beside the tables, which no judge reads (dedup.history.latencies)."""
SCHEMAS: Final = {
    "sent": SENT,
    "outcomes": OUTCOMES,
    "received": RECEIVED,
    "clock": CLOCK,
    PROCESSED: PROCESSINGS,
    TRANSACTIONS: IN_TRANSACTIONS,
    COMMITS: POSITIONS,
}
SEND: Final = {"session": pa.int32(), "attempt": pa.int32()}
"""Schema 2: the producer's session, from 0, and the application's attempt, from 0. Of a message read it is the send
that its payload names."""
SCHEMAS_WITH_SESSIONS: Final = {
    name: pa.schema([*SCHEMAS[name], *_schema(**SEND)]) if name in TABLES else SCHEMAS[name] for name in SCHEMAS
}
CLOCK_SENT: Final = 0
CLOCK_ACKNOWLEDGED: Final = 1

EXACT: Final = {b"dedup.statistics": b"exact"}
"""The mark in a file's footer: our writer made the statistics."""
OFTEN_CONSTANT: Final = {"partition", "ledger", "batch", "stream", "outcome", "life", *SEND}


def schemas(version: int) -> dict[str, pa.Schema]:
    """The tables of a history of that schema version."""
    return SCHEMAS if version == SCHEMA_VERSION else SCHEMAS_WITH_SESSIONS


def version_of(sends: bool) -> int:
    """The schema version of a run, by whether its payloads name their sends."""
    return WITH_SESSIONS if sends else SCHEMA_VERSION


def parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer with the settings every segment has: delta-encoded integers under zstd.

    Columns that are often constant have statistics, so that a reader need not unpack them (engine/chunks.py). Readers
    use statistics only if the file has the mark EXACT.
    """
    writer = pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        column_encoding={
            name: "DELTA_BINARY_PACKED" for name in schema.names if schema.field(name).type in (pa.int32(), pa.int64())
        },
        write_statistics=[name for name in schema.names if name in OFTEN_CONSTANT] or False,
    )
    writer.add_key_value_metadata(EXACT)
    return writer


def same_columns(found: pa.Schema, table: str, version: int = SCHEMA_VERSION) -> bool:
    """Whether these are the columns of a table of that schema; columns of older histories are nullable."""
    wanted = schemas(version)[table]
    return [(field.name, field.type) for field in found] == [(field.name, field.type) for field in wanted]


def sha256_of(path: Place) -> str:
    """The hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def segments(folder: Place, table: str) -> list[Place]:
    """The closed segments of one table in the order they were written."""
    names = (name for name in below(folder / table) if name.endswith(".parquet") and "/" not in name)
    return [folder / table / name for name in sorted(names, key=by_number)]


def by_number(name: str) -> tuple[int, str]:
    """A key that sorts a table's segments as they were written: the 100,001st has a number of six digits."""
    return len(name), name


def run_folders(root: Place, others: Collection[str] = ()) -> list[Place]:
    """A place if it is a run folder, else those below it, whole or not: what holds a manifest, a table or `others`.

    A history below another one is found by its manifest, or by `others`, only: below a run are folders named after
    faults, which may be called `sent`.
    """
    parts = {MANIFEST, *ALL_TABLES, *others}
    found: dict[tuple[str, ...], bool] = {}
    for name in below(root):
        steps = PurePosixPath(name).parts
        first = next((number for number, step in enumerate(steps) if step in parts), None)
        if first is not None:
            found[steps[:first]] = found.get(steps[:first], False) or steps[first] not in ALL_TABLES
    if () in found:
        return [root]
    outer = (
        steps
        for steps, named in found.items()
        if named or not any(steps[:depth] in found for depth in range(len(steps)))
    )
    return [root.joinpath(*steps) for steps in sorted(outer)]


def read_manifest(folder: Place) -> Manifest:
    """The manifest of a run folder, or EvidenceError: a folder without a valid one is never judged."""
    path = folder / MANIFEST
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise EvidenceError(
            where=str(folder),
            got="no manifest.json" if folder.is_dir() else "no such folder",
            rule="a run folder's manifest is written last, so the run never finished or this is not a run folder",
            todo="run it again (dedup run … --resume), or give the path of a run folder",
        ) from None
    except OSError as error:
        if in_store(folder):
            raise  # a store that does not answer proves nothing about the folder
        raise EvidenceError(
            where=str(path),
            got=error.strerror or type(error).__name__,
            rule="a run folder holds a manifest.json that can be read",
            todo="give the path of a run folder, or correct its permissions",
        ) from None
    except ValidationError as error:
        raise _unusable(path, error) from None


def _unusable(path: Place, error: ValidationError) -> EvidenceError:
    problems = error.errors(include_url=False)
    version = next((problem for problem in problems if problem["loc"] == ("schema_version",)), None)
    first = version or problems[0]
    got, rule = short(first["input"]), "no manifest holds that here, so this is not a run's manifest or it is damaged"
    todo = "restore the file from its artifacts, or run again"
    if first["type"] == "json_invalid":
        got, rule = "text that is not JSON", "a manifest is one JSON document, so this one is damaged"
    elif version:
        got, rule = f"schema version {got}", f"this dedup reads versions {SCHEMA_VERSION} and {WITH_SESSIONS}"
        todo = "judge it with the dedup that wrote it (see versions in the manifest)"
    elif first["type"] == "missing":
        got, rule = "nothing", "this key is required, so this is not a run's manifest or it is damaged"
    elif not first["loc"]:
        rule = "a manifest is a mapping, so this is not one"
    elif first["type"] == "extra_forbidden":
        rule = "no such key is known here, so this is not a run's manifest or another dedup wrote it"
    return EvidenceError(where=f"{path}: {location(first['loc']) or 'document'}", got=got, rule=rule, todo=todo)


def ends_of(folder: Place) -> list[int]:
    """When outcomes reached the producer: monotonic_ns, in order; empty if the clock is not there or damaged."""
    with reached(folder):
        try:
            with parquet(folder / "clock.parquet") as file:
                rows = file.read(columns=CLOCK.names).cast(CLOCK)
        except (FileNotFoundError, NotADirectoryError, pa.ArrowException, ValueError):
            return []
        except OSError as error:
            if is_away(folder, error):
                raise
            return []
    found: list[int] = rows.filter(pc.equal(rows["kind"], CLOCK_ACKNOWLEDGED))["monotonic_ns"].to_pylist()
    return found


def damages(folder: Place, manifest: Manifest) -> list[str]:
    """Why this folder is no evidence: one line a damage, none if it is whole."""
    version = manifest.schema_version
    in_files = [damage for segment in manifest.files for damage in damages_of(folder, segment, version)]
    return in_files + omissions(folder, manifest)


def omissions(folder: Place, manifest: Manifest) -> list[str]:
    """Where the manifest and the names in the folder differ; no file is opened."""
    found = []
    named = {segment.path for segment in manifest.files}
    names = below(folder)
    for table in ALL_TABLES:
        for name in (name for name in names if name.startswith(f"{table}/")):
            if name.endswith(OPEN_SUFFIX):
                found.append(f"{name}: never closed; what it held is lost")
            elif name not in named:
                found.append(f"{name}: not named by the manifest")
        rows = sum(segment.rows for segment in manifest.files if segment.path.startswith(f"{table}/"))
        if rows != manifest.rows(table):
            found.append(f"{table}: {rows} rows in segments, {manifest.rows(table)} in the manifest")
    if "clock.parquet" not in named:
        found.append("clock.parquet: not named by the manifest")
    return found


def damages_of(folder: Place, segment: Segment, version: int = SCHEMA_VERSION) -> list[str]:
    """How one file differs from what the manifest, of that schema version, recorded."""
    path = folder / segment.path
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            return [f"{segment.path}: missing"]
        if found.st_size != segment.bytes:
            return [f"{segment.path}: {found.st_size} bytes, {segment.bytes} in the manifest"]
        digest = sha256_of(path)
    except (FileNotFoundError, NotADirectoryError):
        return [f"{segment.path}: missing"]
    except OSError as error:
        if in_store(folder):
            raise
        return [f"{segment.path}: cannot be read: {error.strerror or error}"]
    if digest != segment.sha256:
        return [f"{segment.path}: its bytes changed since the manifest was written"]
    return _strange_table(path, segment, version) if path.suffix == ".parquet" else []


def _strange_table(path: Place, segment: Segment, version: int) -> list[str]:
    """The damage of a file that another program, or a newer one, has written; or of a table with other rows."""
    name, table = segment.path, segment.path.split("/")[0].removesuffix(".parquet")
    try:
        with parquet(path) as file:
            found, rows = file.schema_arrow, file.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        return [f"{name}: not a Parquet file: {short(str(error).splitlines()[0])}"]
    if table in SCHEMAS and not same_columns(found, table, version):
        columns = ", ".join(f"{field.name} {field.type}" for field in found)
        return [f"{name}: its columns are {short(columns)}: another program wrote it, or a newer dedup"]
    if table in ALL_TABLES and rows != segment.rows:
        return [f"{name}: {rows} rows, {segment.rows} in the manifest"]
    return []
