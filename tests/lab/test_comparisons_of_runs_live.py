"""`dedup compare` on real runs: a difference made on purpose is found, and one that is not there is not claimed.

*On purpose*: two producers without deduplication, which differ in one setting. The broker's reply to the third of ten
messages is lost; one producer sends the message again, the other (`retries: 0`) never does. Both are held to
ExactlyOnce, which only the second can keep.

*Not there*: two systems that are the same, and a fault that leaves copies in some runs and not in others: one message
is under way at a time, and its connections are reset while it or its reply is. Of each the first four runs are compared
with the other's first four, then the next ones: no run is in two comparisons. DEDUP_CAMPAIGN=1 does it 20 times.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.kubernetes.marks import CAMPAIGN
from tests.lab import harness
from tests.lab.conftest import Command

from dedup.experiment.spec import Experiment
from dedup.judgement.comparisons import Comparison, compare
from dedup.judgement.conditions import Result
from dedup.judgement.summaries import Summary

pytestmark = [pytest.mark.live, pytest.mark.timeout(3600 if CAMPAIGN else 900)]

RUNS: Final = 6
EACH: Final = 4
REPETITIONS: Final = 20 if CAMPAIGN else 2
ALONE: Final = {"batch.num.messages": "1", "linger.ms": "0"}
"""A message is a request."""


def document(name: str, expect: str, fault: dict[str, Any], **systems: dict[str, Any]) -> dict[str, Any]:
    """One variant, without deduplication, on Kafka under each of these names."""
    made = [{"name": each, "kafka": {"version": "4.3.1", "brokers": 3}, **more} for each, more in systems.items()]
    spec: dict[str, Any] = {
        "systems": made,
        "variants": [{"name": "plain", "deduplication": "Disabled", "expect": expect}],
        "faults": [fault],
        "seed": 42,
    }
    return {"apiVersion": "dedup.dev/v1alpha1", "kind": "DedupExperiment", "metadata": {"name": name}, "spec": spec}


def test_a_difference_made_on_purpose_is_found(dedup: Command, tmp_path: Path, tell: Callable[[str], None]) -> None:
    lost = {"name": "lost", "at": {"message": 3}, "message": {"api": "Produce", "frame": "Reply", "action": "Lose"}}
    once, again = {"client": {"properties": ALONE | {"retries": "0"}}}, {"client": {"properties": ALONE}}
    made = document("kafka-retries", "ExactlyOnce", lost, once=once, again=again)
    made["spec"] |= {"workload": {"messages": 10, "inFlight": 10, "partitions": 1}, "runs": RUNS}
    ended = harness.run(made, tmp_path)
    said = dedup("compare", ended.folder, "--fail-on", "worse", "--format", "markdown")
    assert said.code == 1, f"{said.out}\n{ended.told()}"
    (claim,) = [line for line in said.out.splitlines() if line.startswith("- again plain: different")]
    tell(claim)
    assert f"{RUNS} of {RUNS}" in claim and "p = 0.00216" in claim, said.out
    assert "retries" in said.out.split("|")[0], "what differs comes first"
    assert "- worse: again plain: fail, and pass in once" in said.out


def test_one_that_is_not_there_is_not_claimed(tmp_path: Path, tell: Callable[[str], None]) -> None:
    cut = {"name": "cut", "at": {"message": 10}, "killTCP": {"target": "Clients", "duration": "200ms"}}
    slow = {"network": {"latency": "20ms"}}
    made = document("kafka-twins", "None", cut, one=slow, other=slow)
    made["spec"] |= {"workload": {"messages": 40, "inFlight": 1, "partitions": 1}, "runs": EACH * REPETITIONS}
    ended = harness.run(made, tmp_path)
    found = [repetition(harness.experiment(made), ended.summary, number) for number in range(REPETITIONS)]
    copies = [f"{each.rows[0].with_copies.runs_with}:{each.rows[1].with_copies.runs_with}" for each in found]
    tell(f"runs with copies of {EACH}, by repetition: {', '.join(copies)}")
    assert [each.contrasts[0].different for each in found] == [False] * REPETITIONS
    assert all(row.effective_runs for each in found for row in each.rows), ended.told()


def repetition(experiment: Experiment, summary: Summary, number: int) -> Comparison:
    """The comparison of the two systems by their own runs of this repetition."""
    first, last = number * EACH + 1, (number + 1) * EACH
    runs = tuple(each for each in summary.runs if first <= each.run <= last)
    return compare([Result("twins", experiment, summary.model_copy(update={"runs": runs}))])
