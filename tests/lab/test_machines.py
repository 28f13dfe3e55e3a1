"""The user's disk and rights are not a defect of dedup: each refusal is one line that names the place, exit code 4.

Tests may run as root, whom no right stops: what refuses here is a file in the place of a folder, /dev/full, and a disk
of a few kilobytes (a tmpfs, where it may be mounted; else a limit on the size of files).
"""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.builders import History, write_history
from tests.lab import harness
from tests.lab.conftest import Command, one_line

from dedup.experiment.stages import Observation, Status, Task
from dedup_lab import experiments

pytestmark = pytest.mark.long

FULL = "/dev/full"


@pytest.fixture
def document(tmp_path: Path) -> Path:
    return harness.write(harness.document("kafka-kill-tcp"), tmp_path)


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """A path below a file."""
    (tmp_path / "file").touch()
    return tmp_path / "file" / "folder"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small disk needs the right to mount one (root on Linux)")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def read_only_disk(small_disk: Path) -> Path:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    return small_disk


def duplicated(folder: Path) -> Path:
    """A history with two copies."""
    received = [1, 2, 3, 4, 2, 3]
    history = History(
        sent=[(0, value) for value in range(1, 5)],
        outcomes=[(0, value, 0, 0, 0, value - 1, 0) for value in range(1, 5)],
        received=[(index, 0, 0, index, 0, 0, value) for index, value in enumerate(received)],
    )
    write_history(folder, history)
    return folder


def refused(command: list[str], **streams: object) -> tuple[int, list[str]]:
    """The command in a process of its own: exit code and the lines on standard error."""
    done = subprocess.run(command, text=True, check=False, timeout=120, **streams)  # type: ignore[call-overload]
    return done.returncode, (done.stderr or "").splitlines()


@pytest.mark.parametrize("words", [["schema"], ["plan", "FILE"], ["--version"], ["verify", "RUN", "--format", "json"]])
def test_an_output_that_takes_nothing_is_one_line(words: list[str], document: Path, tmp_path: Path) -> None:
    known = {"FILE": str(document), "RUN": str(tmp_path / "run")}
    if "RUN" in words:
        duplicated(tmp_path / "run")
        words = [*words, "--engine", "local"]
    with Path(FULL).open("w") as full:
        code, lines = refused(
            harness.command(*(known.get(word, word) for word in words)), stdout=full, stderr=subprocess.PIPE
        )
    assert code == 4
    assert lines[-1].startswith("error standard output: got no space left on device; ")
    assert not any("defect" in line or "Traceback" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["--version"], 4), (["schema"], 4), (["verify", "RUN", "--format", "json"], 4), (["list", "clients"], 0)],
)
def test_a_pipe_that_is_closed_is_no_verdict(words: list[str], expected: int, tmp_path: Path) -> None:
    """In a CI, whose output has no buffer, each line is written at once. The twin: of a table nothing else is lost."""
    run = tmp_path / "run"
    write_history(run, History(sent=[(0, 1)], outcomes=[(0, 1, 0, 0, 0, 0, 0)], received=[(0, 0, 0, 0, 0, 0, 1)]))
    reading, writing = os.pipe()
    os.close(reading)
    command = harness.command(*(run if word == "RUN" else word for word in words))
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    code, lines = refused(command, stdout=writing, stderr=subprocess.PIPE, env=unbuffered)
    os.close(writing)
    assert code == expected and not any("Traceback" in line for line in lines)


@pytest.mark.parametrize(("encoding", "dots"), [("ascii", "?"), ("utf-8", "…")])
def test_what_an_encoding_does_not_have_is_a_question_mark(encoding: str, dots: str) -> None:
    ended = subprocess.run(
        list(map(str, harness.command("list", "clients"))),
        env={**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "80"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert f"confluent-kaf{dots}" in ended.stdout.decode(encoding) and not ended.stderr


@pytest.mark.parametrize(("name", "verdict"), [("run", 1), ("nowhere", 4)])
def test_an_error_output_that_takes_nothing_leaves_the_exit_code(name: str, verdict: int, tmp_path: Path) -> None:
    duplicated(tmp_path / "run")
    command = harness.command("verify", tmp_path / name, "--engine", "local")
    with Path(FULL).open("w") as full:
        assert refused(command, stdout=subprocess.PIPE, stderr=full)[0] == verdict


def test_a_results_folder_below_a_file_is_one_line(dedup: Command, document: Path, blocked: Path) -> None:
    said = dedup("run", document, "--out", blocked)
    assert said.code == 4
    assert f"results folder {blocked}: got not a directory; " in one_line(said)


def test_a_results_folder_on_a_read_only_disk_is_one_line(
    dedup: Command, document: Path, read_only_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = dedup("run", document, "--out", read_only_disk / "out")
    assert (said.code, "got read-only file system; you need the right" in one_line(said)) == (4, True)
    monkeypatch.chdir(read_only_disk)
    assert "results folder results: got read-only file system; " in one_line(dedup("run", document))


@pytest.mark.parametrize("where", ["blocked", "read_only_disk"])
def test_a_cache_that_cannot_be_written_is_one_line_and_nothing_is_begun(
    where: str,
    dedup: Command,
    document: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    cache = request.getfixturevalue(where) / "cache"
    monkeypatch.setenv("DEDUP_CACHE", str(cache))
    said = dedup("run", document, "--out", tmp_path / "out")
    assert said.code == 4
    assert f"DEDUP_CACHE {cache}: got " in one_line(said)
    assert not (tmp_path / "out").exists()


def fill(disk: Path) -> None:
    """Write to the disk until it is full."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while file.write(b"0" * 1024):
            pass


class Filling:
    """A platform on whose first start the disk fills up."""

    def __init__(self, disk: Path) -> None:
        self.disk, self.closed = disk, False

    def observe(self, task: Task, attempt: int) -> Observation:
        return Observation(status=Status.ABSENT)

    def start(self, task: Task, attempt: int) -> None:
        fill(self.disk)

    def cancel(self, task: Task, attempt: int, reason: str) -> None: ...

    def wait(self, timeout_s: float) -> None: ...

    def close(self) -> None:
        self.closed = True


def test_a_disk_that_fills_up_is_no_interruption_and_says_how_to_go_on(
    dedup: Command, document: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = Filling(small_disk)
    monkeypatch.setattr(experiments, "LocalPlatform", lambda *_, **__: platform)
    said = dedup("run", document, "--runs", 1, "--out", small_disk / "out")
    *story, last = said.err.strip().splitlines()
    assert (said.code, platform.closed) == (4, True)
    assert last.startswith(f"error results folder {small_disk / 'out'}: got no space left on device; ")
    assert "interrupted" not in said.err and "defect" not in said.err
    assert "this machine cannot go on" in story[-2]
    assert f"--resume --out {small_disk / 'out'}" in story[-1]


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


@pytest.mark.parametrize("prepare", [None, limit_files], ids=["a full disk", "a limit on files"])
def test_findings_that_find_no_room_are_one_line(
    prepare: Callable[[], None] | None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    run = duplicated(tmp_path / "run")
    disk = tmp_path if prepare else request.getfixturevalue("small_disk")
    if not prepare:
        fill(disk)
    command = harness.command("verify", run, "--engine", "local", "--findings", disk / "findings")
    code, lines = refused(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=prepare)
    assert (code, len(lines)) == (4, 1), lines
    assert lines[0].startswith(f"error --findings {disk / 'findings'}: got ")


@pytest.mark.parametrize("text", ["a: [", "abc", "[1, 2]", "\0"], ids=repr)
def test_a_broken_kubeconfig_is_one_line(text: str, dedup: Command, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    said = dedup("results", "e", "--kubeconfig", path)
    assert said.code == 4
    assert one_line(said).startswith(f"error {path}: got a file that is no kubeconfig; ")
