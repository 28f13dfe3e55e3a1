"""What a cluster leaves outside of its namespaces is cleared away, and nothing that is not its own."""

import os
import subprocess
from pathlib import Path

import pytest
from testbed.cluster import slots


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that would have been killed."""
    pids: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _signal: pids.append(pid))
    return pids


def test_processes_in_a_cgroup_are_killed_but_never_number_0(tmp_path: Path, killed: list[int]) -> None:
    """So cgroups v2 call who is outside of our pid namespace, and to `kill` it would be all of our own group."""
    (tmp_path / "cgroup.procs").write_text("0\n4194303\n")
    slots._empty(tmp_path)
    assert killed == [4194303]


def test_what_joins_is_the_command_itself_and_only_where_processors_are_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tops = [tmp_path / "cpu acct", tmp_path / "memory"]
    (tops[0] / slots.CONTROL).mkdir(parents=True)
    tops[1].mkdir()
    monkeypatch.setattr(slots.Slot, "cgroups", lambda _: tops)
    command = [*slots.Slot(0).joining, "sh", "-c", "echo $$"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    assert (tops[0] / slots.CONTROL / "cgroup.procs").read_text() == said
    assert list(tops[1].iterdir()) == []


@pytest.mark.parametrize(("user", "cleared"), [(0, True), (1000, False)])
def test_only_root_sweeps(monkeypatch: pytest.MonkeyPatch, user: int, cleared: bool) -> None:
    """What others' clusters have left is root's, and nobody else could remove it."""
    swept: list[int] = []
    monkeypatch.setattr(slots, "_locked", lambda _lock, _number: True)
    monkeypatch.setattr(slots.Slot, "clear", lambda slot: swept.append(slot.number))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    slots.sweep()
    assert bool(swept) is cleared
