"""The report of an experiment whose runs are verified: the second opinion, the verdict, and the files.

    python -m dedup_spark.report --experiment FILE [--failures FILE] [--result NAME] ROOT

ROOT is the experiment's place (a path, or s3://bucket/prefix). Below it lie its runs, each with the verification.json
of the engine that the experiment asks for (`dedup_spark.job --keep`, or `dedup_spark.local_job --keep`): its answer,
which covers the checksums. The report asks the oracle, one history after the other, and keeps its answers; so an
interrupted report can continue. Then it concludes and writes the files (dedup/history/reports.py), and draws the page,
report.html, beside them; if that fails, one reason more says so, and the verdict stands. The last line printed is a
*bulletin*: one line of JSON for the operator, which has no access to the store. In a cluster it is also written into
the ConfigMap of --result, where the operator reads it (homes.py). FILE of --failures is {"SYSTEM or RUN": "why there is
nothing of it"}.

Exit code 0: there is a report, whatever the verdict. 4: there is none, and stderr has the reason; a retry is safe.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from dedup.errors import EXIT_ERROR, DedupError, SpecificationError, one_line
from dedup.experiment.spec import Experiment, load
from dedup.experiment.verifications import Method
from dedup.history import reports
from dedup.history.histories import omissions
from dedup.history.stores import Place, place
from dedup.judgement.abridgements import sealed
from dedup.judgement.anomalies import Engine
from dedup.judgement.counts import COUNTS, Counts
from dedup.judgement.summaries import GroupRow, Summary
from dedup.judgement.verdicts import Code, Evidence, Verdict
from dedup_report import beside
from dedup_spark import homes
from dedup_spark.opinions import second_opinion

COUNTED: Final = tuple(name for name, each in COUNTS.items() if each.status)
"""The counts in a bulletin: those of the resource's status."""
NO_EFFECT: Final = (Code.FAULT_MISSING, Code.FAULT_BROKEN, Code.FAULT_VACUOUS)
"""The reasons for which a planned fault is not known to have taken effect; a missing heal is none of them."""
ENGINES: Final = {Method.SPARK: Engine.SPARK, Method.LOCAL: Engine.LOCAL}
MOST_REASONS: Final = 8
LONGEST_REASON: Final = 512


def report(experiment: Experiment, root: Place, failures: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Make the report of an experiment in its place; returns the bulletin."""
    alone, engine = Lock(), ENGINES[experiment.spec.verification.engine]

    def judged(folder: Place) -> Evidence:
        evidence = reports.recall(folder, omissions).model_copy(update={"engine": engine})
        if evidence.said is None or evidence.oracle is not None or evidence.problem is not None or evidence.damages:
            return evidence
        with alone:  # the oracle holds a whole history
            evidence = evidence.model_copy(update=second_opinion(folder, evidence))
        if evidence.oracle is not None:
            reports.keep(folder, evidence)
        return evidence

    evidence = reports.gather(experiment, root, judged, failures)
    summary = reports.write(experiment, evidence, root)
    finished = {each.run_id for each in evidence if each.manifest is not None}
    latencies = any(system.network.latency_s for system in experiment.spec.systems)
    return bulletin(summary, finished, root, len(experiment.spec.all_faults) + latencies)


def bulletin(summary: Summary, finished: set[str], root: Place, planned_faults: int) -> dict[str, Any]:
    """The summary in a few kilobytes, with the names of the resource's status; `finished` are runs with a history.

    `systems` is the status's field of that name; `digest` is that of the summary at `uri`; `sealed` is the summary as
    another cluster compares it, unless it has too many runs.
    """
    uri, packed = root / reports.SUMMARY, sealed(summary)
    return {
        "experiment": summary.experiment,
        "specDigest": summary.spec_digest,
        "verdict": _judgement(summary.verdict),
        "exitCode": summary.exit_code,
        "reasons": [one_line(text)[:LONGEST_REASON] for text in _reasons(summary)],
        "systems": [
            {
                "name": name,
                "variants": [_variant(row, summary, finished) for row in summary.systems if row.system == name],
            }
            for name in dict.fromkeys(row.system for row in summary.systems)
        ],
        "faults": _faults(summary, planned_faults),
        "uri": str(uri),
        "digest": f"sha256:{hashlib.sha256(uri.read_bytes()).hexdigest()}",
        **({"sealed": packed.model_dump()} if packed else {}),
    }


def _reasons(summary: Summary) -> Iterator[str]:
    """The first reasons, and the repeated attempts: a pass must show them."""
    yield from (reason.text for reason in summary.reasons[:MOST_REASONS])
    if again := summary.repetitions:
        yield f"attempts that are not their runs' results: {len(again):,} (repetitions), such as {again[0]}"


def _faults(summary: Summary, planned: int) -> dict[str, Any]:
    """The number of summed runs in which every planned fault took effect, and the first case in which one did not."""
    counted = [run for run in summary.runs if not run.void]
    missed = [(run.run_id, reason) for run in counted for reason in run.reasons if reason.code in NO_EFFECT]
    words = "".join(f"{run_id}: {reason.text}" for run_id, reason in missed[:1])
    struck = len(counted) - len({run_id for run_id, _ in missed})
    return {"planned": planned, "runs": len(counted), "struck": struck, "missed": one_line(words)[:LONGEST_REASON]}


def _variant(row: GroupRow, summary: Summary, finished: set[str]) -> dict[str, Any]:
    own = [run.run_id for run in summary.runs if (run.system, run.variant) == (row.system, row.variant)]
    return {
        "name": row.variant,
        "runs": row.runs,
        "finishedRuns": len(finished.intersection(own)),
        "effectiveRuns": row.effective_runs,
        "runsWithCopies": row.runs_with_copies,
        "counts": _counts(row.sums),
        "verdict": _judgement(row.verdict),
    }


def _counts(sums: Counts) -> dict[str, int]:
    return {to_camel(name): getattr(sums, name) for name in COUNTED}


def _judgement(verdict: Verdict) -> str:
    """As Kubernetes writes such values."""
    return verdict.value.capitalize()


def read_failures(path: Path) -> dict[str, str]:
    """The reasons why systems or runs have nothing, by name; SpecificationError if the file holds something else."""
    try:
        return TypeAdapter(dict[str, str]).validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise SpecificationError(
            where=str(path),
            got=getattr(error, "strerror", None) or "something else",
            rule="failures are one JSON mapping, from names of systems or ids of runs to why there is nothing of them",
            todo="give such a file, or leave --failures out",
        ) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Exit code 0: the report is written, whatever its verdict; else 4."""
    parser = argparse.ArgumentParser(prog="python -m dedup_spark.report", description="Report on verified runs.")
    parser.add_argument("--experiment", required=True, type=Path, help="the experiment, YAML or JSON")
    parser.add_argument("--failures", type=Path, help="why there is nothing of systems or runs, a JSON mapping")
    parser.add_argument("--result", metavar="NAME", help="the ConfigMap that the bulletin is kept in, in a cluster")
    parser.add_argument("root", help="the experiment's place, a path or s3://bucket/prefix")
    asked = parser.parse_args(arguments)
    try:
        failures = read_failures(asked.failures) if asked.failures else None
        root = place(asked.root)
        result = report(load(asked.experiment), root, failures)
        if undrawn := beside.write(root):
            print(undrawn, file=sys.stderr)
            result["reasons"].append(undrawn[:LONGEST_REASON])
        if asked.result:
            homes.keep(asked.result, result)
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    except Exception as error:  # exit code 1 means "fail": no crash may ever say that
        print(one_line(f"{type(error).__name__}: {error}; there may be no report"), file=sys.stderr)
        return EXIT_ERROR
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
