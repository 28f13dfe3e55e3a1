"""A broker's own small disk, with a real namespace and the real kernel: it is full, and it is free again.

Brokers here are a line of shell; Kafka's: test_disk_full_live.py. That full disks which changed nothing do not pass:
tests/runners/test_vacuous_faults.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from tests.lab import a_full_disk
from tests.lab.a_full_disk import DISK_BYTES, FAULT, LASTS_S
from tests.lab.test_networks import FORM
from tests.lab.test_networks import experiment as cut

from dedup.errors import PlatformError, SpecificationError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.experiment.spec import Experiment, parse
from dedup.faults.fill_disk import PAGE_BYTES
from dedup.faults.records import vacuous
from dedup_lab import isolation
from dedup_lab.systems import disks, labs
from dedup_lab.systems.own_network import Own
from dedup_runners import chaos
from dedup_runners.chaos import keepers, sessions
from dedup_runners.chaos.experiments import render
from dedup_runners.chaos.faults import fill_disk
from dedup_runners.chaos.sites.protocol import Death, Victim

BOUND_S: Final = 180
LATE_S: Final = 5.0
"""No fault outlives its deadline by more."""
here = pytest.mark.usefixtures("own_disks")


def seen(how: str, folder: Path) -> dict[str, Any]:
    program = [sys.executable, "-m", a_full_disk.__name__, how, str(folder)]
    done = subprocess.run(
        isolation.unshared("run", *program, owned=(Own.DISKS,)),
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
        env=os.environ | {"DEDUP_CACHE": str(folder / "cache")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def reason(folder: Path) -> str | None:
    """Why the fault proves nothing, but for what the client and the producer would have to say."""
    (record,) = chaos.records(folder, [FAULT], messages=100)
    return vacuous(record.model_copy(update={"client_witness": {"leader": 1}, "unacknowledged": 1, "remaining": 1}))


@here
@pytest.mark.long
def test_a_broker_gives_up_on_a_full_disk_and_is_back_when_it_is_free(tmp_path: Path) -> None:
    found = seen("lives", tmp_path)
    assert found["full"] < PAGE_BYTES and PAGE_BYTES <= found["free"] <= DISK_BYTES
    assert (found["codes"], found["starts"]) == ([1], 2)
    assert found["events"] == ["injecting", "injected", "cleared", "effect", "restarted"]
    assert reason(tmp_path) is None


@here
@pytest.mark.long
def test_the_disk_is_free_and_the_broker_back_though_the_injector_is_dead(tmp_path: Path) -> None:
    found = seen("killed", tmp_path)
    assert found["full"] < PAGE_BYTES <= found["free"]
    assert (found["codes"], found["starts"]) == ([1], 2)
    assert found["events"] == ["injecting", "injected"]
    assert found["healed_s"] <= LASTS_S + LATE_S
    assert reason(tmp_path)


@here
@pytest.mark.long
def test_a_broker_that_writes_nothing_has_met_no_full_disk(tmp_path: Path) -> None:
    """And its keeper is not told any more that its end is ours."""
    found = seen("idle", tmp_path)
    assert found["full"] < PAGE_BYTES <= found["free"]
    assert (found["codes"], found["starts"], found["held"]) == ([], 1, False)
    assert "the broker went on" in (reason(tmp_path) or "")


@here
@pytest.mark.long
def test_an_announcement_is_taken_back_by_the_rollback_of_a_fault_that_failed(tmp_path: Path) -> None:
    found = seen("fails", tmp_path)
    assert (found["codes"], found["starts"], found["held"]) == ([], 1, False)
    assert found["events"] == ["injecting", "injected", "cleared"]


class Ends:
    """The part of a site that tells of deaths: it is seen when it has been asked for so often, or never."""

    def __init__(self, asked: int | None) -> None:
        self.left = asked

    def death(self, victim: Victim) -> Death | None:
        if self.left is None:
            return None
        self.left -= 1
        return None if self.left > 0 else Death(1, {})


@pytest.mark.parametrize("asked", [1, 5, None])
def test_a_halt_of_the_last_moment_is_waited_for_before_it_is_the_brokers_own(
    asked: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill_disk, "SEEN_S", 600.0 if asked else 0.05)
    broker = Broker(id="1", client_port=9, hold_file=tmp_path / "hold")
    keepers.hold(broker, 1, 2, latest_monotonic_ns=3)
    fill_disk._release(Ends(asked), broker, Victim("1", "1", {}))  # type: ignore[arg-type]
    assert (tmp_path / "hold").exists() == bool(asked)


@here
def test_a_disk_is_seen_in_its_namespace_alone(tmp_path: Path) -> None:
    program = "import sys, pathlib; from dedup_lab.systems import disks; at = pathlib.Path(sys.argv[1])\n"
    program += f"disks.mount(at, {PAGE_BYTES * 16}); (at / 'one').write_text('x'); print(*at.iterdir())"
    command = isolation.unshared("run", sys.executable, "-c", program, str(tmp_path), owned=(Own.DISKS,))
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=True)
    assert done.stdout.split() == [str(tmp_path / "one")]
    assert list(tmp_path.iterdir()) == []


@here
def test_networks_and_disks_can_be_had_together() -> None:
    assert isolation.lack(tuple(Own)) is None


def filled(**more: Any) -> Experiment:
    fault = {"name": "full", "at": {"message": 500}, "fillDisk": {"duration": "5s"}}
    return parse(FORM | {"spec": FORM["spec"] | {"faults": [fault]} | more}, source="test")


def test_only_such_an_experiment_needs_disks() -> None:
    assert isolation.owned(filled().spec) == (Own.DISKS,)
    assert isolation.owned(cut(by="NetFilter").spec) == (Own.NETWORKS,)
    assert isolation.owned(parse(FORM, source="test").spec) == ()


def test_a_disk_has_room_for_all_that_is_sent() -> None:
    small, large = filled(), filled(workload={"messages": 1000, "payload": {"bytes": 50_000}})
    assert disks.size_bytes(large) - disks.BASE_BYTES >= 2 * 1000 * 50_000
    assert disks.BASE_BYTES < disks.size_bytes(small) < disks.size_bytes(large)


def test_a_broker_of_pulsar_stores_nothing() -> None:
    systems = [{"name": "pulsar", "pulsar": {"version": "4.2.4"}}]
    with pytest.raises(SpecificationError, match="a Pulsar, whose brokers store nothing"):
        filled(systems=systems)


def test_brokers_that_share_a_disk_are_told_by_the_faults_own_name(tmp_path: Path) -> None:
    at, brokers = "127.0.0.1:9", [Broker(id="1", client_port=9)]
    shared = Endpoints(system="kafka", client_bootstrap=at, direct_bootstrap=at, brokers=brokers)
    session = sessions.current(render(FAULT, folder=tmp_path, endpoints=shared, topic="t")["configuration"])
    with pytest.raises(PlatformError, match=r"^fault full: got brokers that share this machine's disk"):
        fill_disk.INJECTION.prepare(session)


def test_what_forbids_it_is_said_with_what_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "lack", lambda owned: "no unshare on PATH; install util-linux")
    with pytest.raises(Exception, match=r"^a disk of its own for each broker: got no unshare on PATH; a fillDisk on"):
        isolation.enter(filled(), lambda *_: None)


def test_two_things_need_what_one_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "lack", lambda owned: "no unshare on PATH; install util-linux")
    monkeypatch.setattr(isolation, "owned", lambda spec: tuple(Own))
    with pytest.raises(Exception, match="a partition and a fillDisk on this machine need namespaces"):
        isolation.enter(filled(), lambda *_: None)
    monkeypatch.setattr(isolation, "owned", lambda spec: (Own.DISKS,))
    with pytest.raises(Exception, match="a fillDisk on this machine needs namespaces"):
        isolation.enter(filled(), lambda *_: None)


@pytest.mark.parametrize("end", ["stop", "close"])
def test_a_disk_that_stays_keeps_nothing_else(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    asked: list[str] = []

    def unmount(at: Path) -> None:
        asked.append(at.name)
        if at.name != "two":
            raise OSError(16, f"{at.name} stays")

    monkeypatch.setattr(disks, "mount", lambda at, size: None)
    monkeypatch.setattr(disks, "unmount", unmount)
    lab = labs.create(tmp_path / "logs", disk_bytes=DISK_BYTES)
    for name in ("one", "two", "three"):
        lab.disk(name)
    with pytest.raises(OSError, match="stays"):
        getattr(lab, end)()
    assert sorted(asked) == ["one", "three", "two"]
    assert not (lab.folder / "data").exists()
    lab.close()
    assert not lab.folder.exists() and len(asked) == 3
