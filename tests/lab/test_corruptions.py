"""Damaged evidence: whatever happened to a file of a history, its verdict is *error*, with the file and the reason.

A corruption is done to a clean history of three segments a table, at a place that a seed chooses. Some happen to files
after they were recorded, so that a checksum tells; the others before, so that the checksum is right and only what is
in the file is wrong. The clean history itself passes.
"""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.builders import History, write_history

from dedup.experiment.spec import Expectation
from dedup.history.histories import MANIFEST, SCHEMAS, parquet_writer, sha256_of
from dedup.judgement.anomalies import Engine
from dedup.judgement.verdicts import RunVerdict, Verdict, judge_alone
from dedup_lab.children import Children
from dedup_lab.judging import judge

pytestmark = pytest.mark.long

EACH: Final = 24
MESSAGES: Final = 60
CLEAN: Final = History(
    sent=[(0, value) for value in range(1, MESSAGES + 1)],
    outcomes=[(0, value, 0, 0, 0, value - 1, 0) for value in range(1, MESSAGES + 1)],
    received=[(value - 1, 0, 0, value - 1, 0, 0, value) for value in range(1, MESSAGES + 1)],
)

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


CHANGED: Final = ("in the manifest", "its bytes changed")
NO_PARQUET: Final = ("not a Parquet file",)
NO_COLUMNS: Final = ("another program wrote it, or a newer dedup",)
REASONS: Final[dict[Corruption, tuple[str, ...]]] = {
    truncated: CHANGED,
    bit_flipped: CHANGED,
    longer: CHANGED,
    gone: ("missing",),
    half_written: ("missing", "never closed"),
    another_ones: CHANGED,
    one_too_many: ("not named by the manifest",),
    cut_off_and_recorded: NO_PARQUET,
    foreign: NO_PARQUET,
    newer: NO_COLUMNS,
    another_type: NO_COLUMNS,
    a_row_short: ("rows, ", "do not rise by one"),
    with_a_hole: ("holds nulls",),
    beyond_what_is_sent: ("values",),
    out_of_order: ("do not rise by one",),
    manifest_truncated: ("JSON",),
    manifest_garbled: ("JSON",),
    manifest_newer: ("schema",),
    manifest_with_more: ("key",),
    manifest_with_less: ("this key is required",),
    manifest_that_forgets_a_file: ("not named by the manifest",),
}
"""Of the words that say what is wrong, those that must be among them: one of these."""


def verdicts(folders: list[Path], work: Path, engine: Engine = Engine.LOCAL) -> list[RunVerdict]:
    children = Children()
    try:
        judged = judge(folders, children, work, 60, lambda text: None, engine)
    finally:
        children.close()
    return [judge_alone(each, Expectation.EXACTLY_ONCE) for each in judged]


def write_clean(folder: Path) -> None:
    write_history(folder, CLEAN, segment_rows=25, row_group_rows=10)


def test_the_clean_history_passes(tmp_path: Path) -> None:
    write_clean(tmp_path / "run")
    (verdict,) = verdicts([tmp_path / "run"], tmp_path)
    assert verdict.verdict is Verdict.PASS


@pytest.mark.parametrize("corrupt", [*AFTER, *BEFORE, *MANIFESTS], ids=lambda corrupt: corrupt.__name__)
def test_a_corruption_is_an_error_that_names_the_file_and_the_reason(corrupt: Corruption, tmp_path: Path) -> None:
    write_clean(tmp_path / "clean")
    folders, files = [], []
    for seed in range(EACH):
        dice, folder = random.Random(seed), tmp_path / f"run-{seed}"
        shutil.copytree(tmp_path / "clean", folder)
        files.append(dice.choice(sorted(folder.rglob("*.parquet" if corrupt in OF_ANY_FILE else "0*.parquet"))))
        corrupt(dice, folder, files[-1])
        folders.append(folder)
    by_oracle = verdicts(folders, tmp_path / "work", Engine.ORACLE)
    assert {each.verdict for each in by_oracle} == {Verdict.ERROR}
    for folder, file, verdict in zip(folders, files, verdicts(folders, tmp_path / "work"), strict=True):
        said = " ".join(reason.text for reason in verdict.reasons)
        assert verdict.verdict is Verdict.ERROR, (folder.name, said)
        assert named(corrupt, folder, file) in said, said
        assert any(reason in said for reason in REASONS[corrupt]), said


def named(corrupt: Corruption, folder: Path, file: Path) -> str:
    """What must be named as damaged."""
    if corrupt in MANIFESTS:
        return "manifest"
    if corrupt in (a_row_short, out_of_order):  # a row is missed in the whole table
        return "received" if corrupt is out_of_order else file.parent.name
    return file.with_name("99999.parquet").name if corrupt is one_too_many else file.relative_to(folder).as_posix()
