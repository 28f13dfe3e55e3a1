"""How a broker of Strimzi's is held down: charts/strimzi-kafka/files/hold.sh, before stand-ins of Strimzi's scripts.

The stand-ins have the names of the two scripts that matter, are run by bash and pass on their process id by `exec`, as
Strimzi's do. Its image itself is not had here.
"""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest

from dedup_runners.waiting import until

HOOK: Final = Path(__file__).parents[2] / "charts" / "strimzi-kafka" / "files" / "hold.sh"
WAIT_S: Final = 30


class Container:
    """Stand-ins for the two scripts of Strimzi's image, which read the chart's file as bash does with BASH_ENV."""

    def __init__(self, folder: Path) -> None:
        self.hold = folder / "hold"
        self.hold.mkdir()
        self._folder = folder
        self._script("kafka_run.sh", f"echo runs\nexec {folder}/kafka-server-start.sh\n")
        self._script("kafka-server-start.sh", "echo serves\nexec sleep 600\n")
        self._script("kafka_liveness.sh", "echo lives\n")

    def _script(self, name: str, text: str) -> None:
        path = self._folder / name
        path.write_text(f"#!/usr/bin/env bash\nset -e\n{text}")
        path.chmod(0o755)

    def start(self, name: str = "kafka_run.sh") -> "subprocess.Popen[str]":
        environment = os.environ | {"BASH_ENV": str(HOOK), "DEDUP_HOLD": str(self.hold)}
        return subprocess.Popen([self._folder / name], env=environment, stdout=subprocess.PIPE, text=True)

    def hold_until(self, text: str) -> None:
        (self.hold / "until").write_text(text)

    def pid(self) -> int | None:
        path = self.hold / "pid"
        return int(path.read_text()) if path.exists() and path.read_text().strip() else None

    def held(self) -> bool:
        return (self.hold / "until").exists()


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


@pytest.mark.long
def test_a_killed_broker_is_held_down_and_then_starts(container: Container) -> None:
    with container.start() as first:
        pid = until(container.pid, WAIT_S, "the broker serves")
        assert pid == first.pid, "exec keeps the process id, so that the kill hits the broker itself"
        end = int(time.time()) + 4
        container.hold_until(str(end))
        os.kill(pid, signal.SIGKILL)
        assert first.wait(WAIT_S) == -signal.SIGKILL
    with container.start() as again:
        until(lambda: container.pid() == again.pid, WAIT_S, "the broker serves again")
        assert time.time() >= end and not container.held()
        again.kill()


@pytest.mark.parametrize("text", ["", "soon", "0", "-5", "1e9"])
def test_a_hold_that_is_over_or_none_holds_nobody(container: Container, text: str) -> None:
    container.hold_until(text)
    with container.start() as process:
        until(container.pid, WAIT_S, "the broker serves")
        assert not container.held()
        process.kill()


def test_a_held_broker_goes_at_once_when_its_pod_is_deleted(container: Container) -> None:
    container.hold_until("99999999999")
    with container.start() as process:
        assert process.stdout is not None and "held down" in process.stdout.readline()
        process.terminate()
        assert process.wait(WAIT_S) == 143
    assert container.held(), "the next container of the same pod goes on waiting"


def test_other_scripts_are_left_alone(container: Container) -> None:
    container.hold_until("99999999999")
    with container.start("kafka_liveness.sh") as process:
        assert process.communicate(timeout=WAIT_S)[0] == "lives\n"
    assert container.held() and container.pid() is None
