"""Every report has the same numbers: terminal, summary.json, page, JUnit XML, Markdown, S0's CSV and a status."""

import csv
import io
import json
import re
from xml.etree import ElementTree as xml

import pytest
from pydantic.alias_generators import to_camel
from rich.console import Console
from tests.lab.finished import BROKEN, finish
from tests.lab.pages import Page
from tests.operator.gates import TASKS, at

from dedup.judgement.counts import S0_COUNTS
from dedup.judgement.summaries import COLUMNS, Summary
from dedup.judgement.tables import DASH, LATENCIES, RUN_COLUMNS
from dedup_lab import reporting
from dedup_lab.results import Results
from dedup_lab.terminal.reports import show_summary
from dedup_operator import sights
from dedup_spark.report import bulletin

pytestmark = pytest.mark.long

UNKNOWN = dict.fromkeys(LATENCIES.values(), -1)
HEADINGS = {*COLUMNS, *LATENCIES}
Numbers = dict[str, list[float]]
"""By heading, a number a variant."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A treatment lost a message: the verdict is fail, and hardly two columns are alike."""
    folder = tmp_path_factory.mktemp("numbers")
    made = finish(folder / "results", BROKEN)
    reporting.write(made, junit=folder / "results/junit.xml", markdown=folder / "results/summary.md")
    return made


@pytest.fixture(scope="module")
def summary(results: Results) -> Summary:
    return results.read_summary()


def text(results: Results, name: str) -> str:
    return (results.root / name).read_text()


def numbers(cells: list[str]) -> list[float]:
    """A dash, of what is not known, is less than nothing."""
    return [-1 if cell == DASH else float(cell.replace(",", "")) for cell in cells]


def of_json(results: Results) -> Numbers:
    groups = json.loads(text(results, "summary.json"))["systems"]
    sums = {heading: [group["sums"][name] for group in groups] for heading, name in COLUMNS.items()}
    return sums | {
        heading: [(each["latency"] or UNKNOWN)[name] for each in groups] for heading, name in LATENCIES.items()
    }


def of_terminal(results: Results) -> Numbers:
    held = io.StringIO()
    show_summary(results.read_summary(), Console(file=held, width=200))
    rows = [
        [cell.strip() for cell in line.strip("│ \n").split("│")] for line in held.getvalue().splitlines() if "│" in line
    ]
    return {heading: numbers(cells) for heading, *cells in rows if heading in HEADINGS}


def of_page(results: Results) -> Numbers:
    rows = Page(text(results, "report.html")).table("effective runs")
    return {heading: numbers(cells) for heading, cells in rows.items() if heading in HEADINGS}


def of_markdown(results: Results) -> Numbers:
    rows = [line.strip("| ").split(" | ") for line in text(results, "summary.md").splitlines() if line.startswith("| ")]
    return {heading: numbers(cells) for heading, *cells in rows if heading in HEADINGS}


def of_junit(results: Results) -> Numbers:
    root = xml.fromstring(text(results, "junit.xml"))
    found: Numbers = {heading: [] for heading in HEADINGS}
    for case in root.iter("testcase"):
        if case.attrib["classname"] == "trial.kafka":
            for line in (case.findtext("system-out") or "").splitlines():
                heading, _, number = line.rpartition(" ")
                if heading in HEADINGS:
                    found[heading] += numbers([number])
    return found


def of_csv(results: Results) -> Numbers:
    """S0's columns, byte for byte: it has no latencies."""
    rows = list(csv.DictReader(io.StringIO(text(results, "trial_dedup_output.txt"))))
    headings = {name: heading for heading, name in COLUMNS.items()}
    return {
        headings[name]: [sum(int(row[column]) for row in rows if row["DedupEnabled"] == on) for on in ("false", "true")]
        for name, column in S0_COUNTS.items()
    }


def of_status(results: Results) -> Numbers:
    """What the resource shows in a cluster, by the bulletin of the report's pod: no latencies, and not all counts."""
    summary, digest = results.read_summary(), results.experiment().digest()
    said = bulletin(summary, {run.run_id for run in summary.runs}, results.root, planned_faults=1)
    told, wrong = sights.told(json.dumps(said), digest)
    assert told is not None and not wrong
    status = at(len(TASKS), told=told).model_dump(mode="json", by_alias=True)
    counts = [variant["counts"] for system in status["systems"] for variant in system["variants"]]
    shown = {heading: [each.get(to_camel(name)) for each in counts] for heading, name in COLUMNS.items()}
    return {heading: numbers for heading, numbers in shown.items() if None not in numbers}


def test_all_reports_have_the_same_sums(results: Results) -> None:
    wanted = of_json(results)
    assert wanted["duplicates"] == [200, 0] and wanted["missing"] == [0, 1] and wanted["received"] == [2_200, 1_999]
    assert wanted["ack p50, ms"] == [-1, 2] and wanted["ack longest, ms"] == [-1, 3_200]
    for said in (of_terminal, of_page, of_markdown, of_junit):
        assert said(results) == wanted, said.__name__
    for short in (of_csv, of_status):
        assert short(results) == {heading: wanted[heading] for heading in short(results)}, short.__name__
    assert {"send", "duplicates", "missing", "received"} <= of_status(results).keys()


def test_all_reports_have_the_same_numbers_of_each_run(results: Results, summary: Summary) -> None:
    page = Page(text(results, "report.html")).table("run")
    cases = {case.attrib["name"]: case for case in xml.fromstring(text(results, "junit.xml")).iter("testcase")}
    for run in summary.runs:
        assert run.counts is not None
        wanted = [getattr(run.counts, name) for name in RUN_COLUMNS.values()]
        first = next(name for name in page if name.startswith(run.run_id))
        assert numbers(page[first][:-1]) == wanted
        said = (cases[run.run_id].findtext("system-out") or "").splitlines()[-len(wanted) :]
        assert [line.rpartition(" ")[0] for line in said] == list(RUN_COLUMNS)
        assert numbers([line.rpartition(" ")[2] for line in said]) == wanted


def test_the_page_has_the_latencies_of_each_run_that_it_draws_in_full(results: Results, summary: Summary) -> None:
    """The page reads them from the history, and the summary has had them from the judges' evidence."""
    said = re.findall(
        r"Acknowledgements took (\S+) ms \(p50\), (\S+) ms \(p99\) and at most (\S+) ms",
        Page(text(results, "report.html")).words,
    )
    known = [run.latency for run in summary.runs if run.latency is not None]
    assert [run.run_id for run in summary.runs if run.latency is None] == ["kafka-control-002"]
    drawn = {tuple(numbers(list(each))) for each in said}
    assert drawn == {(each.p50_ms, each.p99_ms, each.max_ms) for each in known} and len(drawn) == 2


def test_all_reports_give_the_same_verdicts_and_reasons(results: Results, summary: Summary) -> None:
    held = io.StringIO()
    show_summary(summary, Console(file=held, width=200))
    page = Page(text(results, "report.html"))
    root = xml.fromstring(text(results, "junit.xml"))
    markdown = re.sub(r"\\(.)", r"\1", text(results, "summary.md"))
    for reason in summary.reasons:
        for said in (held.getvalue(), page.words, markdown, "".join(root.itertext())):
            assert reason.text in said
    assert [re.sub(r"\W", "", cell) for cell in page.table("effective runs")["verdict"]] == ["pass", "fail"]
    assert "| **verdict** | **pass** | **fail** |" in markdown
    assert {case.attrib["name"] for case in root.iter("testcase") if case.find("failure") is not None} == {
        *("kafka-dedup-002", "dedup", "verdict")
    }
