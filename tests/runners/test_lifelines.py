"""Programs of one pod see of each other that they live: one that dies is seen at once, one that ends is believed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dedup.errors import PlatformError
from dedup.process.orphans import EXIT_CODE
from dedup_runners import lifelines
from dedup_runners.attempt import companions
from dedup_runners.attempt.companions import Neighbours
from dedup_runners.waiting import WaitedTooLong, until

BOUND_S = 20.0
HOLD = "from dedup_runners import lifelines\nwith lifelines.held('producer'): input()"
FOLLOW = "import sys; from pathlib import Path; from dedup_runners import lifelines\n" + (
    "lifelines.await_orders(Path(sys.argv[1])); print('told', flush=True); input()"
)


def start(code: str, shared: Path, *arguments: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, lifelines.VARIABLE: str(shared)},
    )


def test_a_program_that_ends_in_order_is_believed(tmp_path: Path) -> None:
    assert lifelines.exit_code(tmp_path, "producer") is None
    with lifelines.held("producer", tmp_path) as ended:
        assert lifelines.exit_code(tmp_path, "producer") is None
        ended(4, "disk: got full")
        assert lifelines.exit_code(tmp_path, "producer") is None
    assert lifelines.exit_code(tmp_path, "producer") == 4
    assert lifelines.last_words(tmp_path, "producer") == "disk: got full"


def test_one_that_ends_without_a_word_has_died(tmp_path: Path) -> None:
    with lifelines.held("producer", tmp_path):
        pass
    assert lifelines.exit_code(tmp_path, "producer") == lifelines.DIED


def test_one_that_is_killed_is_seen_at_once(tmp_path: Path) -> None:
    program = start(HOLD, tmp_path)
    until(lambda: lifelines.begun(tmp_path, "producer"), BOUND_S, "the program")
    assert lifelines.exit_code(tmp_path, "producer") is None
    program.kill()
    with pytest.raises(PlatformError, match="producer: got exit code 137; it left no word"):
        Neighbours(tmp_path).client("producer").succeed(BOUND_S)
    program.communicate()


def test_outside_a_pod_nothing_is_held_and_nothing_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(lifelines.VARIABLE, raising=False)
    with lifelines.held("producer") as ended:
        ended(0, "")
    lifelines.await_orders(tmp_path / "config.json")
    assert not list(tmp_path.iterdir())


def test_a_companion_waits_for_its_file_and_leaves_with_the_conductor(tmp_path: Path) -> None:
    with lifelines.held(lifelines.CONDUCTOR, tmp_path):
        program = start(FOLLOW, tmp_path, tmp_path / "config.json")
        assert program.stdout is not None
        (tmp_path / "config.json").touch()
        assert program.stdout.readline() == b"told\n"
        assert program.poll() is None
    assert program.wait(BOUND_S) == EXIT_CODE
    program.communicate()


def test_a_companion_that_was_never_told_leaves_with_the_conductor_too(tmp_path: Path) -> None:
    with lifelines.held(lifelines.CONDUCTOR, tmp_path):
        program = start(FOLLOW, tmp_path, tmp_path / "config.json")
    assert program.wait(BOUND_S) == EXIT_CODE
    assert program.communicate()[0] == b""


def test_a_companion_that_never_begins_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companions, "BEGIN_S", 0.05)
    with pytest.raises(PlatformError, match="producer: got not begun"):
        Neighbours(tmp_path).client("producer").succeed(BOUND_S)


def test_a_companion_without_a_conductor_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifelines, "BEGIN_S", 0.05)
    monkeypatch.setenv(lifelines.VARIABLE, str(tmp_path))
    with pytest.raises(WaitedTooLong, match="conductor"):
        lifelines.await_orders(tmp_path / "config.json")
