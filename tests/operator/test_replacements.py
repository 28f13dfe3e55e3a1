"""In a cluster too, a run whose faults missed is done again within the budget: its conductor leaves word of it."""

from dataclasses import dataclass, field
from typing import Final

import pytest
from testbed.worlds import Player, World
from tests.operator.test_reconciliations import applied

from dedup.experiment.assignments import MISSED
from dedup_operator import sights
from dedup_operator.clusters import Object

WHY: Final = "fault cut: no message was unacknowledged at the effect"


def pod(words: str, name: str = "conductor", code: int = 0) -> Object:
    ended = {"name": name, "state": {"terminated": {"exitCode": code, "message": words}}}
    return {"metadata": {"name": "p"}, "status": {"phase": "Succeeded", "containerStatuses": [ended]}}


@pytest.mark.parametrize(
    ("seen", "missed"),
    [
        (pod(f"{MISSED}{WHY}"), WHY),
        (pod(f"{MISSED}{WHY}", name="producer"), ""),
        (pod(f"{MISSED}{WHY}", code=4), ""),
        (pod("of a library"), ""),
        ({"metadata": {"name": "p"}, "status": {}}, ""),
    ],
)
def test_only_a_conductor_that_ended_in_order_says_that_faults_missed(seen: Object, missed: str) -> None:
    assert sights.missed([seen]) == missed


@dataclass
class Missing(Player):
    """Controllers in whose cluster the faults of every first attempt miss."""

    told: list[str] = field(default_factory=list)

    def _move_job(self, made: Object) -> None:
        super()._move_job(made)
        meta = made["metadata"]
        if meta["labels"].get("dedup.dev/attempt") != "1" or "dedup.dev/run" not in (meta.get("annotations") or {}):
            return
        for each in self.cluster.list("Pod", self.namespace, f"batch.kubernetes.io/job-name={meta['name']}"):
            if (each.get("status") or {}).get("phase") == "Succeeded":
                self.told.append(meta["name"])
                self.cluster.set_status(each, pod(f"{MISSED}{WHY}")["status"])


def played(budget: int) -> World:
    world = applied(("spec/replacements", budget))
    world.player = Missing(world.cluster)
    world.run()
    return world


@pytest.mark.parametrize(("budget", "runs"), [(0, 2), (1, 3), (5, 4)])
def test_a_missed_run_is_done_again_within_the_budget(budget: int, runs: int) -> None:
    world = played(budget)
    status = world.status()
    assert (status["verdict"], status["progress"]) == ("Pass", "2/2 runs")
    assert len(list(filter(None, world.player.jobs.values()))) == runs
    assert status["state"].get("replaced", 0) == runs - 2
    assert world.player.overlaps == []
    said = [message for reason, message in world.events() if reason == "RunReplaced"]
    assert len(said) == runs - 2
    assert all("is done again, since a fault missed its traffic" in message for message in said)
