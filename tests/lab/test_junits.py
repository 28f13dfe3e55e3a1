"""JUnit XML: each verdict is what programs that show tests make of it, and nothing in a reason breaks the document."""

from xml.etree import ElementTree as xml

import pytest
from tests.core.evidences import all_evidence, duplicates, experiment

from dedup.judgement.conclusions import conclude
from dedup.judgement.summaries import Summary, summarise
from dedup.judgement.verdicts import Reason, Verdict
from dedup_lab.reporting.junits import text


def summary(**by_variant: dict[str, int]) -> Summary:
    made = experiment()
    found = all_evidence(made, **by_variant)
    return summarise(made, conclude(made, found), found)


def results(found: Summary) -> dict[str, str]:
    """The result of each case by its name; empty: it passed."""
    root = xml.fromstring(text(found))
    return {
        case.attrib["name"]: " ".join(child.tag for child in case if child.tag != "system-out")
        for case in root.iter("testcase")
    }


def test_a_case_a_run_one_a_variant_and_one_for_the_whole() -> None:
    assert results(summary()) == dict.fromkeys(
        ["kafka-dedup-001", "kafka-control-001", "kafka-control-002", "kafka-dedup-002", "control", "dedup", "verdict"],
        "",
    )


def test_a_broken_promise_is_a_failure_of_its_run_its_variant_and_the_whole() -> None:
    found = results(summary(dedup=duplicates()))
    assert {name for name, result in found.items() if result == "failure"} == {
        *("kafka-dedup-001", "kafka-dedup-002", "dedup", "verdict")
    }
    root = xml.fromstring(text(summary(dedup=duplicates())))
    failure = next(root.iter("failure"))
    assert failure.attrib["type"] == "values_with_duplicates"
    assert root.attrib | {"time": ""} == {
        "name": "trial",
        "tests": "7",
        "failures": "4",
        "errors": "0",
        "skipped": "0",
        "time": "",
    }


@pytest.mark.parametrize(
    ("verdict", "element"), [("fail", "failure"), ("error", "error"), ("inconclusive", "skipped"), ("pass", "")]
)
def test_what_each_verdict_becomes(verdict: str, element: str) -> None:
    changed = summary().model_copy(
        update={"verdict": Verdict(verdict), "reasons": (Reason(verdict=Verdict(verdict), code="x", text="why"),)}
    )
    assert results(changed)["verdict"] == element


def test_letters_that_xml_does_not_know_are_escaped() -> None:
    reason = Reason(verdict=Verdict.FAIL, code="x", text="a\x00b\x1b[31m <&> \ud800 ]]>")
    changed = summary().model_copy(update={"verdict": Verdict.FAIL, "reasons": (reason,)})
    failure = next(xml.fromstring(text(changed).encode()).iter("failure"))
    assert failure.attrib["message"] == r"a\x00b\x1b[31m <&> \ud800 ]]>"
