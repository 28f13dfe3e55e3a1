"""One pod claims an attempt, and its files reach the store whole, the manifest last: in a folder, as on a PVC."""

import errno
import json
import os
from pathlib import Path

import pytest
from tests.runners import assigned

from dedup.errors import EXIT_ERROR
from dedup.experiment.assignments import EXIT_CLAIMED, Assignment
from dedup.history.histories import MANIFEST
from dedup.history.stores import place
from dedup_runners import claims, conductor, programs
from dedup_runners.claims import AlreadyClaimed
from dedup_runners.courier import Courier

PLACE = "runs/kafka-dedup-001/attempt-1"


def pods(tmp_path: Path) -> tuple[Assignment, Assignment]:
    """Two pods of the same attempt."""
    store = str(tmp_path / "store")
    return assigned.assignment(tmp_path / "first", store), assigned.assignment(tmp_path / "second", store)


def recorded(folder: Path) -> None:
    """A run's folder as its programs leave it."""
    for name in ("sent/00000.parquet", "received/00000.parquet", "faults.jsonl", MANIFEST):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)


def carried(tmp_path: Path) -> set[str]:
    root = tmp_path / "store" / PLACE
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_the_second_pod_of_an_attempt_is_refused(tmp_path: Path) -> None:
    first, second = pods(tmp_path)
    claims.claim(first)
    with pytest.raises(AlreadyClaimed, match="this one has sent nothing"):
        claims.claim(second)
    assert json.loads((tmp_path / "store" / PLACE / "claim.json").read_text())["attempt"] == 1
    assert claims.won(first.shared).exists()
    assert not claims.won(second.shared).exists()


def test_the_next_attempt_is_not(tmp_path: Path) -> None:
    first, second = pods(tmp_path)
    claims.claim(first)
    claims.claim(second.model_copy(update={"attempt": 2}))
    assert claims.won(second.shared).exists()


def test_without_a_store_the_folder_itself_is_claimed(tmp_path: Path) -> None:
    alone = assigned.assignment(tmp_path / "alone")
    claims.claim(alone)
    with pytest.raises(AlreadyClaimed):
        claims.claim(alone)


def test_a_conductor_that_comes_second_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = pods(tmp_path)
    claims.claim(first)
    told = tmp_path / "run.json"
    told.write_text(second.document())
    assert conductor.main([str(told)]) == EXIT_CLAIMED
    assert not list(second.folder.iterdir())
    (line,) = capsys.readouterr().err.splitlines()
    assert "a claim by" in line


def test_segments_are_carried_at_once_and_the_rest_at_the_end(tmp_path: Path) -> None:
    first, _ = pods(tmp_path)
    recorded(first.folder)
    (first.folder / "sent" / "00001.parquet.open").touch()
    courier = Courier(first.folder, place(str(tmp_path / "store" / PLACE)))
    courier.carry_segments()
    assert carried(tmp_path) == {"sent/00000.parquet", "received/00000.parquet"}
    courier.carry_rest()
    assert carried(tmp_path) > {"sent/00000.parquet", "received/00000.parquet", "faults.jsonl", MANIFEST}
    assert (tmp_path / "store" / PLACE / MANIFEST).read_text() == MANIFEST


def test_what_is_carried_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a machine that loses its power may keep a manifest and lose what it names."""
    first, _ = pods(tmp_path)
    recorded(first.folder)
    store, flushed = tmp_path / "store" / PLACE, list[tuple[int, int]]()

    def flush(file: int) -> None:
        said = os.fstat(file)
        flushed.append((said.st_ino, said.st_size))

    monkeypatch.setattr(os, "fsync", flush)
    Courier(first.folder, place(str(store))).carry_rest()
    there = {path: path.stat() for path in store.rglob("*") if path.is_file()}
    assert {(said.st_ino, said.st_size) for said in there.values()} == set(flushed)
    assert flushed[-1] == (there[store / MANIFEST].st_ino, there[store / MANIFEST].st_size)


def test_the_manifest_is_not_carried_if_anything_else_was_not(tmp_path: Path) -> None:
    first, _ = pods(tmp_path)
    recorded(first.folder)
    (tmp_path / "store" / PLACE / "faults.jsonl").mkdir(parents=True)  # nothing can be written there
    courier = Courier(first.folder, place(str(tmp_path / "store" / PLACE)))
    with pytest.raises(IsADirectoryError):
        courier.carry_rest()
    assert MANIFEST not in carried(tmp_path)


def test_a_link_is_not_carried(tmp_path: Path) -> None:
    """A run's folder is shared with a user's own chaos experiment, which must not read with the courier's eyes."""
    secret, folder, store = tmp_path / "secret", tmp_path / "run", tmp_path / "store"
    (secret / "received").mkdir(parents=True)
    for name in ("key", "received/00001.parquet"):
        (secret / name).write_text("a secret")
    folder.mkdir()
    recorded(folder)
    (folder / "sent" / "00001.parquet").symlink_to(secret / "key")
    (folder / "log").symlink_to(secret / "key")
    (folder / "processed").symlink_to(secret / "received")
    Courier(folder, place(str(store))).carry_rest()
    found = {path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file()}
    assert found == {"sent/00000.parquet", "received/00000.parquet", "faults.jsonl", MANIFEST}


def test_a_program_says_what_a_store_refused(tmp_path: Path) -> None:
    first, _ = pods(tmp_path)
    (tmp_path / "store").write_text("a file")
    ending = programs.attempt("conductor", lambda: claims.claim(first))
    assert ending.code == EXIT_ERROR
    assert ending.words.startswith("conductor: got")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError("timed out"), "look into the brokers' logs"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "look into the brokers' logs"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "look into the brokers' logs"),
        (PermissionError(errno.EACCES, "Permission denied"), "make the folder writable"),
        (OSError(errno.ENOSPC, "No space left on device"), "make the folder writable"),
        (OSError(errno.EADDRINUSE, "Address already in use"), "or the port free"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, OSError) else "",
)
def test_only_what_the_machine_refused_is_said_of_the_folder(error: OSError, words: str) -> None:
    def work() -> None:
        raise error

    ending = programs.attempt("consumer", work)
    assert ending.code == EXIT_ERROR
    assert ending.words.startswith("consumer: got") and words in ending.words
    assert ("folder" in ending.words) == ("brokers" not in words)
