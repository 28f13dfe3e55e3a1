"""Faults that need pods, before a cluster made of words: what is asked of it, and what is believed of its answers.

Each effect has its twin without one: a pod that was not deleted, a policy that nobody enforces, a namespace that
forbids the container. None of them may pass for an injected fault.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, BrokerPod, Endpoints
from dedup.faults.records import lives_ended, vacuous
from dedup.faults.registry import Fault
from dedup.wire.faults import FaultEvent
from dedup.wire.manifests import FaultRecord
from dedup_runners import chaos
from dedup_runners.chaos import cuts, sessions
from dedup_runners.chaos.clusters import Document, PodSeen, consenting
from dedup_runners.chaos.cuts import NetFilterCut, PolicyCut
from dedup_runners.chaos.experiments import render
from dedup_runners.chaos.faults import partition as partitions
from dedup_runners.chaos.faults import pod_delete

LABELS = {"dedup.dev/faults": "allowed"}
RULE = {"rule": {"expr": [{"match": {}}, {"counter": {"packets": 3, "bytes": 9}}, {"drop": None}]}}
MEMBERS = {"set": {"name": "cut", "elem": [{"elem": {"val": "10.0.0.2", "timeout": 8, "expires": 3}}]}}
DROPPED = {"nftables": [{"table": {}}, MEMBERS, RULE]}
EXPIRED = {"nftables": [{"table": {}}, {"set": {"name": "cut"}}, RULE]}
"""As nft 1.0.6 tells it: the counters stay, the members are gone."""


def pod(name: str) -> BrokerPod:
    return BrokerPod(namespace="here", name=name, container="kafka", hold="/hold")


def seen(name: str, **changes: Any) -> PodSeen:
    labels = LABELS | {"statefulset.kubernetes.io/pod-name": name}
    found = PodSeen(uid=f"{name}-1", labels=labels, address=f"10.0.0.{name[-1]}", running=frozenset(["kafka"]))
    return found._replace(**changes)


@dataclass
class Words:
    """A shell that was told what to answer to a command that begins so."""

    answers: dict[str, str]
    told: list[str] = field(default_factory=list)

    def send(self, line: str) -> None:
        self.told.append(line)

    def answer(self, timeout_s: float) -> str:
        return next(said for begin, said in self.answers.items() if self.told[-1].startswith(begin))

    def ended(self, timeout_s: float) -> bool:
        return False

    def close(self) -> None:
        return


@dataclass
class FakeCluster:
    """Pods by name; `words` is what a shell in any container answers, `meanwhile` what happens before a deletion."""

    pods: dict[str, PodSeen]
    words: dict[str, str] = field(default_factory=dict)
    meanwhile: Callable[[], None] = lambda: None
    shells: dict[str, Words] = field(default_factory=dict)
    policies: dict[str, Document] = field(default_factory=dict)

    def pod(self, pod: BrokerPod) -> PodSeen | None:
        return self.pods.get(pod.name)

    def delete(self, pod: BrokerPod, seen: PodSeen, grace_s: int) -> bool:
        self.meanwhile()
        now = self.pods.get(pod.name)
        if now is None or (now.uid, now.version) != (seen.uid, seen.version):
            return False
        self.pods[pod.name] = now._replace(uid=f"{pod.name}-2")
        return True

    def bearers(self, namespace: str, label: tuple[str, str]) -> list[str]:
        return [name for name, each in self.pods.items() if each.labels.get(label[0]) == label[1]]

    def add_container(self, pod: BrokerPod, seen: PodSeen, container: Document) -> bool:
        self.meanwhile()
        before = self.pods[pod.name]
        if (before.uid, before.version) != (seen.uid, seen.version):
            return False
        self.pods[pod.name] = before._replace(running=before.running | {container["name"]})
        return True

    def put_policy(self, namespace: str, policy: Document) -> None:
        self.policies[policy["metadata"]["name"]] = policy

    def remove_policy(self, namespace: str, name: str) -> bool:
        self.policies.pop(name, None)
        return True

    def this_pod(self) -> dict[str, Any] | None:
        return {"apiVersion": "v1", "kind": "Pod", "name": "run", "uid": "r"}

    def shell(self, pod: BrokerPod) -> Words:
        return self.shells.setdefault(pod.name, Words(self.words))


class Leader:
    """The part of an Admin that tells who leads, and which bookies there are."""

    def __init__(self, name: str, *bookies: str) -> None:
        self._name, self._bookies = name, bookies

    def leader(self, topic: str, partition: int) -> str:
        return self._name

    def bookies(self) -> list[str]:
        return [*self._bookies]

    def close(self) -> None:
        return


def endpoints(folder: Path) -> Endpoints:
    status = folder / "status.json"
    brokers = [Broker(id=str(n), client_port=9094, status_file=status, pod=pod(f"kafka-{n}")) for n in (0, 1, 2)]
    return Endpoints(system="kafka", client_bootstrap="127.0.0.1:9", direct_bootstrap="127.0.0.1:9", brokers=brokers)


def fault(kind: dict[str, Any]) -> Fault:
    return Fault.model_validate_json(json.dumps({"name": "cut", "at": {"message": 50}, **kind}))


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({f"kafka-{n}": seen(f"kafka-{n}") for n in (0, 1, 2)})


@dataclass
class Stage:
    """The session of one fault that was triggered; broker 1 leads."""

    folder: Path
    kind: dict[str, Any]

    def open(self, cluster: FakeCluster) -> "Stage":
        document = render(fault(self.kind), folder=self.folder, endpoints=endpoints(self.folder), topic="t")
        self.configuration = document["configuration"]
        session = sessions.current(self.configuration)
        session.admin, session.triggered, session._cluster = Leader("1"), True, cluster  # type: ignore[assignment]
        self.session = session
        return self

    @property
    def deed(self) -> partitions.Deed:
        return self.session.recall(partitions.Deed)

    def record(self) -> FaultRecord:
        (found,) = chaos.records(self.folder, [fault(self.kind)], messages=100)
        return found

    def reason(self) -> str | None:
        """Why the fault proves nothing, but for what the client and the producer would have to say."""
        record = self.record()
        return vacuous(record.model_copy(update={"client_witness": {"retry": 1}, "unacknowledged": 1, "remaining": 1}))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, {"podDelete": {"gracePeriod": "1s"}})


def test_a_pod_that_was_deleted_is_another_one(stage: Stage, cluster: FakeCluster) -> None:
    stage.open(cluster)
    assert pod_delete.delete_pod(1.0, stage.configuration) == {"deleted": ["kafka-1"]}
    assert "down_s" in pod_delete.await_pod(stage.configuration)
    assert stage.reason() is None


def test_a_deletion_has_ended_a_life_beside_that_of_a_kill(stage: Stage, cluster: FakeCluster) -> None:
    """Else the run would be an error: a broker that died by itself."""
    stage.open(cluster)
    pod_delete.delete_pod(1.0, stage.configuration)
    deleted = stage.record()
    kill = deleted.model_copy(
        update={"name": "k", "kind": "kill", "target_witness": {"container": "c", "exit_code": 137}}
    )
    assert (lives_ended([deleted]), lives_ended([kill, deleted])) == (1, 2)


def changes(cluster: FakeCluster, times: int, **also: Any) -> Callable[[], None]:
    """What is changed of the leader's pod between its consent and its deletion, so often."""
    left = iter(range(times))

    def meanwhile() -> None:
        if next(left, None) is not None:
            now = cluster.pods["kafka-1"]
            cluster.pods["kafka-1"] = now._replace(version=f"{now.version}+", **also)

    return meanwhile


def test_a_pod_whose_status_changes_meanwhile_is_asked_for_its_consent_again(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.meanwhile = changes(cluster, 2)
    stage.open(cluster)
    assert pod_delete.delete_pod(1.0, stage.configuration) == {"deleted": ["kafka-1"]}
    assert stage.reason() is None


def test_a_consent_that_is_taken_back_before_the_deletion_holds(stage: Stage, cluster: FakeCluster) -> None:
    """The label goes between the last look at it and the request: the twin of the status that changes."""
    cluster.meanwhile = changes(cluster, 1, labels={})
    stage.open(cluster)
    with pytest.raises(PlatformError, match="only pods that consent are hurt"):
        pod_delete.delete_pod(1.0, stage.configuration)
    assert cluster.pods["kafka-1"].uid == "kafka-1-1"
    assert "never took effect" in (stage.reason() or "")


def test_a_pod_that_never_stays_as_it_was_is_not_deleted(stage: Stage, cluster: FakeCluster) -> None:
    cluster.meanwhile = changes(cluster, 100)
    stage.open(cluster)
    pod_delete.delete_pod(1.0, stage.configuration)
    assert pod_delete.await_pod(stage.configuration) == {}
    assert "changed each of 5 times between its consent and its deletion" in (stage.reason() or "")
    assert cluster.pods["kafka-1"].uid == "kafka-1-1"


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (seen("kafka-1", uid="other", controller="somebody"), "another pod than the one that was proven"),
        (seen("kafka-1", uid="other"), "another pod than the one that was proven"),
        (seen("kafka-1", leaving=True), "a pod that is being deleted"),
        (seen("kafka-1", uid="other", controller="c", labels={}), "no label dedup.dev/faults=allowed"),
    ],
)
def test_a_pod_of_others_is_struck_if_it_is_the_one_that_was_proven(
    cluster: FakeCluster, now: PodSeen, words: str
) -> None:
    theirs = pod("kafka-1").model_copy(update={"uid": "kafka-1-1", "controller": "c"})
    assert consenting(cluster, theirs).uid == "kafka-1-1"
    cluster.pods["kafka-1"] = now
    with pytest.raises(PlatformError, match=words):
        consenting(cluster, theirs)
    cluster.pods["kafka-1"] = seen("kafka-1", uid="other", controller="c", containers=frozenset({"kafka"}))
    assert consenting(cluster, theirs).uid == "other", "its controller has put it in the other's place"


@pytest.mark.parametrize(
    ("found", "reason"), [(None, "no such pod"), (seen("kafka-1", labels={}), "only pods that consent are hurt")]
)
def test_a_pod_that_is_not_there_or_does_not_consent_is_left_alone(
    found: PodSeen | None, reason: str, stage: Stage, cluster: FakeCluster
) -> None:
    del cluster.pods["kafka-1"]
    if found:
        cluster.pods["kafka-1"] = found
    stage.open(cluster)
    with pytest.raises(PlatformError, match=reason):
        pod_delete.delete_pod(1.0, stage.configuration)
    assert "never took effect" in (stage.reason() or "")


# --- partitions --------------------------------------------------------------------------------------------------


def partition(stage: Stage, cluster: FakeCluster, by: str) -> Stage:
    stage.kind = {"partition": {"by": by, "duration": "1s"}}
    return stage.open(cluster)


def policy_cut(stage: Stage, cluster: FakeCluster) -> PolicyCut:
    cut = PolicyCut(cluster, endpoints(stage.folder), "cut", cluster.this_pod())
    cut.prepare()
    return cut


def test_a_policy_that_the_network_enforces_is_a_partition(stage: Stage, cluster: FakeCluster) -> None:
    cluster.words = {"(timeout": ""}
    partition(stage, cluster, "NetworkPolicy").deed.cut = policy_cut(stage, cluster)
    cluster.words["(timeout"] = "shut 0\nshut 2\n"
    partitions.cut_off(1.0, stage.configuration)
    ((name, policy),) = cluster.policies.items()
    assert name.startswith("dedup-cut-")
    assert policy["spec"]["podSelector"]["matchLabels"] == {"statefulset.kubernetes.io/pod-name": "kafka-1"}
    assert policy["metadata"]["ownerReferences"][0]["uid"] == "r"
    assert policy["spec"]["ingress"][0]["from"][1]["ipBlock"]["except"] == ["10.0.0.0/32", "10.0.0.2/32"]
    partitions.join_again(stage.configuration)
    assert cluster.policies == {}
    assert stage.reason() is None


def test_a_policy_that_nobody_enforces_is_no_effect(stage: Stage, cluster: FakeCluster) -> None:
    cluster.words = {"(timeout": ""}
    partition(stage, cluster, "NetworkPolicy").deed.cut = policy_cut(stage, cluster)
    partitions.cut_off(1.0, stage.configuration)
    partitions.join_again(stage.configuration)
    assert cluster.policies == {}
    assert "reaches the others as before" in (stage.reason() or "")


def test_a_label_that_another_pod_bears_too_cuts_nobody_off(stage: Stage, cluster: FakeCluster) -> None:
    """A policy selects by labels, and anybody may give a pod any label."""
    cluster.words = {"(timeout": ""}
    cut = policy_cut(stage, cluster)
    cluster.pods["web-0"] = seen("kafka-1", labels={"statefulset.kubernetes.io/pod-name": "kafka-1"})
    with pytest.raises(PlatformError, match="at kafka-1, web-0; a NetworkPolicy selects pods by labels, and must not"):
        cut.begin("1", 1.0)
    assert cluster.policies == {}
    del cluster.pods["web-0"]
    cut.begin("1", 1.0)
    assert len(cluster.policies) == 1


@pytest.mark.parametrize("of", ["kafka-1", "kafka-2"])
@pytest.mark.parametrize("by", ["NetworkPolicy", "NetFilter"])
def test_a_consent_that_was_taken_back_since_the_fault_was_armed_cuts_nobody_off(
    stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, by: str, of: str
) -> None:
    monkeypatch.setenv(cuts.IMAGE, "runner:1")
    cluster.words = {"(timeout": "", "nft list": "able\n", "nft 'add": "done\n"}
    cut = policy_cut(stage, cluster) if by == "NetworkPolicy" else netfilter_cut(stage, cluster)
    cluster.pods[of] = cluster.pods[of]._replace(labels={"statefulset.kubernetes.io/pod-name": of})
    with pytest.raises(PlatformError, match=rf"pod here/{of}: got no label dedup\.dev/faults=allowed"):
        cut.begin("1", 1.0)
    assert cluster.policies == {}
    assert not any("add table" in line for line in cluster.shells["kafka-1"].told)


def test_others_are_cut_off_by_the_addresses_that_they_have_now(
    stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address of a pod that was replaced may be another pod's by now; and the leader's must be the one prepared."""
    monkeypatch.setenv(cuts.IMAGE, "runner:1")
    cluster.words = {"nft list": "able\n", "nft 'add": "done\n"}
    cut = netfilter_cut(stage, cluster)
    cluster.pods["kafka-2"] = cluster.pods["kafka-2"]._replace(uid="new", address="10.0.0.7")
    cut.begin("1", 1.0)
    (rules,) = (line for line in cluster.shells["kafka-1"].told if "add table" in line)
    assert "10.0.0.0 timeout 1000ms, 10.0.0.7 timeout 1000ms" in rules
    cluster.pods["kafka-1"] = cluster.pods["kafka-1"]._replace(uid="new")
    with pytest.raises(PlatformError, match="another pod than the one that was prepared"):
        cut.begin("1", 1.0)


def test_brokers_that_never_reached_each_other_show_no_partition(stage: Stage, cluster: FakeCluster) -> None:
    cluster.words = {"(timeout": "shut 2\n"}
    with pytest.raises(PlatformError, match="connections that came about before"):
        policy_cut(stage, cluster)


def netfilter_cut(stage: Stage, cluster: FakeCluster) -> NetFilterCut:
    cut = NetFilterCut(cluster, endpoints(stage.folder), "cut", 60.0)
    cut.prepare()
    return cut


def test_packets_that_the_kernel_dropped_are_a_partition(
    stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cuts.IMAGE, "runner:1")
    cluster.words = {
        "nft list": "able\n",
        "nft 'add": "done\n",
        "nft -j": json.dumps(DROPPED),
        "nft delete": "",
    }
    partition(stage, cluster, "NetFilter").deed.cut = netfilter_cut(stage, cluster)
    partitions.cut_off(1.0, stage.configuration)
    rules = next(line for line in cluster.shells["kafka-1"].told if "add table" in line)
    assert "10.0.0.0 timeout 1000ms, 10.0.0.2 timeout 1000ms" in rules
    partitions.join_again(stage.configuration)
    assert stage.reason() is None
    assert stage.deed.cut is not None
    assert stage.deed.cut.effect("1") == {"packets_dropped": 3}
    for listing in (json.dumps(EXPIRED), "{}", "Error: No such file or directory\n"):
        cluster.words["nft -j"] = listing
        assert stage.deed.cut.effect("1") == {}


@pytest.mark.parametrize("told", [False, True], ids=["in pods that are not known", "in pods of the experiment's own"])
def test_a_broker_is_cut_off_from_bookies_wherever_they_are(
    told: bool, stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods of the others are known. Of bookies that the experiment did not bring the brokers know the names."""
    monkeypatch.setenv(cuts.IMAGE, "runner:1")
    monkeypatch.setattr(cuts, "addresses_of", {"bk-0.bk": {"10.0.0.8", "fd00::8"}, "bk-1.bk": {"10.0.0.9"}}.get)
    cluster.words = {"nft list": "able\n", "nft 'add": "done\n"}
    session = partition(stage, cluster, "NetFilter").session
    session.admin = Leader("1", "bk-0.bk:3181", "bk-1.bk:3181")  # type: ignore[assignment]
    there = endpoints(stage.folder)
    brokers = [broker.model_copy(update={"status_file": None}) for broker in there.brokers]
    bookies = [Broker(id="b", client_port=3181, pod=pod("bookie-7"))] if told else []
    cluster.pods["bookie-7"] = seen("bookie-7")
    there = there.model_copy(update={"brokers": brokers, "bookies": bookies})
    session.scene = session.scene.model_copy(update={"endpoints": there})
    partitions.INJECTION.prepare(session)
    assert stage.deed.cut is not None
    stage.deed.cut.begin("1", 1.0)
    rules = next(line for line in cluster.shells["kafka-1"].told if "add table" in line)
    cut = re.findall(r"(\S+) timeout 1000ms", rules)
    assert cut == ["10.0.0.0", "10.0.0.2", *(["10.0.0.7"] if told else ["10.0.0.8", "10.0.0.9"])]


def test_a_bookie_that_cannot_be_found_arms_no_fault(
    stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cuts.IMAGE, "runner:1")
    monkeypatch.setattr(cuts, "addresses_of", lambda _: {"fd00::9"})
    cut = NetFilterCut(cluster, endpoints(stage.folder), "cut", 60.0, bookies=["archive-7"])
    with pytest.raises(PlatformError, match="bookie archive-7: got no IPv4 address to which its id leads"):
        cut.prepare()
    assert cluster.pods["kafka-1"].running == {"kafka"}, "no container was added"


def test_a_pod_that_changes_between_its_consent_and_the_container_is_looked_at_again(
    stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner may have taken the label away; a kubelet that writes the status changes it, too."""
    monkeypatch.setenv(cuts.IMAGE, "runner:1")
    cluster.words = {"nft list": "able\n"}
    changes = 0

    def changed() -> None:
        nonlocal changes
        changes += 1
        if changes == 1:
            cluster.pods["kafka-0"] = cluster.pods["kafka-0"]._replace(version="2")

    cluster.meanwhile = changed
    netfilter_cut(stage, cluster)
    assert changes == len(cluster.pods) + 1
    changes = 0

    def withdrawn() -> None:
        cluster.pods["kafka-0"] = cluster.pods["kafka-0"]._replace(version="3", labels={})

    cluster.meanwhile = withdrawn
    with pytest.raises(PlatformError, match="only pods that consent are hurt"):
        netfilter_cut(stage, cluster)


def test_rules_that_had_expired_before_the_end_are_no_partition(
    stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's counters outlive its deeds: that packets were dropped once does not show that they still are."""
    monkeypatch.setenv(cuts.IMAGE, "runner:1")
    monkeypatch.setattr(partitions, "AT_END_S", 0.5)
    cluster.words = {"nft list": "able\n", "nft 'add": "done\n", "nft -j": json.dumps(DROPPED), "nft delete": ""}
    partition(stage, cluster, "NetFilter").deed.cut = netfilter_cut(stage, cluster)
    note = stage.session.note

    def noted(event: FaultEvent, **detail: Any) -> None:
        note(event, **detail)
        if event == "injected":
            cluster.words["nft -j"] = json.dumps(EXPIRED)

    monkeypatch.setattr(stage.session, "note", noted)
    partitions.cut_off(1.0, stage.configuration)
    partitions.join_again(stage.configuration)
    assert "not cut off any more" in (stage.reason() or "")


def test_a_container_in_which_nft_does_not_work_arms_no_fault(
    stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PlatformError, match="DEDUP_IMAGE"):
        netfilter_cut(stage, cluster)
    monkeypatch.setenv(cuts.IMAGE, "runner:1")
    cluster.words = {"nft list": "netlink: Operation not permitted\n"}
    with pytest.raises(PlatformError, match="Operation not permitted"):
        netfilter_cut(stage, cluster)


def test_a_pod_without_a_label_of_its_own_is_not_selected(stage: Stage, cluster: FakeCluster) -> None:
    cluster.pods["kafka-2"] = seen("kafka-2", labels=LABELS)
    with pytest.raises(PlatformError, match="must not select any other"):
        policy_cut(stage, cluster)
