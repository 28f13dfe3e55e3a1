"""The dashboard's and the alerts' queries, answered by Prometheus' own engine from what the operator itself tells.

The engine is built from Prometheus' module (testbed/cluster/tools/promql; half a minute of a processor, once). It is
given a scrape a minute for an hour, of an operator at rest and then of one with something to tell. Each alert has a
story in which it fires, and none fires in the calm ones. After the build: ten seconds.
"""

import json
import math
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest
from testbed.cluster import binaries
from tests.operator.test_metrics import finish
from tests.operator.test_monitoring import ALERTS, SHOWN
from tests.operator.test_reconciliations import applied

from dedup_operator.metrics import METHODS, Metrics

pytestmark = pytest.mark.go

HOUR: Final = range(0, 3_600_001, 60_000)
TARGET: Final = {"namespace": "dedup", "pod": "operator-0"}
REST: Final = {"lease_held": 1.0, "queue_length": 0.0, "experiments_begun": 0.0, "experiments_waiting": 0.0}
VARIABLES: Final = {"$namespace": ".*", "$__rate_interval": "45m"}
"""As Grafana puts them in; an interval in which something happened."""
Story = Callable[[], tuple[Metrics, Mapping[str, float]]]


def answers(texts: Sequence[str | None], queries: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """By name what each query comes to at the last scrape of an hour; None: the operator was not there."""
    scrapes = [
        {"at_ms": at_ms, "text": text, "labels": TARGET}
        for at_ms, text in zip(HOUR, texts, strict=True)
        if text is not None
    ]
    plain = list(queries.values())
    for variable, value in VARIABLES.items():
        plain = [query.replace(variable, value) for query in plain]
    asked = json.dumps({"scrapes": scrapes, "at_ms": HOUR[-1], "queries": plain})
    program = binaries.find(binaries.PROMQL)
    done = subprocess.run([program], input=asked, capture_output=True, text=True, check=True, timeout=120)
    return dict(zip(queries, json.loads(done.stdout), strict=True))


def hour(story: Story) -> list[str]:
    """At rest, and from the half hour on as the story says."""
    metrics, gauges = story()
    half = len(HOUR) // 2
    return [Metrics().text(REST)] * half + [metrics.text({**REST, **gauges})] * (len(HOUR) - half)


def told(*sums: tuple[str, float, str], times: int = 1, **gauges: float) -> Story:
    def story() -> tuple[Metrics, Mapping[str, float]]:
        metrics = Metrics()
        for name, amount, value in sums * times:
            metrics.add(name, amount, value)
        return metrics, gauges

    return story


def experiment() -> tuple[Metrics, Mapping[str, float]]:
    """An experiment that a reconciler takes to its verdict, and what only a server adds: requests and looks."""
    metrics = finish(applied()).metrics
    metrics.add("look_seconds", 0.02)
    for method in METHODS:
        metrics.add("request_seconds", 0.02, method)
    return metrics, {"queue_length": 1.0, "experiments_begun": 1.0}


def fires(alert: str, texts: Sequence[str | None]) -> bool:
    answer = answers(texts, {alert: ALERTS[alert]})[alert]
    assert "error" not in answer, answer
    return bool(answer["samples"])


def test_every_panel_shows_something_of_an_experiment() -> None:
    found = answers(hour(experiment), SHOWN)
    assert {name: each["error"] for name, each in found.items() if "error" in each} == {}
    assert [name for name, each in found.items() if not each["samples"]] == []
    numbers = {name: [float(sample["value"]) for sample in each["samples"]] for name, each in found.items()}
    lacking = [name for name, values in numbers.items() if all(math.isnan(value) for value in values)]
    assert lacking == []


def test_a_panel_shows_the_number_that_the_operator_counted() -> None:
    found = answers(hour(experiment), {"runs": "sum(dedup_operator_runs_total)", **SHOWN})
    assert [sample["value"] for sample in found["runs"]["samples"]] == ["2"]
    by_verdict = next(name for name, query in SHOWN.items() if query.startswith("sum by (verdict)"))
    counted = {each["labels"]["verdict"]: float(each["value"]) for each in found[by_verdict]["samples"]}
    assert counted["Pass"] > 0 and {value for verdict, value in counted.items() if verdict != "Pass"} == {0.0}


@pytest.mark.parametrize("alert", ALERTS)
def test_an_operator_at_rest_and_an_experiment_that_passes_raise_no_alert(alert: str) -> None:
    assert not fires(alert, hour(told()))
    assert not fires(alert, hour(experiment))


STORIES: Final[Mapping[str, Story]] = {
    "DedupOperatorDoesNotAct": told(lease_held=0.0),
    "DedupOperatorCrashes": told(("crashes_total", 1, "")),
    "DedupOperatorIsRefused": told(("api_errors_total", 3, "")),
    "DedupOperatorWaitsForApiServer": told(("request_seconds", 8.0, "GET"), times=100),
    "DedupExperimentsWait": told(experiments_waiting=2.0),
    "DedupExperimentFailed": told(("verdicts_total", 1, "Fail")),
    "DedupExperimentError": told(("verdicts_total", 1, "Error")),
}
RECENT: Final = 4
"""Scrapes since it happened: one alert looks back five minutes."""


@pytest.mark.parametrize("alert", STORIES)
def test_an_alert_fires_when_what_it_is_for_has_happened(alert: str) -> None:
    metrics, gauges = STORIES[alert]()
    texts = [Metrics().text(REST)] * (len(HOUR) - RECENT) + [metrics.text({**REST, **gauges})] * RECENT
    assert fires(alert, texts)


def test_an_operator_that_is_not_there_is_missed() -> None:
    assert fires("DedupOperatorAbsent", [None] * len(HOUR))
    assert {"DedupOperatorAbsent", *STORIES} == ALERTS.keys(), "each alert has a story"


def test_a_query_that_is_none_is_an_error() -> None:
    found = answers(
        hour(told()), {"brackets": "sum(dedup_operator_runs_total", "name": "sum(dedup_operator_run_total)"}
    )
    assert "unclosed left parenthesis" in found["brackets"]["error"]
    assert found["name"]["samples"] == []
