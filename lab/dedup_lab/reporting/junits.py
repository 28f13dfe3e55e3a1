"""JUnit XML: the verdict for programs that show tests.

A suite a system, with a case a run and, after them, a case a variant; a last suite has one case for the whole, since
some reasons belong to no variant. The four verdicts become what JUnit knows:

    pass           a case and nothing in it
    fail           <failure>
    error          <error>
    inconclusive   <skipped>: it proves nothing, and most programs do not count it as a success

The type of a failure or an error is the code of its first reason, the message its text; all reasons follow. A program
that must not go on after `inconclusive` looks at the exit code, as ever.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as xml

from dedup.errors import shown
from dedup.judgement import tables
from dedup.judgement.summaries import GroupRow, RunRow, Summary
from dedup.judgement.verdicts import Reason, Verdict

ELEMENTS: Final = {Verdict.FAIL: "failure", Verdict.ERROR: "error", Verdict.INCONCLUSIVE: "skipped"}
TOTALS: Final = {"failure": "failures", "error": "errors", "skipped": "skipped"}
WHOLE: Final = "experiment"


def text(summary: Summary) -> str:
    """The document."""
    name = shown(summary.experiment) or "histories"
    root = xml.Element("testsuites", name=name)
    for system in dict.fromkeys([*(run.system for run in summary.runs), *(group.system for group in summary.systems)]):
        suite = xml.SubElement(root, "testsuite", name=shown(system))
        for run in (run for run in summary.runs if run.system == system):
            seconds = sum(run.stage_seconds.values())
            case = _case(suite, f"{name}.{system}.{run.variant}", run.run_id, run.verdict, run.reasons, seconds)
            _say(case, run.reasons, _of_run(run))
        for number, group in enumerate(summary.systems):
            if group.system == system:
                case = _case(suite, f"{name}.{system}", group.variant, group.verdict, group.reasons, 0.0)
                _say(case, group.reasons, _of_group(summary, number))
        _count(suite)
    suite = xml.SubElement(root, "testsuite", name=WHOLE)
    case = _case(suite, name, "verdict", summary.verdict, summary.reasons, 0.0)
    _say(case, summary.reasons, [])
    _count(suite)
    _count(root)
    xml.indent(root, " ")
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(
    suite: xml.Element, classname: str, name: str, verdict: Verdict, reasons: Sequence[Reason], seconds: float
) -> xml.Element:
    case = xml.SubElement(suite, "testcase", classname=shown(classname), name=shown(name), time=f"{seconds:.3f}")
    if verdict in ELEMENTS:
        first = next((reason for reason in reasons if reason.verdict is verdict), None)
        result = xml.SubElement(case, ELEMENTS[verdict], message=shown(first.text) if first else str(verdict))
        if first and verdict is not Verdict.INCONCLUSIVE:
            result.set("type", first.code)
        result.text = "\n".join(shown(reason.text) for reason in reasons)
    return case


def _say(case: xml.Element, reasons: Sequence[Reason], numbers: Sequence[str]) -> None:
    lines = [*(f"{reason.verdict}: {shown(reason.text)}" for reason in reasons), *map(shown, numbers)]
    xml.SubElement(case, "system-out").text = "\n".join(lines)


def _of_run(run: RunRow) -> list[str]:
    return [f"{heading} {cell}" for heading, cell in zip(tables.RUN_COLUMNS, tables.run_cells(run), strict=True)]


def _of_group(summary: Summary, number: int) -> list[str]:
    found: GroupRow = summary.systems[number]
    lines = [f"{row.heading} {row.cells[number]}" for row in tables.sums(summary.systems)]
    return [*lines, *(f"{each.messages:,} {tables.finding(each)}" for each in found.findings)]


def _count(element: xml.Element) -> None:
    """The totals of a suite, or of all."""
    found = Counter(child.tag for case in element.iter("testcase") for child in case)
    element.set("tests", str(sum(1 for _ in element.iter("testcase"))))
    for tag, total in TOTALS.items():
        element.set(total, str(found[tag]))
    element.set("time", f"{sum(float(case.attrib['time']) for case in element.iter('testcase')):.3f}")
