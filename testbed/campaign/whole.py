"""The campaign's part on a whole cluster: the tests of which `make test` runs a sample, all of them, as a table."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

from dedup.errors import one_line

ROOT: Final = Path(__file__).parents[2]
FILES: Final = tuple(ROOT / "tests" / "kubernetes" / f"test_{name}_cluster.py" for name in ("operator", "disasters"))
TOLD: Final = "told"
HOW: Final = (
    "Everything is real: the operator installed from its chart, systems, faults, pods, Spark. In each stage in "
    "which it waits, the operator is killed, the experiment deleted, the API server silent for a minute."
)


class Case(NamedTuple):
    """One test: how it ended ("passed", or another result), and what it reported."""

    name: str
    ended: str
    took_s: float
    told: Sequence[str]


def on_a_cluster(folder: Path) -> list[Case]:
    """Run them; pytest's progress goes to our output."""
    report = folder / "cluster.xml"
    command = [sys.executable, "-m", "pytest", "-v", *reporting_to(report), *map(str, FILES)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"DEDUP_CAMPAIGN": "1"}, check=False)
    return cases(report)


def reporting_to(report: Path) -> list[str]:
    """The options by which pytest writes a report with the tests' properties."""
    return [f"--junitxml={report}", "-o", "junit_family=xunit1"]  # xunit2, the default, has no properties of tests


def cases(report: Path, files: Sequence[Path] = FILES) -> list[Case]:
    """These files' tests in a report of pytest's, which may have others. A file that cannot be read is a case."""
    found, stems = [], [file.stem for file in files]
    for each in ElementTree.parse(report).iter("testcase"):
        module = each.get("classname", "") or each.get("name", "")  # of a file that cannot be read
        if module.split(".")[-1] not in stems:
            continue
        others = [child.tag for child in each if child.tag in ("failure", "error", "skipped")]
        told = [one.get("value", "") for one in each.iter("property") if one.get("name") == TOLD]
        took_s = float(each.get("time", "0"))
        found.append(Case(each.get("name", ""), others[0] if others else "passed", took_s, told))
    return found


def section(cases: Sequence[Case]) -> list[str]:
    """The lines of the page."""
    passed = sum(case.ended == "passed" for case in cases)
    minutes = sum(case.took_s for case in cases) / 60
    lines = [
        "",
        "## On a whole cluster",
        "",
        HOW,
        "",
        f"{passed} of {len(cases)} passed, in {minutes:.0f} minutes.",
        "",
    ]
    lines += ["| test | ended | seconds | what it told |", "| --- | --- | ---: | --- |"]
    return lines + [
        f"| {case.name} | {case.ended} | {case.took_s:.0f} | {'; '.join(map(one_line, case.told)).replace('|', ',')} |"
        for case in cases
    ]
