"""Whether a folder is evidence at all: small real Parquet folders, one damage at a time, each with its innocent twin.

A damaged history must be seen as damaged, never as a broker's loss; a whole one must not be suspected.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders import History, write_history

from dedup.errors import EvidenceError
from dedup.history import histories
from dedup.history.histories import (
    MANIFEST,
    SCHEMAS,
    damages,
    parquet_writer,
    read_manifest,
    run_folders,
    segments,
    sha256_of,
)
from dedup.wire.manifests import EndPosition, Manifest

SENT: Final[list[tuple[int, int]]] = [(0, value) for value in range(1, 21)]
OUTCOMES: Final[list[tuple[int, ...]]] = [(0, value, 0, 0, 0, value - 1, 0) for value in range(1, 21)]
RECEIVED: Final[list[tuple[int, ...]]] = [(value - 1, 0, 0, value - 1, 0, 0, value) for value in range(1, 21)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole run of twenty messages in segments of eight rows."""
    write_history(tmp_path / "run", History(SENT, OUTCOMES, RECEIVED), segment_rows=8)
    return tmp_path / "run"


def found(folder: Path) -> list[str]:
    return damages(folder, read_manifest(folder))


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads((folder / "manifest.json").read_text())
    change(document)
    (folder / "manifest.json").write_text(json.dumps(document))


def test_a_whole_folder_has_no_damage(folder: Path) -> None:
    assert found(folder) == []
    assert [path.name for path in segments(folder, "sent")] == ["00000.parquet", "00001.parquet", "00002.parquet"]


def test_segments_are_in_the_order_of_their_numbers(folder: Path) -> None:
    """As texts, 100000 would come before 99999."""
    for number in (99_999, 100_000, 100_001, 1_000_000):
        (folder / "sent" / f"{number:05}.parquet").touch()
    found = [int(path.stem) for path in segments(folder, "sent")]
    assert found == [0, 1, 2, 99_999, 100_000, 100_001, 1_000_000]


def test_a_copy_is_as_good_and_other_files_beside_the_tables_are_nobodys_business(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for name in ("producer.log", "marks.jsonl", "chaos"):
        (copy / name).write_text("anything")
    assert found(copy) == []


def test_an_empty_run_is_whole_though_it_proves_nothing(tmp_path: Path) -> None:
    write_history(tmp_path / "run", History())
    assert found(tmp_path / "run") == []


@pytest.mark.parametrize("table", ["sent", "outcomes", "received"])
def test_a_missing_segment(folder: Path, table: str) -> None:
    (folder / table / "00001.parquet").unlink()
    assert found(folder) == [f"{table}/00001.parquet: missing"]


def test_a_missing_table(folder: Path) -> None:
    shutil.rmtree(folder / "received")
    assert found(folder) == [f"received/0000{number}.parquet: missing" for number in range(3)]


@pytest.mark.parametrize(
    "name", ["sent/00000.parquet", "outcomes/00001.parquet", "received/00002.parquet", "clock.parquet"]
)
def test_one_flipped_bit_anywhere(folder: Path, name: str) -> None:
    path = folder / name
    whole = path.read_bytes()
    for at in (0, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert found(folder) == [f"{name}: its bytes changed since the manifest was written"]
    path.write_bytes(whole)
    assert found(folder) == []


def test_a_truncated_segment(folder: Path) -> None:
    path = folder / "sent/00002.parquet"
    whole = path.read_bytes()
    for length in (0, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert found(folder) == [f"sent/00002.parquet: {length} bytes, {len(whole)} in the manifest"]


def test_an_extra_segment_and_one_that_was_never_closed(folder: Path) -> None:
    """An extra one would be read along with the others: it invents messages."""
    shutil.copy(folder / "received/00000.parquet", folder / "received/00003.parquet")
    (folder / "sent/00003.parquet.open").write_bytes(b"PAR1")
    assert found(folder) == [
        "sent/00003.parquet.open: never closed; what it held is lost",
        "received/00003.parquet: not named by the manifest",
    ]


@pytest.mark.parametrize(
    ("runner", "count", "table", "rows"),
    [
        ("producer", "sent", "sent", 21),
        ("producer", "ok", "outcomes", 21),
        ("producer", "fail", "outcomes", 21),
        ("producer", "unknown", "outcomes", 21),
        ("consumer", "received", "received", 21),
    ],
)
def test_fewer_rows_than_the_runner_says(folder: Path, runner: str, count: str, table: str, rows: int) -> None:
    rewrite(folder, lambda manifest: manifest[runner].update({count: manifest[runner][count] + 1}))
    assert found(folder) == [f"{table}: 20 rows in segments, {rows} in the manifest"]


def test_a_segment_with_other_rows_than_its_own(folder: Path) -> None:
    """The sum over the table is right, and so is each checksum."""

    def move(manifest: dict[str, Any]) -> None:
        own = [each for each in manifest["files"] if each["path"].startswith("received/")]
        own[0]["rows"], own[1]["rows"] = 9, 7

    rewrite(folder, move)
    assert found(folder) == [
        "received/00000.parquet: 8 rows, 9 in the manifest",
        "received/00001.parquet: 8 rows, 7 in the manifest",
    ]


def test_a_segment_lost_from_folder_and_list_alike_is_still_missed(folder: Path) -> None:
    """Its rows are: the runner counted them by itself."""
    (folder / "received/00001.parquet").unlink()
    rewrite(
        folder,
        lambda manifest: manifest.update(
            files=[each for each in manifest["files"] if each["path"] != "received/00001.parquet"]
        ),
    )
    assert found(folder) == ["received: 12 rows in segments, 20 in the manifest"]


def test_a_missing_clock(folder: Path) -> None:
    (folder / "clock.parquet").unlink()
    assert found(folder) == ["clock.parquet: missing"]
    rewrite(
        folder,
        lambda manifest: manifest.update(files=[each for each in manifest["files"] if each["path"] != "clock.parquet"]),
    )
    assert found(folder) == ["clock.parquet: not named by the manifest"]


def test_a_folder_in_place_of_a_segment_is_missing_it(folder: Path) -> None:
    (folder / "sent/00000.parquet").unlink()
    (folder / "sent/00000.parquet").mkdir()
    assert found(folder) == ["sent/00000.parquet: missing"]


def test_damages_are_all_told(folder: Path) -> None:
    (folder / "sent/00000.parquet").unlink()
    (folder / "clock.parquet").write_bytes(b"")
    (folder / "received/junk").write_bytes(b"")
    assert len(found(folder)) == 3


# --- the manifest ----------------------------------------------------------------------------------------------------


def refusal(folder: Path) -> str:
    with pytest.raises(EvidenceError) as caught:
        read_manifest(folder)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert not any(word in line for word in ("Input should", "pydantic", "b'", "Field required"))
    return line


def test_a_manifest_reads_as_it_was_written(folder: Path, tmp_path: Path) -> None:
    written = write_history(tmp_path / "other", History(SENT, OUTCOMES, RECEIVED), seed=2**48 - 1)
    assert read_manifest(tmp_path / "other") == written
    assert read_manifest(folder) != written


def test_an_end_beyond_what_judges_can_reckon_with_is_refused(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_bytes())
    for entries, ledger in ((10**30, 0), (-1, 0), (5, 10**30)):
        manifest["consumer"]["end"] = [{"partition": 0, "extents": [[ledger, entries]]}]
        (folder / MANIFEST).write_text(json.dumps(manifest))
        assert "consumer.end[0].extents[0]" in refusal(folder)
    manifest["consumer"]["end"] = [{"partition": 0, "extents": [[10**18, 10**18]]}]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert read_manifest(folder).consumer.end[0].entries == 10**18


def test_run_folders_are_found_by_what_they_hold(tmp_path: Path) -> None:
    of_a_fault = "runs/b/attempt-1/chaos/sent/report.json"
    whole, begun = "runs/b/attempt-1/manifest.json", "runs/a/attempt-1/sent/00000.parquet"
    for name in (of_a_fault, whole, begun, "logs/out", "pair/sent.csv", "pair/older/manifest.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    runs = [tmp_path / "pair/older", tmp_path / "runs/a/attempt-1", tmp_path / "runs/b/attempt-1"]
    assert run_folders(tmp_path) == runs
    assert run_folders(tmp_path, ["sent.csv"]) == [tmp_path / "pair", *runs]
    assert run_folders(tmp_path / "logs") == run_folders(tmp_path / "nowhere") == []


def test_what_lies_in_a_run_folder_is_no_other_run_folder(tmp_path: Path) -> None:
    (tmp_path / "old" / "sent").mkdir(parents=True)
    assert run_folders(tmp_path) == [tmp_path / "old"]
    (tmp_path / "manifest.json").touch()
    assert run_folders(tmp_path) == [tmp_path]


def test_no_manifest_and_no_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "manifest.json").unlink()
    rule = (
        "a run folder's manifest is written last, so the run never finished or this is not a run folder; "
        "run it again (dedup run … --resume), or give the path of a run folder"
    )
    assert refusal(folder) == f"{folder}: got no manifest.json; {rule}"
    assert refusal(tmp_path / "none") == f"{tmp_path / 'none'}: got no such folder; {rule}"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refusal(empty) == f"{empty}: got no manifest.json; {rule}"


def test_a_manifest_that_cannot_be_opened(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").mkdir()
    assert "manifest.json: got Is a directory; " in refusal(folder)
    assert "manifest.json: got Not a directory; " in refusal(folder / "clock.parquet")


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_truncated_manifest(folder: Path, keep: int) -> None:
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes()[:keep])
    assert refusal(folder) == (
        f"{path}: document: got text that is not JSON; a manifest is one JSON document, so this one is damaged; "
        "restore the file from its artifacts, or run again"
    )


@pytest.mark.parametrize("content", [b"\0\0\0\0", b"\xff\xfe", b"PAR1", b'{"a": 1} trailing', b"[" * 10_000])
def test_a_manifest_of_other_bytes(folder: Path, content: bytes) -> None:
    (folder / "manifest.json").write_bytes(content)
    assert "document: got text that is not JSON; " in refusal(folder)


def test_a_foreign_document(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text('{"name": "left-pad", "version": "1.3.0"}')
    rule = "this key is required, so this is not a run's manifest or it is damaged"
    todo = "restore the file from its artifacts, or run again"
    assert refusal(folder) == f"{path}: experiment: got nothing; {rule}; {todo}"
    for document in ("[]", "null", '"text"', "7"):
        path.write_text(document)
        assert refusal(folder).startswith(f"{path}: document: got {document}; a manifest is a mapping")


def test_a_newer_manifest_is_refused_before_anything_else_in_it_is_read(folder: Path) -> None:
    """A newer format may have lost and won keys; what matters is that it is newer."""

    def renew(manifest: dict[str, Any]) -> None:
        del manifest["topic"]
        manifest.update(schema_version=3, colour="red")

    rewrite(folder, renew)
    assert refusal(folder) == (
        f"{folder / 'manifest.json'}: schema_version: got schema version 3; this dedup reads versions 1 and 2; "
        "judge it with the dedup that wrote it (see versions in the manifest)"
    )


@pytest.mark.parametrize("version", [0, -1, "x", None, [1]])
def test_no_other_schema_version_is_read(folder: Path, version: object) -> None:
    rewrite(folder, lambda manifest: manifest.update(schema_version=version))
    assert f"got schema version {json.dumps(version)}; this dedup reads versions 1 and 2; " in refusal(folder)


def test_an_unknown_key_and_a_wrong_value_are_named_with_their_place(folder: Path) -> None:
    rewrite(folder, lambda manifest: manifest["files"][1].update(colour="red"))
    assert 'manifest.json: files[1].colour: got "red"; no such key is known here' in refusal(folder)
    rewrite(folder, lambda manifest: manifest["files"][1].update(bytes="many"))
    assert 'manifest.json: files[1].bytes: got "many"; no manifest holds that here' in refusal(folder)


@pytest.mark.parametrize("key", ["injector", "target_witness"])
def test_what_was_seen_of_a_fault_is_readable(key: str, folder: Path) -> None:
    """A leader by number, as another harness may write it, ended the verification of all histories with a traceback."""
    fault = {"name": "cut", "kind": "killTCP", "requested_message": 1}
    rewrite(folder, lambda manifest: manifest.update(faults=[fault | {key: {"leader": 1}}]))
    assert f"manifest.json: faults[0].{key}.leader: got 1; no manifest holds that here" in refusal(folder)
    rewrite(folder, lambda manifest: manifest.update(faults=[fault | {key: {"leader": "1", "rack": 1}}]))
    assert getattr(read_manifest(folder).faults[0], key) == {"leader": "1", "rack": 1}


def test_the_version_that_is_written_is_the_version_that_is_read(folder: Path) -> None:
    assert read_manifest(folder).schema_version == histories.SCHEMA_VERSION
    assert Manifest.model_fields["schema_version"].default == histories.SCHEMA_VERSION


def test_tables_are_those_of_the_schema_that_the_manifest_names(folder: Path) -> None:
    """Tables without sessions would read as if all was one session's; those with them as another program's."""
    assert histories.damages(folder, read_manifest(folder)) == []
    rewrite(folder, lambda manifest: manifest.update(schema_version=2))
    found = histories.damages(folder, read_manifest(folder))
    assert {each.partition("/")[0] for each in found if "its columns are" in each} == {*histories.TABLES}


def test_planned_values_and_rows(folder: Path) -> None:
    manifest = read_manifest(folder).model_copy(update={"messages": 10, "streams": 3})
    assert [manifest.planned(stream) for stream in range(3)] == [4, 3, 3]
    assert [manifest.rows(table) for table in histories.TABLES] == [20, 20, 20]


def test_an_end_position_counts_its_entries() -> None:
    assert EndPosition(partition=0).entries == 0
    assert EndPosition(partition=0, extents=((5, 10), (7, 3))).entries == 13


# --- segments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", SCHEMAS)
def test_what_is_written_reads_the_same_and_is_small(tmp_path: Path, table: str) -> None:
    schema, path, rows = SCHEMAS[table], tmp_path / "t.parquet", 100_000
    columns = [pa.array(range(rows)).cast(field.type, safe=False) for field in schema]
    written = pa.Table.from_arrays(columns, schema=schema)
    with parquet_writer(path, schema) as writer:
        writer.write_table(written)
    assert pq.read_table(path).equals(written)
    assert pq.read_schema(path).equals(schema)
    rising = [column for column, field in zip(columns, schema, strict=True) if field.type != pa.int8()]
    assert path.stat().st_size < rows * len(rising), "delta encoding leaves well under a byte a value"


def test_a_digest_is_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert sha256_of(tmp_path / "f") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
