"""A keeper's three duties: nothing is left behind, exits are evidence, announced kills heal by themselves."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dedup.errors import PlatformError
from dedup_lab.systems import labs
from dedup_lab.systems.jvms import with_another_try
from dedup_lab.systems.keepers import Kept, last_words
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import free, listening
from dedup_runners.chaos.keepers import Status
from dedup_runners.waiting import until

BOUND_S = 20.0
SLEEP = ["/bin/sleep", "600"]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    with labs.create(tmp_path / "logs") as lab:
        yield lab


def status(kept: Kept) -> Status:
    found = kept.status()
    assert found is not None
    return found


def running(kept: Kept) -> int:
    pid = status(kept).pid
    assert pid is not None
    return pid


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def hold(kept: Kept, pid: int, seconds: float, latest_s: float | None = None) -> int:
    now_ns = time.monotonic_ns()
    until_ns = now_ns + int(seconds * 1e9)
    latest = {} if latest_s is None else {"latest_monotonic_ns": now_ns + int(latest_s * 1e9)}
    kept.hold_file.write_text(json.dumps({"pid": pid, "until_monotonic_ns": until_ns} | latest))
    return until_ns


def test_a_started_program_is_described_by_its_status(lab: Lab) -> None:
    kept = lab.start("sleeper", SLEEP)
    found = status(kept)
    assert found.starts == 1 and found.exits == [] and not found.broken
    process = psutil.Process(running(kept))
    # Linux lets a parent go on (vfork) before the new program's arguments are in place: for some µs there are none.
    assert until(process.cmdline, BOUND_S, "the program's arguments are in place", 0.001) == SLEEP
    assert found.create_time == pytest.approx(process.create_time(), abs=labs.SAME_TIME_S)
    assert os.getpgid(process.pid) == process.pid, "a process group of its own"
    assert os.getsid(found.keeper_pid) == found.keeper_pid, "a session of its own: Ctrl-C does not reach it"


@pytest.mark.long
def test_an_announced_kill_is_healed_at_its_time_without_anybodys_help(lab: Lab) -> None:
    kept = lab.start("sleeper", SLEEP)
    first = running(kept)
    until_ns = hold(kept, first, 3.0)
    os.kill(first, signal.SIGKILL)
    until(lambda: status(kept).starts == 2, BOUND_S, "the keeper starts it again", 0.005)
    second = running(kept)
    assert time.monotonic_ns() >= until_ns
    assert second != first
    assert [(each.pid, each.code) for each in status(kept).exits] == [(first, 137)]
    assert status(kept).exits[0].monotonic_ns < until_ns
    kept.check()


def test_a_program_that_was_stopped_ends_with_its_lab(lab: Lab) -> None:
    """As after Ctrl-C while a broker is paused."""
    kept = lab.start("sleeper", SLEEP)
    process = psutil.Process(running(kept))
    os.kill(process.pid, signal.SIGSTOP)
    until(lambda: process.status() == psutil.STATUS_STOPPED, BOUND_S, "the program is stopped")
    kept.check()
    lab.close()
    assert gone(process.pid)


def test_while_held_down_it_is_not_broken(lab: Lab) -> None:
    kept = lab.start("sleeper", SLEEP)
    first = running(kept)
    until_ns = hold(kept, first, 600)
    os.kill(first, signal.SIGKILL)
    until(lambda: status(kept).pid is None, BOUND_S, "the keeper notices the kill")
    assert status(kept).restart_at_monotonic_ns == until_ns and not status(kept).broken
    kept.check()


def test_an_unannounced_kill_stays_and_is_an_error(lab: Lab) -> None:
    kept = lab.start("sleeper", SLEEP)
    os.kill(running(kept), signal.SIGKILL)
    until(lambda: status(kept).broken, BOUND_S, "the keeper notices the kill")
    with pytest.raises(PlatformError, match="sleeper: got exit code 137"):
        lab.check()


@pytest.mark.parametrize(
    ("words", "tries"),
    [("KeeperErrorCode = ConnectionLoss", 2), ("Address already in use", 2), ("no such class", 1)],
    ids=["too late for its session", "a port is taken", "another reason"],
)
def test_what_ends_by_chance_as_it_starts_is_started_again(lab: Lab, words: str, tries: int) -> None:
    asked: list[Kept] = []

    def start() -> None:
        asked.append(lab.start("broker", SLEEP if asked else ["/bin/sh", "-c", f"echo {words}; exit 1"]))
        if len(asked) == 1:
            until(lambda: status(asked[0]).broken, BOUND_S, "it has ended")
        lab.check()

    if tries > 1:
        with_another_try(lab, start)
    else:
        with pytest.raises(PlatformError, match=words):
            with_another_try(lab, start)
    assert len(asked) == tries


def test_a_broker_that_runs_may_have_lost_a_connection_before(lab: Lab) -> None:
    """What keeps the lab from getting ready is something else."""
    kept = lab.start("broker", ["/bin/sh", "-c", "echo KeeperErrorCode = ConnectionLoss; sleep 600"])
    until(lambda: "Loss" in kept.program.log.read_text(), BOUND_S, "it has said so")
    tried: list[int] = []

    def start() -> None:
        tried.append(1)
        raise PlatformError(where="pulsar", got="nothing within 300 s", rule="r", todo="t")

    with pytest.raises(PlatformError, match="300 s"):
        with_another_try(lab, start)
    assert tried == [1]


def test_a_hold_for_another_process_restarts_nothing(lab: Lab) -> None:
    kept = lab.start("sleeper", SLEEP)
    hold(kept, running(kept) + 1, 0)
    os.kill(running(kept), signal.SIGKILL)
    assert until(lambda: status(kept).broken, BOUND_S, "the keeper notices the kill")
    assert status(kept).starts == 1


def test_an_announcement_is_void_after_its_latest_time(lab: Lab) -> None:
    """Whoever made it may be dead and cannot take it back. Its twin: an end in time."""
    for name, latest_s in (("late", -1.0), ("in time", 600.0)):
        kept = lab.start(name, SLEEP)
        until_ns = hold(kept, running(kept), 600, latest_s)
        os.kill(running(kept), signal.SIGKILL)
        until(lambda kept=kept: status(kept).pid is None, BOUND_S, "the keeper notices the kill")  # type: ignore[misc]
        assert status(kept).restart_at_monotonic_ns == (until_ns if latest_s > 0 else None)
        assert status(kept).broken == (latest_s < 0)


def test_a_crash_is_not_taken_for_the_announced_kill(lab: Lab) -> None:
    kept = lab.start("sleeper", SLEEP)
    hold(kept, running(kept), 0)
    os.kill(running(kept), signal.SIGSEGV)
    until(lambda: status(kept).broken, BOUND_S, "the keeper notices the crash")
    assert [each.code for each in status(kept).exits] == [139]


def test_a_programs_last_words_are_in_its_error(lab: Lab) -> None:
    kept = lab.start("talker", ["/bin/sh", "-c", "echo all is well; echo ERROR the disk is on fire; echo bye; exit 7"])
    until(lambda: status(kept).broken, BOUND_S, "the program ends")
    with pytest.raises(PlatformError, match=r"exit code 7; it last said: ERROR the disk is on fire") as caught:
        kept.check()
    assert "\n" not in str(caught.value) and str(kept.program.log) in str(caught.value)


def test_a_program_that_cannot_be_started_is_an_error(lab: Lab) -> None:
    kept = lab.start("nothing", ["/no/such/program"])
    with pytest.raises(PlatformError, match="/no/such/program: No such file or directory"):
        kept.check()


def test_closing_the_lab_leaves_nothing(lab: Lab) -> None:
    shell = lab.start("family", ["/bin/sh", "-c", "sleep 600 & sleep 600 & wait"])
    parent = psutil.Process(running(shell))
    until(lambda: len(parent.children()) == 2, BOUND_S, "the program has started two more")
    family = parent.children()
    pids = [status(shell).keeper_pid, running(shell), *(process.pid for process in family)]
    lab.close()
    until(lambda: all(gone(pid) for pid in pids), BOUND_S, "all processes are gone")
    assert not lab.folder.exists()


@pytest.mark.long
def test_what_a_killed_keeper_leaves_goes_with_the_lab(lab: Lab) -> None:
    """With the lab's folder goes what would tell the next sweep of it."""
    kept = lab.start("orphan", SLEEP)
    pid = running(kept)
    os.kill(status(kept).keeper_pid, signal.SIGKILL)
    with pytest.raises(PlatformError, match="its keeper ended"):
        until(lab.check, BOUND_S, "the lab sees that the keeper is gone")
    assert not gone(pid), "nobody watches over it now"
    lab.close()
    assert gone(pid)


OWNER = """
import signal, sys, time
from pathlib import Path
from dedup_lab.systems import labs
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
lab = labs.create(Path(sys.argv[1]))
kept = [lab.start(name, ["/bin/sleep", "600"]) for name in ("one", "two")]
print(*[each for one in kept for each in (one.status().keeper_pid, one.status().pid)], lab.folder, flush=True)
time.sleep(600)
"""


def owner(tmp_path: Path) -> tuple["subprocess.Popen[str]", list[int], Path]:
    """A process that owns a lab of two sleepers: keeper, sleeper, keeper, sleeper, and the lab's folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "logs")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    *pids, folder = process.stdout.readline().split()
    process.stdout.close()
    return process, [int(pid) for pid in pids], Path(folder)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_when_the_owner_dies_in_any_way_everything_it_started_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    process, pids, folder = owner(tmp_path)
    assert labs.sweep() == 0, "the owner lives: its lab is not ours to sweep"
    assert not any(gone(pid) for pid in pids)
    process.send_signal(number)
    process.wait(BOUND_S)
    until(lambda: all(gone(pid) for pid in pids), BOUND_S, "all processes are gone")
    assert labs.sweep() == 1
    assert not folder.exists()


@pytest.mark.long
def test_the_sweep_kills_what_even_the_keepers_could_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    process, pids, folder = owner(tmp_path)
    keepers, sleepers = pids[0::2], pids[1::2]
    for pid in (*keepers, process.pid):
        os.kill(pid, signal.SIGKILL)
    process.wait(BOUND_S)
    until(lambda: all(gone(pid) for pid in keepers), BOUND_S, "the keepers are gone")
    assert not any(gone(pid) for pid in sleepers), "nobody watches over them now"
    assert labs.sweep() == 1
    until(lambda: all(gone(pid) for pid in sleepers), BOUND_S, "the sleepers are gone")
    assert not folder.exists()


def test_the_sweep_spares_a_stranger_that_got_a_dead_owners_process_id(tmp_path: Path, lab: Lab) -> None:
    stranger = lab.start("stranger", SLEEP)
    pid = running(stranger)
    orphan = lab.folder.parent / "orphan"
    (orphan / "keepers").mkdir(parents=True)
    (orphan / "owner.json").write_text(json.dumps({"pid": os.getpid(), "create_time": 1.0}))
    told = status(stranger).model_copy(update={"create_time": 1.0, "keeper_create_time": 1.0})
    (orphan / "keepers" / "x.status.json").write_text(told.model_dump_json())
    assert labs.sweep() == 1
    assert not orphan.exists() and running(stranger) == pid and not gone(pid)


def test_the_sweep_spares_a_lab_whose_owner_began_at_another_time_by_a_clock_that_was_set(lab: Lab) -> None:
    """When a process began is counted from the boot, and when that was moves with the clock."""
    path = lab.folder / labs.OWNER
    named = json.loads(path.read_text())
    path.write_text(json.dumps(named | {"create_time": named["create_time"] + 3600}))
    assert labs.sweep() == 0 and lab.folder.exists()


def test_the_sweep_takes_an_unfinished_lab_only_when_it_is_old(lab: Lab) -> None:
    young, old = lab.folder.parent / ".new-young", lab.folder.parent / ".new-old"
    young.mkdir()
    old.mkdir()
    os.utime(old, (1.0, 1.0))
    labs.sweep()
    assert young.exists() and not old.exists()


def test_free_ports_are_different_and_nobodys() -> None:
    ports = free(30)
    assert len(set(ports)) == 30
    assert not any(listening(port) for port in ports)


def test_last_words_prefer_errors_and_fit_one_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_words(log) == ""
    log.write_text("one\ntwo\n\nthree\nfour\n")
    assert last_words(log) == "two | three | four"
    log.write_text("ERROR no space\n\tat a.b.C(D.java:1)\nshutting down\n")
    assert last_words(log) == "ERROR no space"
