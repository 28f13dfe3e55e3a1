"""How the operator is begun: with a lease, or in so many words without one."""

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


def test_without_a_lease_it_is_alone() -> None:
    assert isinstance(lease_of(arguments((*PLAIN, "--no-lease")), None), Alone)
