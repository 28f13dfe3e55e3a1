"""`dedup results`: shows the result of an experiment in a cluster, and fetches its artifacts.

The resource's status has the verdict, its reasons and the sums. The store has the rest: the summary, the tables in S0's
format, Spark's reports, and the histories, which `dedup verify` can judge again. Artifacts are fetched from S3 with the
environment's keys. Only pods reach a volume; the error says how to copy from it.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic.alias_generators import to_camel
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dedup.errors import EXIT_ERROR, EnvironmentError_, one_line
from dedup.history.stores import Place, below, fetch, place, reached
from dedup.judgement import tables
from dedup.judgement.counts import COUNTS
from dedup.judgement.summaries import COLUMNS
from dedup.judgement.verdicts import EXIT_CODES, Verdict
from dedup_lab.cluster.access import Cluster, Object, experiment_of
from dedup_lab.results import check_own, write
from dedup_lab.terminal.consoles import plain
from dedup_lab.terminal.reports import coloured
from dedup_report import PAGE

ENDPOINT: Final = "AWS_ENDPOINT_URL"
EXTRA: Final = {each.heading: name for name, each in COUNTS.items() if each.heading and not each.s0}


def results(
    cluster: Cluster,
    name: str,
    *,
    as_json: bool,
    output: Path | None,
    histories: bool,
    console: Console,
    follow: Callable[[Cluster, str], None] | None = None,
    at: Callable[[str], Place] = place,
    page: Callable[[Callable[[Path], Path]], None] | None = None,
) -> int:
    """Print the result of the experiment; fetch its artifacts into `output`, which must be empty or new.

    The exit code is `exit_code`'s. `follow` waits for the end first, and shows how far it is. `at` gives the place that
    a URI names. `page` is given a function that copies the page from the store into a folder, and returns the file.
    """
    if output is not None:
        check_own(output, "--output")
    if follow is not None:
        follow(cluster, name)
    found = result_of(experiment_of(cluster, name))
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        show(found, console)
    if output is not None:
        fetched = fetch_into(output, at(uri_of(found)), histories=histories)
        if not as_json:
            console.print(f"files fetched into {escape(str(output))}: {fetched}", soft_wrap=True)
    if page is not None:
        page(lambda folder: fetch_page(folder, found, at))
    return exit_code(found)


def result_of(made: Object) -> Object:
    """The result of an experiment, from its status."""
    status = made.get("status") or {}
    said = {each["type"]: each for each in status.get("conditions") or ()}
    deciding = said.get("Finished", {})
    if deciding.get("status") != "True":
        deciding = said["Stalled"] if said.get("Stalled", {}).get("status") == "True" else said.get("Reconciling", {})
    return {
        "name": made["metadata"]["name"],
        "namespace": made["metadata"]["namespace"],
        "phase": status.get("phase"),
        "progress": status.get("progress"),
        "verdict": status.get("verdict"),
        "reasons": [each for each in (deciding.get("message") or "").split("; ") if each],
        "edited": said.get("SpecChanged", {}).get("status") == "True",
        "systems": status.get("systems") or [],
        "artifacts": status.get("artifacts"),
        "current": status.get("observedGeneration") == made["metadata"].get("generation"),
    }


def exit_code(found: Object) -> int:
    """The verdict's exit code; 0 only for a pass of what is asked for now.

    The status keeps the verdict of the last execution while the next one cannot begin, or the operator has not seen it.
    """
    if found["phase"] == "Stalled":
        return EXIT_ERROR
    if found["verdict"] is None or not found["current"]:
        return EXIT_CODES[Verdict.INCONCLUSIVE]
    return EXIT_CODES[Verdict(found["verdict"].lower())]


def show(found: Object, console: Console) -> None:
    """Print the sums, the verdict, its reasons, and where the artifacts are."""
    if found["systems"]:
        console.print(sums_table(found["systems"]))
    said = "none yet" if found["verdict"] is None else _judged(found["verdict"])
    where = " ".join(part for part in (found["phase"] or "the operator has not seen it yet", found["progress"]) if part)
    console.print(f"verdict: {said} ({escape(where)})", soft_wrap=True)
    for reason in found["reasons"]:
        console.print(f"  - {plain(reason)}", soft_wrap=True)
    stalled = found["phase"] == "Stalled"
    if found["verdict"] is not None and (stalled or not found["current"]):
        why = "it cannot go on" if stalled else "the operator has not seen the newest spec yet"
        console.print(f"that is the verdict on what was run before: {why}", soft_wrap=True)
    if found["edited"]:
        console.print("the spec was edited since; another spec.runToken runs it again", soft_wrap=True)
    if found["artifacts"]:
        console.print(f"artifacts: {escape(_where(found['artifacts']))}", soft_wrap=True)


def sums_table(systems: Sequence[Mapping[str, Any]]) -> Table:
    """A column for each variant of a system, a row for each count; a dash where a number is not known yet."""
    table = Table(title=tables.SUMS, title_justify="left")
    table.add_column("")
    groups = [(system["name"], variant) for system in systems for variant in system.get("variants") or ()]
    for system, variant in groups:
        table.add_column(f"{system}\n{variant['name']}", justify="right")
    variants = [variant for _, variant in groups]
    table.add_row("finished runs", *(f"{each['finishedRuns']} of {each['runs']}" for each in variants))
    table.add_row("effective runs", *(_number(each, "effectiveRuns") for each in variants))
    table.add_row(tables.WITH_DUPLICATES, *(_number(each, "runsWithCopies") for each in variants), end_section=True)
    for heading, count in {**COLUMNS, **EXTRA}.items():
        row = [_number(each.get("counts") or {}, to_camel(count)) for each in variants]
        if set(row) != {"-"}:
            table.add_row(heading, *row)
    table.add_section()
    table.add_row("verdict", *(_judged(each.get("verdict")) for each in variants))
    return table


def _judged(verdict: str | None) -> str:
    return "-" if verdict is None else coloured(Verdict(verdict.lower()))


def _number(holder: Mapping[str, Any], key: str) -> str:
    return f"{holder[key]:,}" if key in holder else "-"


def _where(artifacts: Mapping[str, str]) -> str:
    if "uri" in artifacts:
        at = f" at {artifacts['endpoint']}" if "endpoint" in artifacts else ""
        return one_line(f"{artifacts['uri']}{at}")
    return one_line(f"claim {artifacts.get('claimName')}, folder {artifacts.get('folder')}")


def fetch_into(output: Path, root: Place, *, histories: bool) -> int:
    """Copy the results, and the histories if asked, from the store into a folder; returns the number of files."""
    with reached(root):
        names = [each for each in below(root) if histories or "/" not in each]
        if not names:
            raise EnvironmentError_(
                where=str(root),
                got="nothing",
                rule="the summary is written when the experiment ends",
                todo="wait until it is Finished, or add --histories; or check AWS_ENDPOINT_URL and the keys",
            )
        output.mkdir(parents=True, exist_ok=True)
        fetch(root, names, output)
    return len(names)


def fetch_page(folder: Path, found: Object, at: Callable[[str], Place] = place) -> Path:
    """Copy the page of a result into a folder; EnvironmentError_ if it has none."""
    named = found["name"]
    page, copy = at(uri_of(found)) / PAGE, folder / f"{found['namespace']}-{named}.html"
    with reached(page):
        try:
            text = page.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise EnvironmentError_(
                where=str(page),
                got="no such page",
                rule="the report writes it beside summary.json, when the experiment ends; an older report did not",
                todo=f"draw it here: dedup results {named} --output FOLDER --histories --open",
            ) from None
    write(copy, text)
    return copy


def uri_of(found: Object) -> str:
    """Where the artifacts are in S3. Keys are sent only to the address in the environment, or to Amazon."""
    artifacts = found["artifacts"]
    if not artifacts:
        raise EnvironmentError_(
            where=f"DedupExperiment {found['namespace']}/{found['name']}",
            got="no artifacts in its status",
            rule="they are there once an execution has begun",
            todo="wait until its phase is no longer Pending",
        )
    if "uri" not in artifacts:
        raise EnvironmentError_(
            where=f"DedupExperiment {found['namespace']}/{found['name']}",
            got=f"artifacts on a volume ({_where(artifacts)})",
            rule="only pods of its namespace reach a volume",
            todo="mount the claim in a pod and copy the folder with `kubectl cp`, as docs/install.md shows",
        )
    if "endpoint" in artifacts and not os.environ.get(ENDPOINT):
        raise EnvironmentError_(
            where=ENDPOINT,
            got="nothing",
            rule=f"the store is not Amazon S3; pods reach it at {artifacts['endpoint']}",
            todo="set it to the address by which this machine reaches the store",
        )
    return str(artifacts["uri"])
