"""A network of our own: who may have one, what is tried first, and that nothing of it is left behind."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from rich.console import Console
from tests.lab import an_owner
from tests.lab.test_networks import BOUND_S, FORM, experiment, here

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.experiment.spec import parse
from dedup.faults.partition import Between, Way
from dedup_lab import caches, experiments, isolation
from dedup_runners.chaos.kernel_cuts import KernelCut
from dedup_runners.waiting import until

SOMEBODY: Final = 12_345
"""A user who is not root."""


@here
@pytest.mark.long
def test_nothing_is_left_of_a_lab_that_is_killed(tmp_path: Path) -> None:
    """The keepers end with it, and each namespace with the last process in it."""
    command = isolation.unshared("run", sys.executable, "-m", an_owner.__name__, str(tmp_path))
    environment = os.environ | {"DEDUP_CACHE": str(tmp_path / "cache")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as owner:
        assert owner.stdout is not None
        try:
            network = int(owner.stdout.readline())
            assert network not in (number("self"), number(str(owner.pid))), "the process has a network of its own"
            assert members(network) and told_of(tmp_path)
        finally:
            owner.kill()
    until(lambda: not members(network) and not told_of(tmp_path), BOUND_S, "nothing is left")


def number(pid: str) -> int | None:
    """Of a process's network; None if the process is gone, or nobody may know."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return None


def members(network: int) -> list[str]:
    """The processes in it."""
    return [each for each in os.listdir("/proc") if each.isdigit() and number(each) == network]


def told_of(folder: Path) -> list[int]:
    """The processes whose command line has the folder: the owner, and its keepers."""
    return [
        each.pid for each in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(each.info["cmdline"] or [])
    ]


@here
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders of others to write")
def test_root_writes_the_folders_of_others_there_as_elsewhere(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, SOMEBODY, SOMEBODY)
    subprocess.run(isolation.unshared("run", "/bin/sh", "-c", f"echo > {theirs}/one"), check=True, timeout=BOUND_S)
    assert (theirs / "one").exists()


@pytest.mark.parametrize(("user", "works", "mapped"), [(0, True, False), (0, False, True), (SOMEBODY, True, True)])
def test_who_is_not_root_or_may_not_is_root_in_a_user_namespace(
    user: int, works: bool, mapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr(isolation, "_works", lambda *asked: works)
    assert ("--user" in isolation.namespaces.__wrapped__()) is mapped


@here
def test_a_file_in_the_users_folder_is_not_taken_for_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial is the same program in the same folder as the run."""
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(given))
    (tmp_path / "select.py").write_text("raise SystemExit('this is the wrong one')\n")
    (tmp_path / "socket.py").write_text("raise SystemExit('this is the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    assert isolation.lack() is None


TRIAL: Final = """
import sys
from dedup_lab.systems import own_network
from dedup_runners.chaos import kernel_cuts
def refuse(*_):
    raise OSError(95, "no nf_tables here")
{broken}
sys.argv[1:] = ["try", "net"]
own_network.main()
"""


@here
@pytest.mark.parametrize(("broken", "code"), [("", 0), ("kernel_cuts._add_set = refuse", 1)], ids=["whole", "no sets"])
def test_a_kernel_that_cannot_drop_packets_is_found_by_the_trial(broken: str, code: int) -> None:
    command = isolation.unshared("run", sys.executable, "-c", TRIAL.format(broken=broken))
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=False)
    assert (done.returncode, "no nf_tables here" in done.stdout) == (code, code == 1), done.stdout + done.stderr


def test_brokers_that_share_a_network_are_told_by_the_faults_own_name() -> None:
    brokers = [Broker(id="1", client_port=1)]
    shared = Endpoints(system="kafka", client_bootstrap="", direct_bootstrap="", brokers=brokers)
    with pytest.raises(PlatformError, match=r"^fault split: got brokers that share one network"):
        KernelCut(shared, "split", Between.BROKERS, Way.BOTH).prepare()


class Gone(Exception):
    """Another program is in our place now."""


SERVICE: Final = {
    "consumer": {
        "at": {"message": 30},
        "end": "Kill",
        "service": {"pattern": "IdempotentConsumerAndOutbox", "after": "Outbox", "effect": "Call"},
    },
}
FUNCTION: Final = {
    "consumer": {"at": {"message": 30}, "end": "Kill", "function": {"guarantee": "AtLeastOnce", "batches": False}}
}
PULSAR: Final = {"name": "pulsar", "pulsar": {"version": "4.2.4", "brokers": 3}}


@pytest.mark.parametrize(
    ("system", "workload", "fetched"),
    [
        ({}, {}, {"kafka"}),
        ({}, SERVICE, {"kafka", "postgres", "debezium"}),
        (PULSAR, FUNCTION, {"pulsar", "function"}),
        (PULSAR, {}, {"pulsar"}),
    ],
    ids=["kafka", "service", "function", "pulsar"],
)
def test_what_is_fetched_is_fetched_before_from_where_nothing_can_be(
    system: dict[str, Any], workload: dict[str, Any], fetched: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: set[str] = set()

    def leave(*_: Any) -> None:
        raise Gone

    monkeypatch.setattr(isolation, "lack", lambda _: None)
    monkeypatch.setattr(os, "execv", leave)
    monkeypatch.setattr("dedup_lab.systems.jars.fetch_missing", lambda name, *_, **__: found.add(name))
    monkeypatch.setattr("dedup_lab.systems.packages.folder", lambda: found.add("postgres"))
    monkeypatch.setattr("dedup_lab.clients.pulsar_function.package", lambda _: found.add("function"))
    spec: Any = {
        "systems": [system or FORM["spec"]["systems"][0]],
        "workload": {"messages": 1000, **workload},
        "faults": [{"name": "p", "at": {"message": 100}, "partition": {"by": "NetFilter", "duration": "5s"}}],
    }
    with pytest.raises(Gone):
        isolation.enter(parse({**FORM, "spec": {**FORM["spec"], **spec}}, source="test"), caches.silent)
    assert found == fetched


@pytest.mark.parametrize(("by", "warnings"), [("NetFilter", 0), (None, 1)])
def test_a_warning_is_left_to_the_program_in_the_network_of_our_own(
    by: str | None, warnings: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is the one that goes on; for an experiment without such a network nobody else would warn."""

    def leave(*_: Any) -> None:
        raise Gone

    warned: list[Any] = []
    monkeypatch.setattr(isolation, "enter", leave)
    monkeypatch.setattr(experiments, "warn", lambda *told: warned.append(told))
    monkeypatch.setattr(experiments, "_open", leave)
    asked = experiment(by=by) if by else parse(FORM, source="test")
    with pytest.raises(Gone):
        experiments.run(asked, out=tmp_path, resume=False, console=Console(), command="dedup run")
    assert len(warned) == warnings
