"""Brokers' own disks are memory: an experiment that would take more than there is is refused before it begins."""

from pathlib import Path
from typing import Final

import pytest
from rich.console import Console
from tests.lab.test_networks import FORM
from tests.lab.test_own_disks import filled

from dedup.errors import EnvironmentError_
from dedup.experiment.spec import Experiment, parse
from dedup_lab import experiments, isolation, room
from dedup_lab.systems import disks

GIB: Final = 1 << 30


def large() -> Experiment:
    return filled(workload={"messages": 10_000_000, "payload": {"bytes": 1024}})


def machine(monkeypatch: pytest.MonkeyPatch, available: int) -> None:
    monkeypatch.setattr(room, "available", lambda: available)


def test_a_disk_larger_than_the_memory_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 8 * GIB)
    with pytest.raises(EnvironmentError_, match=r"got 8,192 MiB of memory available; a fillDisk on this machine takes"):
        room.check(large())
    room.check(filled())
    machine(monkeypatch, room.needed(large()))
    room.check(large())


def test_a_run_is_refused_before_anything_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, disks.MIB)
    monkeypatch.setattr(experiments, "check", lambda *_: None)
    monkeypatch.setattr(isolation, "enter", lambda *_: pytest.fail("it has begun"))
    with pytest.raises(EnvironmentError_, match="1 MiB of memory available"):
        experiments.run(filled(), out=tmp_path, resume=False, console=Console(), command="dedup run x")


def test_a_plan_says_so_and_says_nothing_where_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "lack", lambda owned: None)
    for available, said in ((disks.MIB, True), (8 * GIB, False)):
        machine(monkeypatch, available)
        console = Console(record=True, width=200)
        experiments.show_plan(filled(), console)
        assert ("this machine cannot run it: 1 MiB of memory available" in console.export_text()) == said


def test_without_disks_no_memory_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 0)
    room.check(parse(FORM, source="test"))


@pytest.mark.parametrize(
    ("line", "under", "files"),
    [
        ("0::/a/b", "a", {"memory.max": "5000", "memory.current": "2000", "memory.stat": "anon 9\ninactive_file 500"}),
        (
            "4:cpu,memory:/a/b",
            "memory/a",
            {
                "memory.limit_in_bytes": "5000",
                "memory.usage_in_bytes": "2000",
                "memory.stat": "inactive_file 1\ntotal_inactive_file 500",
            },
        ),
    ],
    ids=["v2", "v1"],
)
def test_the_limit_of_a_group_above_counts(
    line: str, under: str, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / "groups" / under
    (group / "b").mkdir(parents=True)
    (group / "b" / "memory.max").write_text("max")
    for name, text in files.items():
        (group / name).write_text(text)
    (tmp_path / "of").write_text(f"7:pids:/x\n{line}\n")
    monkeypatch.setattr(room, "MEMBERSHIP", tmp_path / "of")
    monkeypatch.setattr(room, "GROUPS", tmp_path / "groups")
    assert room.available() == 3500
    (tmp_path / "of").write_text("7:pids:/x\n")
    assert room.available() > 3500
