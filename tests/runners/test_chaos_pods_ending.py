"""A pod whose end is not known to be our doing is not deleted, and its end is no effect of ours.

The cluster is that of words (test_chaos_cluster_faults.py), as are the twins: pods that are deleted, by nobody else.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.runners.test_chaos_cluster_faults import FakeCluster, Stage, seen

from dedup_runners.chaos.faults import pod_delete


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({f"kafka-{n}": seen(f"kafka-{n}") for n in (0, 1, 2)})


@pytest.fixture
def stage(tmp_path: Path, cluster: FakeCluster) -> Stage:
    return Stage(tmp_path, {"podDelete": {"gracePeriod": "1s"}}).open(cluster)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"leaving": True}, "is being deleted already"), ({"uid": "kafka-1-2"}, "was replaced by another one")],
)
def test_a_deletion_whose_answer_was_lost_is_not_done_to_the_next_pod(
    change: dict[str, Any], words: str, stage: Stage, cluster: FakeCluster
) -> None:
    """The client asks again by itself, and is told that the pod has changed: by the deletion that it had asked for."""
    asked = 0

    def lost() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            cluster.pods["kafka-1"] = cluster.pods["kafka-1"]._replace(version="2", **change)

    cluster.meanwhile = lost
    pod_delete.delete_pod(1.0, stage.configuration)
    assert asked == 1
    assert words in (stage.reason() or "")
    cluster.pods["kafka-1"] = seen("kafka-1", uid="kafka-1-2")
    assert "down_s" in pod_delete.await_pod(stage.configuration), "whoever has deleted it, the next one is awaited"


@pytest.mark.parametrize(
    ("change", "words"),
    [({"leaving": True}, "is being deleted already"), ({"running": frozenset()}, "no broker runs in pod kafka-1")],
)
def test_a_broker_that_ends_without_us_is_not_deleted(
    change: dict[str, Any], words: str, stage: Stage, cluster: FakeCluster
) -> None:
    cluster.pods["kafka-1"] = seen("kafka-1", **change)
    pod_delete.delete_pod(1.0, stage.configuration)
    assert cluster.pods["kafka-1"].uid == "kafka-1-1"
    assert words in (stage.reason() or "")
    assert pod_delete.await_pod(stage.configuration) == {}, "nothing was asked for, and nothing is awaited"


def test_a_broker_that_runs_is_deleted_once(stage: Stage, cluster: FakeCluster) -> None:
    pod_delete.delete_pod(1.0, stage.configuration)
    assert cluster.pods["kafka-1"].uid == "kafka-1-2"
    assert stage.reason() is None
