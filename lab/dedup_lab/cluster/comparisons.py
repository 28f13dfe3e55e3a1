"""`dedup results` of a DedupComparison: how far each cluster is, and in the end the table.

Its status has the outcome and its reasons. The table is in the ConfigMap that the status names, for programs and for
people; both are shown as `dedup compare` shows a comparison. Histories are in each cluster's own store.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dedup.errors import EXIT_ERROR, DedupError, EvidenceError, SpecificationError
from dedup.judgement.comparisons import Comparison
from dedup.judgement.verdicts import EXIT_CODES, Verdict
from dedup_lab.cluster.access import CONFIG_MAPS, Answered, Cluster, Object, comparison_of, experiment_of, refused
from dedup_lab.terminal import comparisons as terminal
from dedup_lab.terminal.consoles import plain

OUTCOMES: Final = {"NothingWorse": Verdict.PASS, "Worse": Verdict.FAIL, "Inconclusive": Verdict.INCONCLUSIVE}
"""The exit code of an outcome is that of a verdict, so that a pipeline asks both in one way."""
KEY: Final = "comparison.json"


def is_comparison(cluster: Cluster, name: str) -> bool:
    """Whether a comparison has that name, and no experiment has it."""
    try:
        experiment_of(cluster, name)
        return False
    except SpecificationError:
        pass
    try:
        comparison_of(cluster, name)
        return True
    except DedupError:  # none; or no right to see one, or no such kind: what is missing is the experiment
        return False


def results(
    cluster: Cluster,
    name: str,
    *,
    shown: str,
    output: Path | None,
    console: Console,
    follow: Callable[[Cluster, str], None] | None = None,
) -> int:
    """Print the outcome of the comparison and its table, as `shown` says: text, markdown or json.

    0: nothing is worse that it can show. 1: something is. 3: inconclusive, or no outcome yet; 4 if it is stalled.
    """
    if output is not None:
        raise SpecificationError(
            where=f"--output {output}",
            got=f"DedupComparison {cluster.namespace}/{name}",
            rule="histories stay in the store of each cluster that it compares",
            todo="fetch an experiment there: its name is in .status.clusters (dedup results EXPERIMENT --context …)",
        )
    if follow is not None:
        follow(cluster, name)
    made = comparison_of(cluster, name)
    found = result_of(made)
    comparison = _table(cluster, made)
    if shown == "json":
        table = comparison and comparison.model_dump(mode="json")
        print(json.dumps({**found, "comparison": table}, indent=1))
        return exit_code(found)
    if comparison is not None:
        (terminal.show_markdown if shown == "markdown" else terminal.show)(comparison, console)
    _show(found, console, as_table=shown != "markdown")
    return exit_code(found)


def result_of(made: Object) -> Object:
    """What the status says of the comparison as a whole, and of each cluster."""
    status = made.get("status") or {}
    said = {each["type"]: each for each in status.get("conditions") or ()}
    over = said.get("Finished", {}).get("status") == "True"
    stalled = said.get("Stalled", {}).get("status") == "True" and not over
    deciding = said.get("Finished" if over else "Stalled" if stalled else "Reconciling", {})
    return {
        "name": made["metadata"]["name"],
        "namespace": made["metadata"]["namespace"],
        "progress": status.get("progress"),
        "outcome": status.get("outcome"),
        "stalled": stalled,
        "reasons": [each for each in (deciding.get("message") or "").split("; ") if each],
        "clusters": status.get("clusters") or [],
    }


def exit_code(found: Object) -> int:
    """0 only if nothing is worse."""
    if found["outcome"] is None:
        return EXIT_ERROR if found["stalled"] else EXIT_CODES[Verdict.INCONCLUSIVE]
    return EXIT_CODES[OUTCOMES.get(found["outcome"], Verdict.ERROR)]


def _table(cluster: Cluster, made: Object) -> Comparison | None:
    """The comparison as the hub has kept it; None before it is made."""
    kept = ((made.get("status") or {}).get("table") or {}).get("configMap")
    if kept is None:
        return None
    where = f"ConfigMap {cluster.namespace}/{kept}"
    try:
        home = cluster.get(f"{CONFIG_MAPS.format(cluster.namespace)}/{kept}")
        return Comparison.model_validate_json((home.get("data") or {})[KEY])
    except Answered as answer:
        raise refused(answer, where, "configmaps") from None
    except (KeyError, TypeError, ValidationError):
        raise EvidenceError(
            where=where,
            got=f"no {KEY} that this dedup can read",
            rule="the operator writes it when all clusters have finished",
            todo="use the dedup of the operator's version; if people changed it, apply another comparison",
        ) from None


def _show(found: Object, console: Console, *, as_table: bool) -> None:
    if as_table and found["clusters"]:
        table = Table()
        for heading in ("cluster", "step", "experiment", "progress", "verdict"):
            table.add_column(heading)
        for each in found["clusters"]:
            keys = ("name", "step", "experiment", "progress", "verdict")
            table.add_row(*(plain(str(each.get(key) or "-")) for key in keys))
        console.print(table)
    where = found["progress"] or "the operator has not seen it yet"
    console.print(f"outcome: {_word(found)} ({escape(where)})", soft_wrap=True)
    for reason in found["reasons"]:
        console.print(f"  - {plain(reason)}", soft_wrap=True)


def _word(found: Object) -> Any:
    return escape(found["outcome"] or "none yet")
