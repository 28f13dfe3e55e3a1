"""The Secret with a cluster's kubeconfig: who has to agree to its use, and whose fault it is if it is not read."""

import pytest
from tests.operator.comparing import UID, World, kubeconfig

from dedup_operator.clusters import ClusterError, Forbidden, Unreachable


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
