"""The dashboard and the alerts ask for metrics, labels and values that the operator really has.

Its own text is read by Prometheus' Python parser, and every selector of every query is held against it: what is
misspelt shows nothing for ever, and an alert that can never fire looks like a quiet day. Prometheus' own engine answers
the same queries in test_queries.py.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.operator.gates import ROOT

from dedup_operator.metrics import Metrics
from dedup_operator.queues import LAST_RETRY_S
from dedup_operator.reconciliations import STALLED_AGAIN_S

FILES: Final = ROOT / "charts" / "dedup-operator" / "files"
DASHBOARD: Final[dict[str, Any]] = json.loads((FILES / "dashboard.json").read_text())
RULES: Final[dict[str, Any]] = yaml.safe_load((FILES / "rules.yaml").read_text())
OF_TARGETS: Final = {"namespace", "pod", "job", "instance", "container"}
"""Labels that Prometheus adds to what it scrapes."""
SELECTOR: Final = re.compile(r"(dedup_operator_\w+)(?:\{([^}]*)\})?")
MATCHER: Final = re.compile(r'(\w+)(=~|=|!=|!~)"([^"]*)"')
GROUPING: Final = re.compile(r"\bby \(([^)]*)\)")
WORD: Final = re.compile(r"[A-Za-z_]\w*")
QUANTILE: Final = re.compile(r"histogram_quantile\(([\d.]+), sum by \(([^)]*)\) \((?:rate|increase)\((\w+)")
KNOWN: Final = {"histogram_quantile", "sum", "max", "by", "rate", "increase", "absent", "and", "label_values"}


def has() -> dict[str, dict[str, set[str]]]:
    """The values of each label of each metric in the operator's own text."""
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(Metrics().text({})):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


def wrong(query: str) -> Iterator[str]:
    """What a query asks for that is not there."""
    there = has()
    named = SELECTOR.findall(query)
    if not named:
        yield "no metric"
    for metric, matchers in named:
        if metric not in there:
            yield f"metric {metric}"
            continue
        for label, sign, value in MATCHER.findall(matchers):
            if label not in {*there[metric], *OF_TARGETS}:
                yield f"label {label} of {metric}"
            elif label not in OF_TARGETS and sign == "=" and value not in there[metric][label]:
                yield f'{label}="{value}" of {metric}'
        if MATCHER.sub("", matchers).strip(", "):
            yield f"matchers {matchers}"
    for labels in GROUPING.findall(query):
        for label in labels.split(","):
            lacking = [metric for metric, _ in named if label.strip() not in {*there.get(metric, {}), *OF_TARGETS}]
            yield from (f"label {label.strip()} of {metric}" for metric in lacking)
    rest = re.sub(r"\[[^\]]*\]", "", GROUPING.sub("", SELECTOR.sub("", query)))
    yield from (f"word {word}" for word in WORD.findall(rest) if word not in {*KNOWN, *OF_TARGETS})
    yield from _wrong_quantiles(query, {metric for metric, _ in named})
    if query.count("(") != query.count(")"):
        yield "brackets"


def _wrong_quantiles(query: str, named: set[str]) -> Iterator[str]:
    """A quantile is of a rate of buckets that keep their bounds; buckets are for nothing else."""
    found = QUANTILE.findall(query)
    if len(found) != query.count("histogram_quantile"):
        yield "a quantile of something else"
    for quantile, labels, metric in found:
        if not 0 < float(quantile) < 1:
            yield f"quantile {quantile}"
        if "le" not in re.split(r"\W+", labels):
            yield "no le"
        if not metric.endswith("_bucket"):
            yield f"a quantile of {metric}"
    yield from (f"{metric} without a quantile" for metric in named if metric.endswith("_bucket") and not found)


VARIABLES: Final = DASHBOARD["templating"]["list"]
ALERTS: Final = {rule["alert"]: rule["expr"] for group in RULES["groups"] for rule in group["rules"]}
SHOWN: Final = {
    f"{panel['title']} {target['refId']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}
QUERIES: Final = {**ALERTS, **SHOWN, **{each["name"]: each["query"] for each in VARIABLES if each["type"] == "query"}}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_asks_for_what_the_operator_has(name: str) -> None:
    assert list(wrong(QUERIES[name])) == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("sum(dedup_operator_verdict_total)", "metric dedup_operator_verdict_total"),
        ('dedup_operator_verdicts_total{verdict="Failed"}', 'verdict="Failed" of dedup_operator_verdicts_total'),
        ('dedup_operator_runs_total{verdict="Fail"}', "label verdict of dedup_operator_runs_total"),
        ("sum by (stage) (dedup_operator_runs_total)", "label stage of dedup_operator_runs_total"),
        ("rated(dedup_operator_runs_total[5m])", "word rated"),
        ("sum(dedup_operator_runs_total", "brackets"),
        ("up == 0", "no metric"),
        ("sum(dedup_operator_look_seconds_bucket)", "dedup_operator_look_seconds_bucket without a quantile"),
        (
            "histogram_quantile(0.5, sum by (stage) (rate(dedup_operator_stage_seconds_bucket[5m])))",
            "no le",
        ),
        (
            "histogram_quantile(0.5, sum by (le) (rate(dedup_operator_look_seconds_sum[5m])))",
            "a quantile of dedup_operator_look_seconds_sum",
        ),
        ("histogram_quantile(95, sum by (le) (rate(dedup_operator_look_seconds_bucket[5m])))", "quantile 95"),
        ("histogram_quantile(0.5, dedup_operator_look_seconds_bucket)", "a quantile of something else"),
    ],
)
def test_what_is_not_there_is_found(query: str, words: str) -> None:
    assert words in list(wrong(query))


def test_every_metric_is_on_the_dashboard() -> None:
    parts = re.compile("_(bucket|sum|count)$")
    shown = {parts.sub("", metric) for query in SHOWN.values() for metric, _ in SELECTOR.findall(query)}
    assert shown == {parts.sub("", metric) for metric in has()}


def test_every_alert_says_what_it_is_and_what_to_do() -> None:
    for rule in (rule for group in RULES["groups"] for rule in group["rules"]):
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["labels"]["severity"] in ("info", "warning")
        used = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
        assert all(re.search(rf"by \([^)]*\b{label}\b", rule["expr"]) for label in used), (
            "a label that is summed away is empty"
        )


(REFUSED,) = (each for group in RULES["groups"] for each in group["rules"] if each["alert"].endswith("IsRefused"))


def test_one_experiment_that_is_refused_raises_the_alert() -> None:
    """It is asked again once in so long."""
    (bound,) = re.findall(r"> ([\d.]+)$", REFUSED["expr"])
    assert "rate(" in REFUSED["expr"] and float(bound) < 1 / max(LAST_RETRY_S, STALLED_AGAIN_S)


def test_an_outage_of_some_minutes_does_not() -> None:
    """It is forgotten before the alert's time is over."""
    (seen,) = re.findall(r"\[(\d+)m\]", REFUSED["expr"])
    (lasting,) = re.findall(r"^(\d+)m$", REFUSED["for"])
    assert int(lasting) - int(seen) >= 5


def test_panels_do_not_cover_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
