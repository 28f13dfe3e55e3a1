"""The way into another cluster: what a kubeconfig may say, whose Secret is used, and who is named if none is read."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.operator.comparing import KEY, NAMESPACE, OTHERS, UID, World, kubeconfig

from dedup_operator.clusters import ClusterError, Forbidden, Unreachable


def refusals() -> Iterator[tuple[str, str]]:
    def cloud(**changes: Any) -> str:
        return kubeconfig("https://cloud:6443", **changes)

    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}
    yield cloud(user={"exec": program}), "'exec', a program that would run in the operator's pod"
    yield cloud(user={"auth-provider": {"name": "gcp"}}), "'auth-provider', a program"
    yield cloud(user={"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}), "'tokenFile', a file"
    yield cloud(user={"client-certificate": "/etc/passwd"}), "'client-certificate', a file"
    yield cloud(user={"client-key-data": "eA=="}), "'client-key-data', a key"
    yield cloud(user={"as": "system:admin"}), "'as', another user's name"
    yield cloud(user={"username": "u"}), "'username', a password"
    yield cloud(user={"token": None}), "no token"
    yield cloud(user={"token": "a\r\nHost: b"}), "a token that is none"
    yield cloud(cluster={"certificate-authority": "/ca.crt"}), "'certificate-authority', a file"
    yield cloud(cluster={"certificate-authority-data": "eA=="}), "no certificate in base64"
    yield cloud(cluster={"insecure-skip-tls-verify": True}), "'insecure-skip-tls-verify', a server whose certificate"
    yield cloud(cluster={"proxy-url": "http://p"}), "'proxy-url', a proxy"
    yield cloud(cluster={"tls-server-name": "x"}), "'tls-server-name'"
    yield kubeconfig("http://cloud:6443"), "a server that is not https://HOST:PORT"
    yield kubeconfig("https://u:p@cloud"), "a server that is not https://HOST:PORT"
    yield kubeconfig("file:///etc/passwd"), "a server that is not https://HOST:PORT"
    yield cloud(context={"namespace": "../x"}), "a namespace that is none"
    yield cloud(context={"user": "other"}), "whose user is not in the file"
    yield cloud(**{"current-context": "y"}), "whose context is not in the file"
    yield cloud(extensions=[]), "'extensions'"
    yield "a: &a [x]\nb: [*a, *a]", "YAML with aliases"
    yield "\t: :", "text that is not YAML"
    yield "- 1", "something else than a kubeconfig"
    yield "", "something else than a kubeconfig"
    yield "x" * (65 << 10), "more than 64 KiB"


@pytest.mark.parametrize(("text", "words"), list(refusals()), ids=lambda each: each[:40])
def test_a_kubeconfig_that_does_more_than_name_a_cluster_is_refused(text: str, words: str) -> None:
    world = World(stopped=True)
    world.secret("cloud", text)
    for _ in range(2):
        world.look()
    said = world.condition("Stalled")[2]
    assert words in said and "Secret cloud" in said
    assert "t0k" not in said
    assert world.experiments("cloud") == []
    assert world.experiments("edge") != []


def test_its_innocent_twin_leads_there_and_says_in_which_namespace() -> None:
    world = World(stopped=True)
    world.secret("cloud", kubeconfig("https://cloud:6443", context={"namespace": "theirs"}))
    for _ in range(3):
        world.look()
    (made,) = world.clusters["cloud"].list("DedupExperiment", "theirs", "")
    assert made["metadata"]["namespace"] == "theirs"


@pytest.mark.parametrize("label", ["false", ""])
def test_a_secret_that_its_owner_did_not_label_is_not_used(label: str) -> None:
    world = World(stopped=True)
    world.secret("cloud", kubeconfig("https://cloud:6443"), label)
    for _ in range(2):
        world.look()
    assert 'only Secrets that are labelled dedup.dev/use: "true" are used' in world.condition("Stalled")[2]
    world.secret("cloud", kubeconfig("https://cloud:6443"))
    world.stopped = False
    world.run()
    assert world.status["outcome"] == "NothingWorse"


@pytest.mark.parametrize(
    ("error", "step", "words"),
    [
        (Unreachable("GET secrets/cloud: 500"), "Unreachable", "GET secrets/cloud: 500"),
        (Forbidden("secrets is forbidden"), "Refused", "give the operator's account that right"),
    ],
    ids=["silent", "forbidden"],
)
def test_a_secret_that_the_hub_cannot_read_is_not_said_to_be_the_clouds_fault(
    error: ClusterError, step: str, words: str
) -> None:
    world = World(stopped=True)
    world.breaks.unread = {("here", "Secret", "cloud"): error}
    for _ in range(3):
        world.look()
    said = world.cluster("cloud")
    assert said["step"] == step
    assert said["message"].startswith("not asked, since the hub itself did not give its Secret cloud: ")
    assert words in said["message"]
    assert world.experiments("cloud") == [] and world.experiments("edge") != []
    world.breaks.unread, world.stopped = {}, False
    world.run()
    assert world.status["outcome"] == "NothingWorse"


def test_its_twin_a_cluster_that_forbids_its_experiment_is() -> None:
    world = World(stopped=True)
    name = world.asked.experiment(UID, "cloud").name
    world.breaks.unread = {("cloud", "DedupExperiment", name): Forbidden("experiments is forbidden")}
    for _ in range(3):
        world.look()
    assert world.cluster("cloud")["step"] == "Refused"
    assert world.cluster("cloud")["message"].startswith("experiments is forbidden")


def test_that_the_hub_lets_no_summary_be_kept_is_told_and_it_goes_on_when_that_is_mended() -> None:
    world = World()
    world.breaks.unmade = {("here", "ConfigMap"): Forbidden("exceeded quota: few, used: configmaps=9")}
    world.run(until=lambda status: status.get("conditions", []) != [] and world.condition("Stalled")[0] == "True")
    assert world.condition("Stalled")[2].startswith("exceeded quota: few, used: configmaps=9; give the operator's")
    before = world.live
    world.look()
    assert world.live == before
    world.breaks.unmade = {}
    world.run()
    assert (world.status["outcome"], world.condition("Stalled")[0]) == ("NothingWorse", "False")


def test_its_twin_that_the_hub_does_not_answer_is_asked_again_and_told_to_nobody() -> None:
    world = World(stopped=True)
    world.breaks.unmade = {("here", "ConfigMap"): Unreachable("HTTP 500")}
    for _ in range(3):
        world.look()
    for name in world.clusters:
        world.begin(name)
        world.finish(name)
    before = world.live
    world.look()
    assert world.live == before and world.condition("Stalled")[0] == "False"


def test_of_a_deleted_one_the_hub_is_asked_again() -> None:
    world = World(stopped=True)
    for _ in range(3):
        world.look()
    world.delete()
    world.breaks.unpatched = Forbidden("dedupcomparisons is forbidden")
    for name in OTHERS:
        world.clusters[name].delete("DedupExperiment", NAMESPACE, world.asked.experiment(UID, name).name)
    with pytest.raises(Forbidden):
        world.comparer().look(KEY)
    world.breaks.unpatched = None
    world.leave()
    assert list(world.left()) == []
