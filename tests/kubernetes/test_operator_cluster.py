"""From `helm install` and `kubectl apply` to the verdict, with everything real: systems, faults, pods, Spark.

The experiments are those of examples/, smaller. How long each took is among the closing lines.
"""

import time
from collections.abc import Callable
from typing import Final

import pytest
from tests.campaign.marks import in_campaigns
from tests.kubernetes import operated
from tests.kubernetes.operated import Document, Operated, condition

from dedup.experiments import parse
from dedup_operator.objects.systems import endpoints, release_of
from dedup_runners.admins.pulsar import NAMESPACES

pytestmark = pytest.mark.cluster

MESSAGES: Final = 300_000
RUNS: Final = 2
MOST_SEEDS: Final = 6


Tell = Callable[[str], None]


def carried_out(operator: Operated, document: Document, tell: Tell) -> Document:
    """Apply it, wait for its end, and delete it: nothing may be left of it but what lies in the store. Its status."""
    name, before, began = document["metadata"]["name"], operator.objects(), time.monotonic()
    operator.apply(document)
    status = operator.verdict(name)
    told = [
        f"{system['name']} {row['name']}: {row['counts']['valuesWithDuplicates']} duplicates"
        for system in status["systems"]
        for row in system["variants"]
    ]
    tell(f"{name}: {status['verdict']} after {time.monotonic() - began:.0f} s; {', '.join(told)}")
    root, began = operator.place.settings.artifacts.root(operator.owner(name).folder), time.monotonic()
    assert operator.objects() - before, "there is something that could be left"
    operator.delete(name)
    assert operator.left(before) == set()
    tell(f"{name}: nothing is left after {time.monotonic() - began:.0f} s")
    assert "summary.json" in operator.place.ask(LIST, root).split()
    return status


LIST: Final = "import sys; from dedup.stores import below, place; print(*below(place(sys.argv[1])))"


def of(status: Document, system: str, variant: str) -> Document:
    (found,) = [each for each in status["systems"] if each["name"] == system]
    (row,) = [each for each in found["variants"] if each["name"] == variant]
    return dict(row)


@pytest.mark.parametrize(
    "name",
    [
        "kafka-kill-tcp",
        pytest.param("pulsar-kill-tcp", marks=in_campaigns),
        pytest.param("kafka-vs-pulsar", marks=in_campaigns),
    ],
)
def test_cut_connections_leave_duplicates_without_deduplication_and_none_with_it(
    name: str, operator: Operated, tell: Tell
) -> None:
    document = operator.example(name, messages=MESSAGES, runs=1)
    status = carried_out(operator, document, tell)
    assert (status["verdict"], condition(status, "Succeeded"), condition(status, "Stalled")) == (
        "Pass",
        "True",
        "False",
    )
    for system in document["spec"]["systems"]:
        assert of(status, system["name"], "control")["counts"]["valuesWithDuplicates"] > 0
        counts = of(status, system["name"], "dedup")["counts"]
        assert (counts["valuesWithDuplicates"], counts["notReceived"], counts["send"]) == (0, 0, MESSAGES)


@in_campaigns
@pytest.mark.timeout(MOST_SEEDS * 900)
@pytest.mark.parametrize("name", ["kafka-kill-leader", "pulsar-kill-topic-owner"])
def test_killed_leaders_leave_duplicates_without_deduplication_and_none_with_it(
    name: str, operator: Operated, tell: Tell
) -> None:
    """A kill leaves duplicates in some runs only: with other seeds, until it did in a control."""
    for seed in range(MOST_SEEDS):
        document = operator.example(name, messages=MESSAGES, runs=RUNS)
        document["metadata"]["name"] = f"{name}-{seed}"
        document["spec"]["seed"] = seed
        status = carried_out(operator, document, tell)
        (system,) = (each["name"] for each in document["spec"]["systems"])
        counts = of(status, system, "dedup")["counts"]
        assert (counts["valuesWithDuplicates"], counts["notReceived"], counts["send"]) == (0, 0, RUNS * MESSAGES)
        copies = of(status, system, "control")["counts"]["valuesWithDuplicates"]
        assert status["verdict"] == ("Pass" if copies else "Inconclusive")
        if copies:
            return
    pytest.fail(f"no duplicates in {RUNS * MOST_SEEDS} control runs")


@in_campaigns
def test_deduplication_flipped_off_behind_its_back_is_a_fail(operator: Operated, tell: Tell) -> None:
    """Somebody else switches it off for Pulsar's namespace while the producer is at work."""
    document = operator.example("pulsar-kill-tcp", messages=MESSAGES, runs=1)
    spec = document["spec"]
    document["metadata"]["name"] = "flipped"
    spec["variants"] = spec["variants"][1:]
    spec["faults"][0]["at"]["message"] = MESSAGES // 2
    operator.apply(document)
    (system,) = parse(document, source="test").spec.systems
    release = release_of(operator.owner("flipped"), system)
    web, *_ = endpoints(system, release, operator.place.namespace).admin_urls
    operator.place.ask(FLIP, web, NAMESPACES[True], timeout_s=operated.VERDICT_S)
    status = carried_out(operator, document, tell)
    assert (status["verdict"], condition(status, "Stalled")) == ("Fail", "True")
    assert of(status, "pulsar", "dedup")["counts"]["valuesWithDuplicates"] > 0


FLIP: Final = """
import json, sys, time, urllib.request
web, namespace = sys.argv[1:]
def ask(path, body=None):
    json_ = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{web}/admin/v2/{path}", body, json_), timeout=10) as answer:
        return answer.read()
def sending():
    try:
        topics = json.loads(ask(f"persistent/{namespace}"))
        return any(json.loads(ask(topic.replace("://", "/") + "/stats"))["publishers"] for topic in topics)
    except OSError:
        return False
while not sending():
    time.sleep(0.05)
ask(f"namespaces/{namespace}/deduplication", b"false")
"""


@in_campaigns
def test_a_fault_that_cannot_bite_is_inconclusive(operator: Operated, tell: Tell) -> None:
    document = operator.example("kafka-kill-leader", messages=60_000, runs=1)
    spec = document["spec"]
    document["metadata"]["name"] = "too-late"
    spec["variants"] = spec["variants"][1:]
    spec["faults"][0]["at"]["message"] = 60_000
    spec["faults"][0]["kill"]["restartAfter"] = "2s"
    status = carried_out(operator, document, tell)
    assert (status["verdict"], condition(status, "Succeeded")) == ("Inconclusive", "False")
