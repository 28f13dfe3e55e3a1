"""CSV pairs: what a person writes becomes the tables of a run folder, and what is damaged becomes a line that helps."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.builders import Golden, golden_histories, write_history, write_pair

from dedup.errors import EvidenceError
from dedup.history import pairs
from dedup.history.histories import SCHEMAS, damages, read_manifest, segments, sha256_of
from dedup.history.stores import Place
from dedup.wire.manifests import EndPosition, Manifest

SENT = "value,outcome\n1,ok\n2,unknown\n3,fail\n"
RECEIVED = "partition,position,value\n0,0,1\n0,1,2\n"


def pair(folder: Path, sent: str | bytes | None = SENT, received: str | bytes | None = RECEIVED) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("sent.csv", sent), ("received.csv", received)):
        if text is not None:
            (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def rows(folder: Path, table: str) -> list[tuple[int, ...]]:
    columns = SCHEMAS[table].names
    return [tuple(row[name] for name in columns) for path in segments(folder, table) for row in _read(path)]


def _read(path: Place) -> list[dict[str, int]]:
    found: list[dict[str, int]] = pq.read_table(path).to_pylist()
    return found


def unpacked(folder: Path) -> Path:
    pairs.unpack(folder, folder / "unpacked")
    return folder / "unpacked"


def refused(folder: Path) -> str:
    with pytest.raises(EvidenceError) as raised:
        unpacked(folder)
    return str(raised.value)


# What is read.


def test_a_pair_becomes_a_whole_run_folder(tmp_path: Path) -> None:
    folder = unpacked(pair(tmp_path / "mine"))
    assert rows(folder, "sent") == [(0, 1), (0, 2), (0, 3)]
    assert rows(folder, "outcomes") == [(0, 1, 0, 0, 0, -1, 0), (0, 2, 2, 0, 0, -1, 0), (0, 3, 1, 0, 0, -1, 0)]
    assert rows(folder, "received") == [(0, 0, 0, 0, 0, 0, 1), (1, 0, 0, 1, 0, 0, 2)]
    manifest = read_manifest(folder)
    assert damages(folder, manifest) == []
    assert (manifest.run_id, manifest.kind, manifest.messages, manifest.streams) == ("mine", "kafka", 3, 1)
    assert (manifest.producer.ok, manifest.producer.fail, manifest.producer.unknown) == (1, 1, 1)
    assert manifest.consumer.end == (EndPosition(partition=0, extents=((0, 2),)),)
    assert manifest.deduplication.in_force is None


def test_the_header_decides_the_order_of_the_columns(tmp_path: Path) -> None:
    sent = "outcome,stream,value\nok,7,1\nok,0,1\n"
    received = "value,position,stream,partition\n1,0,7,3\n1,1,0,3\n"
    folder = unpacked(pair(tmp_path, sent, received))
    assert rows(folder, "sent") == [(7, 1), (0, 1)]
    assert rows(folder, "received") == [(0, 3, 0, 0, 0, 7, 1), (1, 3, 0, 1, 0, 0, 1)]


SENT_TWICE = "value,outcome,session,attempt\n1,ok,0,0\n2,unknown,0,0\n2,ok,0,1\n2,ok,1,0\n3,ok,1,0\n"
READ_TWICE = "partition,position,value,session,attempt\n0,0,1,0,0\n0,1,2,0,1\n0,2,2,1,0\n0,3,3,1,0\n"


def test_with_sessions_and_attempts_a_value_may_be_sent_again(tmp_path: Path) -> None:
    folder = unpacked(pair(tmp_path, SENT_TWICE, READ_TWICE))
    manifest = read_manifest(folder)
    assert damages(folder, manifest) == []
    assert (manifest.schema_version, manifest.messages, len(manifest.producer.sessions)) == (2, 3, 2)
    sent = [tuple(row.values()) for path in segments(folder, "sent") for row in _read(path)]
    assert sent == [(0, 1, 0, 0), (0, 2, 0, 0), (0, 2, 0, 1), (0, 2, 1, 0), (0, 3, 1, 0)]
    (path,) = segments(folder, "received")
    assert [(row["value"], row["session"], row["attempt"]) for row in _read(path)] == [
        *((1, 0, 0), (2, 0, 1), (2, 1, 0), (3, 1, 0)),
    ]


def test_the_same_send_twice_is_refused(tmp_path: Path) -> None:
    twice = pair(tmp_path, SENT_TWICE + "3,ok,1,0\n", READ_TWICE)
    assert f"{tmp_path / 'sent.csv'}: line 7: got value 3 after 3; " in refused(twice)


def test_sessions_in_one_file_only_are_refused(tmp_path: Path) -> None:
    half = pair(tmp_path, SENT_TWICE, RECEIVED)
    assert f"{tmp_path / 'received.csv'}: got no column session; the other file of the pair has one" in refused(half)


def test_two_streams_may_share_a_partition(tmp_path: Path) -> None:
    """A stream of ours has a partition of its own; of a history that others made nobody says so."""
    manifest = read_manifest(unpacked(pair(tmp_path, "value,outcome,stream\n1,ok,0\n1,ok,9\n", _of_streams(0, 9))))
    assert manifest.streams == 2
    assert [end.partition for end in manifest.consumer.end] == [0, 1]


def _of_streams(*streams: int) -> str:
    lines = [f"0,{position},1,{stream}" for position, stream in enumerate(streams)]
    return "\n".join(["partition,position,value,stream", *lines, ""])


def test_pulsars_positions_have_three_parts(tmp_path: Path) -> None:
    received = "partition,position,value\n0,12:0:0,1\n0,12:0:1,2\n0,15:4:0,3\n"
    folder = unpacked(pair(tmp_path, received=received))
    assert [row[2:5] for row in rows(folder, "received")] == [(12, 0, 0), (12, 0, 1), (15, 4, 0)]
    manifest = read_manifest(folder)
    assert manifest.kind == "pulsar"
    assert manifest.consumer.end == (EndPosition(partition=0, extents=((12, 1), (15, 5))),)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("value", '"value"').replace("ok", '"ok"'),
    ],
    ids=["Windows' line ends", "a byte order mark", "quotes"],
)
def test_what_spreadsheets_write_is_read(change: Callable[[str], str], tmp_path: Path) -> None:
    plain, other = pair(tmp_path / "plain"), pair(tmp_path / "other", change(SENT), change(RECEIVED))
    for folder in (plain, other):
        unpacked(folder)
    for table in ("sent", "outcomes", "received"):
        assert rows(other / "unpacked", table) == rows(plain / "unpacked", table)


def test_other_columns_are_not_read(tmp_path: Path) -> None:
    """Exports of other tools have times, keys, headers; a text of theirs may hold commas and quotes."""
    sent = 'time,value,key,outcome\n09:00,1,"a,b",ok\n09:01,2,"c ""d"" e",unknown\n09:02,3,f"g,fail\n'
    received = "topic,partition,position,key,value\nt,0,0,x,1\nt,0,1,,2\n"
    plain, other = pair(tmp_path / "plain"), pair(tmp_path / "other", sent, received)
    for folder in (plain, other):
        unpacked(folder)
    for table in ("sent", "outcomes", "received"):
        assert rows(other / "unpacked", table) == rows(plain / "unpacked", table)


def test_two_streams_may_be_sent_by_turns_and_with_gaps(tmp_path: Path) -> None:
    sent = "value,outcome,stream\n7,ok,1\n1,ok,0\n9,ok,1\n2,ok,0\n"
    folder = unpacked(pair(tmp_path, sent, _of_streams(0)))
    assert rows(folder, "sent") == [(1, 7), (0, 1), (1, 9), (0, 2)]


def test_a_long_file_is_read_in_blocks_and_its_last_line_is_still_numbered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "BLOCK_BYTES", 64)
    sent = "value,outcome\n" + "".join(f"{value},ok\n" for value in range(1, 201))
    received = "partition,position,value\n" + "".join(f"0,{value - 1},{value}\n" for value in range(1, 201))
    folder = unpacked(pair(tmp_path / "whole", sent, received))
    assert [row[0] for row in rows(folder, "received")] == list(range(200))
    assert pq.read_metadata(segments(folder, "received")[0]).num_row_groups > 1
    assert "sent.csv: line 202: got value 3 after 200" in refused(pair(tmp_path / "again", sent + "3,ok\n", received))
    assert "sent.csv: line 202: " in refused(pair(tmp_path / "word", sent + "201,maybe\n", received))
    assert "sent.csv: line 202: " in refused(pair(tmp_path / "number", sent + "many,ok\n", received))
    assert "received.csv: line 202: " in refused(pair(tmp_path / "bound", sent, received + "0,-1,201\n"))


def as_pair(golden: Golden) -> bool:
    """Whether a CSV pair can say all that this history says: an outcome for each send, and nothing unread or placed."""
    history = golden.history
    told = sorted((stream, value) for stream, value, *_ in history.outcomes)
    plain = history.ends is None and not {"ack_mismatch", "misplaced"} & golden.expect.get("counts", {}).keys()
    plain = plain and not history.sessions
    return plain and bool(history.sent) and bool(history.received) and told == sorted(set(history.sent))


EXPRESSIBLE = [golden for golden in golden_histories() if as_pair(golden)]


@pytest.mark.parametrize("golden", EXPRESSIBLE, ids=lambda golden: golden.name)
def test_a_golden_history_as_a_pair_has_the_same_rows(golden: Golden, tmp_path: Path) -> None:
    write_history(tmp_path / "run", golden.history)
    write_pair(tmp_path / "pair", golden.history)
    folder = unpacked(tmp_path / "pair")
    for table in ("sent", "received"):
        assert rows(folder, table) == rows(tmp_path / "run", table)
    assert sorted(row[:3] for row in rows(folder, "outcomes")) == sorted(
        row[:3] for row in rows(tmp_path / "run", "outcomes")
    )
    by_partition = {end.partition: end.extents for end in read_manifest(folder).consumer.end if end.extents}
    assert by_partition == {end.partition: end.extents for end in golden.history.end_positions()}


def test_the_worked_example_of_s0_is_among_them() -> None:
    assert "s0-worked-example" in [golden.name for golden in EXPRESSIBLE]
    assert len(EXPRESSIBLE) >= 10


# What is refused: nothing is half-read.

Damaged = tuple[str | bytes | None, str | bytes | None, str, str]
"""sent.csv, received.csv, where it must be seen, what must be said"""

DAMAGED: dict[str, Damaged] = {
    "no sent.csv": (None, RECEIVED, "sent.csv", "no such file"),
    "no received.csv": (SENT, None, "received.csv", "no such file"),
    "an empty file": ("", RECEIVED, "sent.csv", "an empty file"),
    "an empty line": ("\n" + SENT, RECEIVED, "sent.csv: line 1", "value,outcome"),
    "a header without rows": (SENT, "partition,position,value\n", "received.csv", "a header without rows"),
    "half a header": ("value,out", RECEIVED, "sent.csv: line 1", "value,outcome"),
    "no header": ("1,ok\n2,ok\n", RECEIVED, "sent.csv: line 1", "value,outcome"),
    "a column missing": (SENT, "partition,value\n0,1\n", "received.csv: line 1", "partition,position,value"),
    "a column in capitals": ("value,outcome,Stream\n1,ok,9\n", RECEIVED, "sent.csv: line 1", "in small letters"),
    "a column twice": ("value,value,outcome\n1,1,ok\n", RECEIVED, "sent.csv: line 1", "each once"),
    "another separator": ("value;outcome\n1;ok\n", RECEIVED, "sent.csv: line 1", "value,outcome"),
    "a stream in one file only": ("value,outcome,stream\n1,ok,0\n", RECEIVED, "received.csv", "no column stream"),
    "a word for a number": (SENT + "many,ok\n", RECEIVED, "sent.csv: line 5", "value is a whole number"),
    "half a number": (SENT + "1.5,ok\n", RECEIVED, "sent.csv: line 5", "value is a whole number"),
    "no number": (SENT + ",ok\n", RECEIVED, "sent.csv: line 5", "value is a whole number"),
    "a key that is no number": (SENT + "6f1c-77,ok\n", RECEIVED, "sent.csv: line 5", "number the messages 1, 2, 3"),
    "a float": (SENT + "4.0,ok\n", RECEIVED, 'sent.csv: line 5: got "4.0"', "value is a whole number"),
    "a value sent twice": (SENT + "3,ok\n", RECEIVED, "sent.csv: line 5: got value 3 after 3", "each once"),
    "sent in a falling order": ("value,outcome\n3,ok\n2,ok\n1,ok\n", RECEIVED, "sent.csv: line 3", "value 2 after 3"),
    "a value sent again later": (SENT + "4,ok\n2,ok\n", RECEIVED, "sent.csv: line 6: got value 2 after 4", "rise"),
    "a stream that falls": (
        "value,outcome,stream\n5,ok,1\n1,ok,0\n6,ok,1\n1,ok,0\n",
        "partition,position,value,stream\n0,0,1,0\n",
        "sent.csv: line 5: got value 1 after 1",
        "the values of a stream rise",
    ),
    "a negative value": (SENT + "-4,ok\n", RECEIVED, "sent.csv: line 5: got -4", "from 0"),
    "a value of 49 bits": (SENT + f"{1 << 48},ok\n", RECEIVED, "sent.csv: line 5", "281,474,976,710,655"),
    "a value of 65 bits": (SENT + f"{1 << 64},ok\n", RECEIVED, "sent.csv: line 5", "281,474,976,710,655"),
    "a negative partition": (SENT, RECEIVED + "-1,2,3\n", "received.csv: line 4: got -1", "partition"),
    "a negative position": (SENT, RECEIVED + "0,-1,3\n", "received.csv: line 4: got -1", "position"),
    "an unknown outcome": (SENT + "4,timeout\n", RECEIVED, 'sent.csv: line 5: got "timeout"', "ok, fail, unknown"),
    "an outcome in capitals": (SENT + "4,OK\n", RECEIVED, 'sent.csv: line 5: got "OK"', "small letters"),
    "a stream of 17 bits": (
        "value,outcome,stream\n1,ok,65536\n",
        "partition,position,value,stream\n0,0,1,0\n",
        "sent.csv: line 2: got 65536",
        "stream",
    ),
    "no last line end": (SENT, RECEIVED[:-1], "received.csv: line 3", "if it is whole, end its last line"),
    "cut in the last number": (SENT, RECEIVED + "0,2", "received.csv: line 4", "a last line without a line end"),
    "a row too short": (SENT, RECEIVED + "0,2\n", "received.csv: line 4: got 2 columns", "header has 3"),
    "a row too long": (SENT, RECEIVED + "0,2,3,4\n", "received.csv: line 4: got 4 columns", "header has 3"),
    "a blank line at the end": (SENT, RECEIVED + "\n", "received.csv: line 4", "partition is a whole number"),
    "Latin-1 in a row": (SENT.encode() + b"4,n\xe3o\n", RECEIVED, "sent.csv: line 5", "not UTF-8"),
    "Latin-1 in a number": (SENT.encode() + b"\xb2,ok\n", RECEIVED, "sent.csv: line 5", "not UTF-8"),
    "UTF-16": (SENT.encode("utf-16"), RECEIVED, "sent.csv: line 1", "not UTF-8"),
    "zeros of a crashed disk": (SENT.encode() + b"\0" * 40 + b"\n", RECEIVED, "sent.csv: line 5", "columns"),
    "a quote that is not closed": (SENT + '"4,ok\n5,ok\n', RECEIVED, "sent.csv", ""),
    "rows in a quote of another's that is not closed": (
        SENT,
        'partition,position,value,key\n0,0,1,k1\n0,1,2,"k2\n0,2,2,k2\n0,3,2,k2\n',
        "received.csv: line 3",
        "a line end within a row",
    ),
    "rows between two quotes of another's": (
        SENT,
        'key,partition,position,value\nk1,0,0,1\n"k2,0,1,2\nk2,0,2,2\nk2",0,3,2\n',
        "received.csv: line 3",
        "each row is one line",
    ),
    "sends in a quote of another's": (
        'value,outcome,key\n1,ok,"k1\n2,ok,k2\n3,ok,k3"\n',
        RECEIVED,
        "sent.csv: line 2",
        "close the quote",
    ),
    "a lone CR that makes up for a line in a quote": (
        SENT,
        'partition,position,value,key\n0,0,1,k1\n0,1,2,"k2\n0,2,2,k2"\n0,3,3,k3\r0,4,4,k4\n',
        "received.csv: line 3",
        "a line end within a row",
    ),
    "a lone CR": (
        SENT,
        'partition,position,value,key\n0,0,1,"k\r1"\n0,1,2,k2\n',
        "received.csv: line 2",
        "a line end within a row",
    ),
    "positions of two forms": (SENT, RECEIVED + "0,7:2:0,3\n", "received.csv: line 4", "the form of the first"),
    "two parts of three": (SENT, "partition,position,value\n0,7:2:0,1\n0,7:3,2\n", "received.csv: line 3", "ledger:"),
    "a batch index of -1": (SENT, "partition,position,value\n0,7:2:-1,1\n", "received.csv: line 2", "outside a batch"),
}


@pytest.mark.parametrize("damage", DAMAGED, ids=str)
def test_a_damaged_pair_is_refused_with_its_place_and_what_to_do(damage: str, tmp_path: Path) -> None:
    sent, received, where, told = DAMAGED[damage]
    said = refused(pair(tmp_path, sent, received))
    assert said.startswith(f"{tmp_path}/{where}")
    assert told in said
    assert "\n" not in said and said.count("; ") >= 2


def test_its_innocent_twin_is_read(tmp_path: Path) -> None:
    assert len(rows(unpacked(pair(tmp_path)), "received")) == 2


def test_a_cut_is_seen_wherever_it_is_but_between_two_lines(tmp_path: Path) -> None:
    """A cut between two lines leaves a file like any other: that is why no pair passes without a manifest or trust."""
    for length in range(len(RECEIVED)):
        folder = pair(tmp_path / str(length), received=RECEIVED[:length])
        if length == len("partition,position,value\n0,0,1\n"):
            assert len(rows(unpacked(folder), "received")) == 1
        else:
            assert "received.csv" in refused(folder)


def test_a_run_folder_with_a_pair_in_it_is_two_histories(tmp_path: Path) -> None:
    (tmp_path / "sent").mkdir()
    assert "a CSV pair and sent/" in refused(pair(tmp_path))


def test_a_folder_of_that_name_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "sent.csv").mkdir()
    assert refused(pair(tmp_path, None)).startswith(f"{tmp_path}/sent.csv: got Is a directory")


# With a manifest.


def manifest_for(folder: Path, **changes: Any) -> Manifest:
    """A manifest of the pair, as a harness would write it: it knows what was sent, and names both files."""
    made = read_manifest(unpacked(folder))
    files = [
        {"path": name, "bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)}
        for name in ("sent.csv", "received.csv")
    ]
    document = made.model_dump(mode="json") | {"files": files} | changes
    (folder / "manifest.json").write_text(json.dumps(document))
    return Manifest.model_validate(document)


def test_a_manifest_beside_the_pair_is_kept(tmp_path: Path) -> None:
    given = manifest_for(pair(tmp_path), system="redpanda", run_id="mine")
    pairs.unpack(tmp_path, tmp_path / "again")
    found = read_manifest(tmp_path / "again")
    assert found.model_copy(update={"files": given.files}) == given
    assert damages(tmp_path / "again", found) == []


def test_a_manifest_of_schema_1_reads_no_sessions_away(tmp_path: Path) -> None:
    """Copies of a resend and of another session were read as of one send, without a word."""
    manifest_for(pair(tmp_path, SENT_TWICE.replace("2,unknown,0,0\n2,ok,0,1\n", ""), READ_TWICE), schema_version=1)
    with pytest.raises(EvidenceError, match="columns session, attempt"):
        pairs.unpack(tmp_path, tmp_path / "again")


def test_a_manifest_of_schema_2_reads_them(tmp_path: Path) -> None:
    manifest_for(pair(tmp_path, SENT_TWICE, READ_TWICE))
    pairs.unpack(tmp_path, tmp_path / "again")
    (path,) = segments(tmp_path / "again", "received")
    assert [row["session"] for row in _read(path)] == [0, 0, 1, 1]


def test_a_byte_changed_since_the_manifest_was_written_is_seen(tmp_path: Path) -> None:
    manifest_for(pair(tmp_path))
    pair(tmp_path, received=RECEIVED.replace("0,1,2", "0,1,3"))
    assert "received.csv: its bytes changed" in refused(tmp_path)


def test_a_manifest_has_to_name_both_files(tmp_path: Path) -> None:
    manifest_for(pair(tmp_path), files=[])
    assert "sent.csv: not named by the manifest; received.csv: not named" in refused(tmp_path)


def test_a_manifest_that_promises_more_rows_damages_the_history(tmp_path: Path) -> None:
    """The files are whole, but the producer says that it sent four."""
    given = manifest_for(pair(tmp_path))
    promised = given.model_copy(update={"producer": given.producer.model_copy(update={"sent": 4})})
    (tmp_path / "manifest.json").write_text(promised.model_dump_json())
    pairs.unpack(tmp_path, tmp_path / "again")
    assert damages(tmp_path / "again", read_manifest(tmp_path / "again")) == [
        "sent: 3 rows in segments, 4 in the manifest"
    ]
