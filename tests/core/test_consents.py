"""Whose pods may be struck, and which broker is in which: what is proven, and what is refused in words."""

from typing import Any, Final

import pytest

from dedup.errors import PlatformError
from dedup.experiment.consents import CONSENT, CONTAINER, EXPERIMENT, HOLD, Candidate, consenting, living, placed
from dedup.experiment.endpoints import BrokerPod
from dedup.faults.kill import Kill
from dedup.faults.kinds import FaultKind
from dedup.faults.move_leader import MoveLeader
from dedup.faults.pause import Pause
from dedup.faults.pod_delete import PodDelete

HELD: Final = Kill.model_validate({"restartAfter": "8s"})
AT_ONCE: Final = Kill.model_validate({"restartAfter": "0s"})
DELETED: Final = PodDelete.model_validate({})


def pod(number: int, address: str | None = None, **changes: Any) -> Candidate:
    """A broker's pod whose owner allows faults, as the API server tells it."""
    meta: dict[str, Any] = {
        "namespace": "lab",
        "name": f"k-{number}",
        "uid": f"u-{number}",
        "labels": {CONSENT[0]: CONSENT[1]},
        "annotations": {HOLD: "/hold"},
        "ownerReferences": [{"kind": "StatefulSet", "uid": "set", "controller": True}],
    }
    spec = {
        "containers": [{"name": each} for each in changes.pop("containers", ("broker",))],
        **changes.pop("spec", {}),
    }
    status = {"podIP": address, "podIPs": [{"ip": address}]} if address else {}
    return Candidate.of({"metadata": meta | changes, "spec": spec, "status": status})


def refused(*pods: Candidate, faults: tuple[FaultKind, ...] = (HELD,)) -> str:
    with pytest.raises(PlatformError) as caught:
        consenting("app=kafka", pods, faults)
    return str(caught.value)


def test_pods_that_consent_are_known_with_their_container_and_hold() -> None:
    found = consenting("app=kafka", [pod(0), pod(1)], [HELD, DELETED])
    about = {"namespace": "lab", "container": "broker", "hold": "/hold", "controller": "set"}
    assert found == {f"k-{each}": BrokerPod(name=f"k-{each}", uid=f"u-{each}", **about) for each in (0, 1)}


def test_a_pod_without_the_label_is_named_and_what_to_do() -> None:
    """One is enough: whoever leads by then may be in it."""
    silent = pod(1, labels={CONSENT[0]: "yes"})
    assert refused(pod(0), silent) == (
        "pods app=kafka: got no label dedup.dev/faults=allowed at k-1; faults strike pods of others only if their "
        "owner allows it, at each of them; have their owner label them (dedup.dev/faults=allowed, at the pod "
        "template), or narrow podSelector"
    )
    many = [pod(number, labels={}) for number in range(8)]
    assert "at k-0, k-1, k-2, k-3, k-4 and 3 more;" in refused(*many)


def test_a_pod_that_an_experiment_has_brought_is_not_somebody_elses_to_strike() -> None:
    """It has the label, too: for the faults of its own experiment."""
    labels = {CONSENT[0]: CONSENT[1]}
    assert (
        "got pods that experiments have brought: k-1 (of theirs); the label of such a pod allows the faults of its own "
        "experiment" in refused(pod(0), pod(1, labels={**labels, EXPERIMENT: "theirs"}))
    )
    assert consenting("app=kafka", [pod(0), pod(1, labels=labels)], [HELD]).keys() == {"k-0", "k-1"}


@pytest.mark.parametrize("shared", ["hostNetwork", "hostPID"])
def test_a_pod_that_shares_its_nodes_network_or_processes_is_not_struck(shared: str) -> None:
    assert f"pod k-1: got {shared}: true; what a fault does in a pod must stay" in refused(
        pod(0), pod(1, spec={shared: True})
    )


def test_pods_that_have_ended_or_are_about_to_go_are_no_candidates() -> None:
    """Their addresses may be others' by now."""
    here = {"metadata": {"namespace": "lab", "name": "k-0"}, "status": {"phase": "Running", "podIP": "10.0.0.1"}}
    ended = {**here, "status": {"phase": "Failed", "podIP": "10.0.0.1"}}
    going = {**here, "metadata": {**here["metadata"], "deletionTimestamp": "2026-11-27T00:00:00Z"}}
    assert [each.name for each in living([ended, here, going])] == ["k-0"]
    assert living([ended, going]) == []


def test_no_pod_is_no_consent() -> None:
    assert refused().startswith("pods app=kafka: got none with these labels; podSelector names the brokers' pods")


@pytest.mark.parametrize(
    ("changes", "faults", "words"),
    [
        ({"containers": ("broker", "proxy")}, (HELD,), "got the containers broker, proxy; which of several"),
        ({"annotations": {CONTAINER: "other"}}, (AT_ONCE,), "got other; it names a container of the pod"),
        ({"annotations": {HOLD: "/hold; rm -r /"}}, (HELD,), "it is the absolute path of a folder"),
        ({"annotations": {HOLD: "hold"}}, (HELD,), "it is the absolute path of a folder"),
        ({"annotations": {}}, (HELD,), "got no annotation dedup.dev/hold; without a hold the kubelet starts"),
        ({"ownerReferences": [{"kind": "ReplicaSet"}]}, (DELETED,), "got no owner that makes it anew under its name"),
    ],
)
def test_what_cannot_be_struck_is_said(changes: dict[str, Any], faults: tuple[FaultKind, ...], words: str) -> None:
    assert words in refused(pod(0), pod(1, **changes), faults=faults)


@pytest.mark.parametrize(
    ("changes", "faults", "container"),
    [
        ({"containers": ("proxy", "broker"), "annotations": {CONTAINER: "broker"}}, (AT_ONCE,), "broker"),
        ({"annotations": None}, (AT_ONCE, Pause.model_validate({"duration": "5s"})), "broker"),
        ({"ownerReferences": None}, (HELD,), "broker"),
        ({"annotations": {}, "ownerReferences": []}, (MoveLeader(),), "broker"),
    ],
)
def test_what_no_fault_needs_is_not_asked_for(
    changes: dict[str, Any], faults: tuple[FaultKind, ...], container: str
) -> None:
    assert consenting("app=kafka", [pod(0, **changes)], faults)["k-0"].container == container


PODS: Final = (pod(0, "10.0.0.1"), pod(1, "10.0.0.2"))


def test_a_broker_is_in_the_pod_whose_address_it_advertises_whatever_their_names() -> None:
    assert placed({"7": {"10.0.0.2"}, "1001": {"10.0.0.1"}}, PODS) == {"7": "k-1", "1001": "k-0"}


@pytest.mark.parametrize(
    ("brokers", "words"),
    [
        ({"0": {"10.96.0.7"}}, "broker 0: got an advertised address that leads to 10.96.0.7, no address of a selected"),
        ({"0": set()}, "got an advertised address that leads to nowhere, no address"),
        ({"0": {"10.0.0.1", "10.0.0.2"}}, "leads to 10.0.0.1, 10.0.0.2, the address of k-0 and k-1;"),
        ({"0": {"10.0.0.1", "10.96.0.7"}}, "leads to 10.0.0.1, 10.96.0.7, the address of k-0;"),
        (
            {"0": {"10.0.0.1"}, "1": {"10.0.0.1"}},
            "brokers: got 0 in k-0, 1 in k-0; each broker runs in a pod of",
        ),
        ({}, "brokers: got no word where they are"),
        ({"0": {"10.0.0.1"}}, "podSelector: got pods of no broker: k-1; it names the brokers' pods and no other"),
    ],
)
def test_what_is_not_proven_is_not_struck(brokers: dict[str, set[str]], words: str) -> None:
    """A Service's address, none, several pods', one of two that leads elsewhere, two brokers at one pod, a stranger."""
    with pytest.raises(PlatformError) as caught:
        placed(brokers, PODS)
    assert words in str(caught.value)
