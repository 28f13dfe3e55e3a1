"""What is believed of an object: readiness only of the object as it is now, an end only if it says so."""

from typing import Any

import pytest

from dedup.stages import Status
from dedup_operator import sights


def workload(generation: int, observed: int, there: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "kafka", "generation": generation},
        "spec": {"replicas": 3},
        "status": {"observedGeneration": observed, "readyReplicas": there},
    }


@pytest.mark.parametrize(
    ("found", "status"),
    [
        ([workload(2, 2, 3)], Status.DONE),
        ([workload(2, 1, 3)], Status.RUNNING),
        ([workload(2, 2, 2)], Status.RUNNING),
        ([workload(2, 2, 3), workload(1, 1, 0)], Status.RUNNING),
        ([], Status.ABSENT),
    ],
    ids=["all there", "said of what it was before", "one is missing", "another is missing", "nothing is there"],
)
def test_ready_is_who_has_all_replicas_as_it_is_now(found: list[dict[str, Any]], status: Status) -> None:
    assert sights.ready(found).status is status


def application(state: dict[str, str]) -> dict[str, Any]:
    made = {"name": "verification", "creationTimestamp": "1970-01-01T00:00:00Z"}
    return {"metadata": made, "status": {"applicationState": state}}


@pytest.mark.parametrize(
    ("state", "status"),
    [("COMPLETED", Status.DONE), ("FAILED", Status.FAILED), ("SUBMISSION_FAILED", Status.RUNNING)],
)
def test_an_application_has_failed_when_sparks_operator_gives_up(state: str, status: Status) -> None:
    """After a failed submission it may try again."""
    seen = sights.judged(application({"state": state, "errorMessage": "driver: exit code 1"}), 0.0)
    assert seen.status is status
    assert ("driver: exit code 1" in seen.message) is (status is Status.FAILED)
