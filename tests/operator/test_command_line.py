"""How the operator is begun: with a lease, or in so many words without one."""

import json
from pathlib import Path

import pytest

from dedup_operator.__main__ import arguments, lease_of
from dedup_operator.leases import Alone

PLAIN = ("--settings", "s.yaml", "--all-namespaces")


def test_somebody_says_whether_there_is_a_lease(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        arguments(PLAIN)
    assert "one of the arguments --lease --no-lease is required" in capsys.readouterr().err


def test_a_lease_lies_in_a_namespace(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    with pytest.raises(SystemExit, match="2"):
        arguments((*PLAIN, "--lease", "op"))
    assert "--lease: got no namespace" in capsys.readouterr().err


def test_which_is_its_own_pods_unless_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "ops")
    assert arguments((*PLAIN, "--lease", "op")).lease_namespace == "ops"
    assert arguments((*PLAIN, "--lease", "op", "--lease-namespace", "tools")).lease_namespace == "tools"


def test_it_watches_the_namespace_of_its_own_pod_unless_others_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them want rights that are an administrator's: nobody gets those for having said nothing."""
    monkeypatch.setenv("POD_NAMESPACE", "ops")
    said = arguments(("--settings", "s.yaml", "--lease", "op"))
    assert (said.namespace, said.all_namespaces) == (["ops"], False)
    assert arguments((*PLAIN, "--lease", "op")).namespace == []
    named = arguments(("--settings", "s.yaml", "--lease", "op", "--namespace", "lab", "--namespace", "more"))
    assert named.namespace == ["lab", "more"]


def test_outside_of_a_pod_somebody_says_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    with pytest.raises(SystemExit, match="2"):
        arguments(("--settings", "s.yaml", "--no-lease"))
    assert "--namespace: got none" in capsys.readouterr().err


def test_the_image_by_itself_watches_one_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    dockerfile = (Path(__file__).parents[2] / "Dockerfile").read_text()
    (command,) = [line for line in dockerfile.splitlines() if line.startswith("CMD") and "dedup_operator" in line]
    monkeypatch.setenv("POD_NAMESPACE", "ops")
    said = arguments(json.loads(command.removeprefix("CMD"))[3:])
    assert (said.namespace, said.all_namespaces, said.lease) == (["ops"], False, "dedup-operator")


def test_without_a_lease_it_is_alone() -> None:
    assert isinstance(lease_of(arguments((*PLAIN, "--no-lease")), None), Alone)
