"""Networks of a lab's processes, and cuts between them, with real namespaces and the real kernel; without brokers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from tests.lab import a_cut_network

from dedup.errors import SpecificationError
from dedup.experiment.spec import Experiment, parse
from dedup_lab import experiments, isolation
from dedup_lab.systems import own_network

here = pytest.mark.usefixtures("namespaces")
BOUND_S: Final = 120
LASTS_S: Final = 8.0
FORM: Final[dict[str, Any]] = {
    "apiVersion": "dedup.dev/v1alpha1",
    "kind": "DedupExperiment",
    "metadata": {"name": "cut"},
    "spec": {
        "allowPrivilegedFaults": True,
        "systems": [{"name": "kafka", "kafka": {"version": "4.3.1", "brokers": 3}}],
        "workload": {"messages": 1000},
        "variants": [{"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}],
        "runs": 1,
        "seed": 1,
    },
}


def cut(between: str, way: str) -> dict[str, Any]:
    program = [sys.executable, "-m", a_cut_network.__name__, between, way, str(LASTS_S)]
    done = subprocess.run(
        isolation.unshared("run", *program), capture_output=True, text=True, timeout=BOUND_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


ALL: Final = a_cut_network.ALL
HOSTS: Final = ("lab", *"abc")
DATAGRAMS: Final = sorted(f"{one}>{other}" for one in HOSTS for other in HOSTS if one != other)


@here
@pytest.mark.long
@pytest.mark.parametrize(
    ("between", "way", "lost", "one_way"),
    [
        # A connection needs packets both ways; a datagram shows which way is cut.
        ("Brokers", "Both", {"a>b", "a>c", "b>a", "c>a"}, {"a>b", "a>c", "b>a", "c>a"}),
        ("Brokers", "ToLeader", {"a>b", "a>c", "b>a", "c>a"}, {"b>a", "c>a"}),
        ("Brokers", "FromLeader", {"a>b", "a>c", "b>a", "c>a"}, {"a>b", "a>c"}),
        ("Clients", "Both", {"lab>a clients"}, {"lab>a", "a>lab"}),
        ("Clients", "ToLeader", {"lab>a clients"}, {"lab>a"}),
        ("Clients", "FromLeader", {"lab>a clients"}, {"a>lab"}),
    ],
)
def test_who_is_cut_off_is_so_until_the_deadline_though_the_injector_is_dead(
    between: str, way: str, lost: set[str], one_way: set[str]
) -> None:
    found = cut(between, way)
    assert set(ALL) - set(found["while"]) == lost, "nobody else is cut off"
    assert found["datagrams before"] == DATAGRAMS
    assert set(DATAGRAMS) - set(found["datagrams while"]) == one_way, "and nobody the other way"
    assert found["effect"]["packets_dropped"] > 0
    assert found["healed_s"] >= LASTS_S - 1
    assert found["effect after"] == {}, "the kernel's counters outlive the cut, and prove nothing any more"
    assert found["ended"] is True


@here
def test_outside_a_network_of_our_own_there_is_none() -> None:
    assert not isolation.inside()


@pytest.mark.parametrize("setting", isolation.FORBIDDING, ids=lambda each: each[2])
def test_a_setting_that_forbids_it_is_named(
    setting: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, forbids, todo = setting
    refusing = tmp_path / "unshare"
    refusing.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(isolation, "unshared", lambda *words, **_: [str(refusing)])
    monkeypatch.setattr(isolation, "_read", lambda asked: forbids if asked == path else None)
    why = isolation.lack()
    if sys.platform == "linux":
        assert why is not None and todo in why and "\n" not in why


def test_what_the_kernel_says_is_said_if_no_setting_forbids_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refusing = tmp_path / "unshare"
    refusing.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setattr(isolation, "unshared", lambda *words, **_: [str(refusing)])
    monkeypatch.setattr(isolation, "_read", lambda _: None)
    why = isolation.lack()
    if sys.platform == "linux":
        assert why is not None and "Operation not permitted" in why


def experiment(**partition: Any) -> Experiment:
    fault = {"name": "cut", "at": {"message": 500}, "partition": {"duration": "5s", **partition}}
    return parse(FORM | {"spec": FORM["spec"] | {"faults": [fault]}}, source="test")


def test_a_policy_is_for_a_cluster_and_netfilter_for_both() -> None:
    with pytest.raises(SpecificationError, match=r"spec.faults\[0\].partition.by: got NetworkPolicy"):
        experiments.check(experiment(by="NetworkPolicy"))
    experiments.check(experiment(by="NetFilter"))


def test_a_policy_knows_no_direction() -> None:
    with pytest.raises(SpecificationError, match="about connections, not about packets"):
        experiment(by="NetworkPolicy", direction="ToLeader")
    experiment(by="NetFilter", direction="ToLeader")


def test_what_is_newer_than_the_kind_changes_no_digest_unless_it_is_asked_for() -> None:
    usual = experiment(by="NetFilter")
    assert usual.digest() == experiment(by="NetFilter", between="Brokers", direction="Both").digest()
    assert usual.digest() != experiment(by="NetFilter", between="Clients").digest()


def test_only_such_an_experiment_needs_it() -> None:
    assert experiment(by="NetFilter").spec.own_networks
    assert not parse(FORM, source="test").spec.own_networks


def test_a_number_is_of_the_network() -> None:
    there = Path("/proc/self/ns/net")
    assert own_network.number() == (str(there.stat().st_ino) if there.exists() else "none")
