"""One damaged history, from a number: something happens to a file of a run whose history passes.

A corruption is done at a place that the dice choose. Some happen to files after they were recorded, so that a checksum
tells; the others before, so that the checksum is right and only what is in the file is wrong. Whatever happened, the
verdict is *error*.
"""

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tests.builders import History, write_history
from tests.fuzz.specs import Outcome

from dedup.experiment.spec import Expectation
from dedup.history.histories import MANIFEST, SCHEMAS, parquet_writer, sha256_of
from dedup.judgement.anomalies import Engine
from dedup.judgement.verdicts import RunVerdict, Verdict, judge_alone
from dedup_lab.children import Children
from dedup_lab.judging import judge

MESSAGES: Final = 60
CLEAN: Final = History(
    sent=[(0, value) for value in range(1, MESSAGES + 1)],
    outcomes=[(0, value, 0, 0, 0, value - 1, 0) for value in range(1, MESSAGES + 1)],
    received=[(value - 1, 0, 0, value - 1, 0, 0, value) for value in range(1, MESSAGES + 1)],
)
"""One stream, of which nothing is lost and nothing is there twice."""

Corruption = Callable[[random.Random, Path, Path], None]
"""Does something to a file of a run folder: (dice, folder, file)."""


def truncated(dice: random.Random, folder: Path, file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: dice.randrange(len(content))])


def bit_flipped(dice: random.Random, folder: Path, file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    file.write_bytes(content)


def longer(dice: random.Random, folder: Path, file: Path) -> None:
    file.write_bytes(file.read_bytes() + dice.randbytes(dice.randint(1, 100)))


def gone(dice: random.Random, folder: Path, file: Path) -> None:
    file.unlink()


def half_written(dice: random.Random, folder: Path, file: Path) -> None:
    truncated(dice, folder, file)
    file.rename(file.with_name(f"{file.name}.open"))


def another_ones(dice: random.Random, folder: Path, file: Path) -> None:
    others = [path for path in folder.rglob("*.parquet") if path.read_bytes() != file.read_bytes()]
    shutil.copy(dice.choice(sorted(others)), file)


def one_too_many(dice: random.Random, folder: Path, file: Path) -> None:
    shutil.copy(file, file.with_name("99999.parquet"))


# Recorded as they are: the manifest's checksum is right.


def record(folder: Path, file: Path) -> None:
    """Let the manifest say that the file always was so."""
    change_manifest(folder, lambda manifest: _record(manifest, folder, file))


def _record(manifest: dict[str, Any], folder: Path, file: Path) -> None:
    for segment in manifest["files"]:
        if segment["path"] == file.relative_to(folder).as_posix():
            segment |= {"bytes": file.stat().st_size, "sha256": sha256_of(file)}


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    change(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def rewrite(folder: Path, file: Path, table: pa.Table) -> None:
    with parquet_writer(file, table.schema) as writer:
        writer.write_table(table)
    record(folder, file)


def cut_off_and_recorded(dice: random.Random, folder: Path, file: Path) -> None:
    truncated(dice, folder, file)
    record(folder, file)


def foreign(dice: random.Random, folder: Path, file: Path) -> None:
    file.write_bytes(dice.choice([b"value,outcome\n1,ok\n", b"", b"PAR1", b"PAR1" + dice.randbytes(60) + b"PAR1"]))
    record(folder, file)


def newer(dice: random.Random, folder: Path, file: Path) -> None:
    table = pq.read_table(file)
    rewrite(folder, file, table.append_column("epoch", pa.array([0] * table.num_rows)))


def another_type(dice: random.Random, folder: Path, file: Path) -> None:
    table = pq.read_table(file)
    at = table.schema.get_field_index("value")
    rewrite(folder, file, table.set_column(at, "value", table.column("value").cast(pa.uint64())))


def a_row_short(dice: random.Random, folder: Path, file: Path) -> None:
    table = pq.read_table(file)
    rewrite(folder, file, table.slice(dice.choice([0, 1]), table.num_rows - 1))


def with_a_hole(dice: random.Random, folder: Path, file: Path) -> None:
    table = pq.read_table(file)
    name = dice.choice(table.schema.names)
    row = dice.randrange(table.num_rows)
    holed = pa.array([None if i == row else each.as_py() for i, each in enumerate(table.column(name))])
    at = table.schema.get_field_index(name)
    field = table.schema.field(name).with_nullable(True)
    rewrite(folder, file, table.set_column(at, field, holed.cast(field.type)))


def beyond_what_is_sent(dice: random.Random, folder: Path, file: Path) -> None:
    table = pq.read_table(file)
    strange = dice.choice([-1, 1 << 48, (1 << 63) - 1, -(1 << 63)])
    values = [strange, *table.column("value").to_pylist()[1:]]
    at = table.schema.get_field_index("value")
    rewrite(folder, file, table.set_column(at, table.schema.field("value"), pa.array(values, pa.int64())))


def out_of_order(dice: random.Random, folder: Path, file: Path) -> None:
    file = folder / "received" / file.name
    table = pq.read_table(file)
    arrivals = pc.add(table.column("arrival"), dice.choice([-1, 1, 1000]))
    rewrite(folder, file, table.set_column(0, SCHEMAS["received"].field("arrival"), arrivals))


OF_ANY_FILE: Final = (truncated, bit_flipped, longer, gone, half_written, cut_off_and_recorded, foreign)
"""Of the clock, too."""
AFTER: Final[tuple[Corruption, ...]] = (truncated, bit_flipped, longer, gone, half_written, another_ones, one_too_many)
BEFORE: Final[tuple[Corruption, ...]] = (
    *(cut_off_and_recorded, foreign, newer, another_type, a_row_short, with_a_hole, beyond_what_is_sent, out_of_order),
)


# The manifest.


def manifest_truncated(dice: random.Random, folder: Path, file: Path) -> None:
    truncated(dice, folder, folder / MANIFEST)


def manifest_garbled(dice: random.Random, folder: Path, file: Path) -> None:
    content = bytearray((folder / MANIFEST).read_bytes())
    content[dice.randrange(len(content))] = dice.choice([0xFF, 0x00])
    (folder / MANIFEST).write_bytes(content)


def manifest_newer(dice: random.Random, folder: Path, file: Path) -> None:
    change_manifest(folder, lambda manifest: manifest.update(schema_version=dice.randint(3, 9)))


def manifest_with_more(dice: random.Random, folder: Path, file: Path) -> None:
    change_manifest(folder, lambda manifest: manifest.update({f"key{dice.randrange(100)}": 1}))


def manifest_with_less(dice: random.Random, folder: Path, file: Path) -> None:
    needed = ("experiment", "messages", "streams", "producer", "consumer", "deduplication", "files")
    change_manifest(folder, lambda manifest: manifest.pop(dice.choice(needed)))


def manifest_that_forgets_a_file(dice: random.Random, folder: Path, file: Path) -> None:
    change_manifest(folder, lambda manifest: manifest["files"].pop(dice.randrange(len(manifest["files"]))))


MANIFESTS: Final[tuple[Corruption, ...]] = (
    *(manifest_truncated, manifest_garbled, manifest_newer, manifest_with_more, manifest_with_less),
    manifest_that_forgets_a_file,
)

CORRUPTIONS: Final = (*AFTER, *BEFORE, *MANIFESTS)


def verdicts(folders: Sequence[Path], work: Path, engine: Engine = Engine.LOCAL) -> list[RunVerdict]:
    """What one judge says of these run folders, each alone, where no message may be lost or be there twice."""
    children = Children()
    try:
        judged = judge(folders, children, work, 60, lambda text: None, engine)
    finally:
        children.close()
    return [judge_alone(each, Expectation.EXACTLY_ONCE) for each in judged]


def write_clean(folder: Path) -> None:
    """A run of three segments a table."""
    write_history(folder, CLEAN, segment_rows=25, row_group_rows=10)


def corrupted(dice: random.Random, corrupt: Corruption, clean: Path, folder: Path) -> Path:
    """Copy the clean run and damage the copy; the file that was chosen for it."""
    shutil.copytree(clean, folder)
    file = dice.choice(sorted(folder.rglob("*.parquet" if corrupt in OF_ANY_FILE else "0*.parquet")))
    corrupt(dice, folder, file)
    return file


def checked(numbers: Sequence[int]) -> list[Outcome]:
    """Damage a history for each number, and have all of them judged."""
    with tempfile.TemporaryDirectory() as scratch:
        place, done = Path(scratch), []
        folders = [place / f"run-{number}" for number in numbers]
        write_clean(place / "clean")
        for number, folder in zip(numbers, folders, strict=True):
            dice = random.Random(number)
            corrupt = dice.choice(CORRUPTIONS)
            corrupted(dice, corrupt, place / "clean", folder)
            done.append(corrupt.__name__)
        try:
            found = verdicts(folders, place / "work")
        except Exception as error:
            if len(numbers) > 1:  # one of them brings the judge down: which?
                return [each for number in numbers for each in checked([number])]
            return [Outcome(False, f"{done[0]}: {type(error).__name__}: {error}"[:300])]
        return [_outcome(what, verdict) for what, verdict in zip(done, found, strict=True)]


def _outcome(what: str, found: RunVerdict) -> Outcome:
    if found.verdict is Verdict.ERROR and found.reasons:
        return Outcome(False)
    return Outcome(True, f"{what}: {found.verdict.value}, {len(found.reasons)} reasons")
