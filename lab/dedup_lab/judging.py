"""Two judges for every history: the Spark job for all of them at once, and the naive oracle beside it.

They share no code, so an error in one shows as a disagreement (and makes the verdict *error*). The oracle reads one
message at a time and is left out above a million messages a run. What they said is kept next to the history, so that a
report can be made again without judging again.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from dedup.anomalies import Verification
from dedup.errors import EvidenceError, PlatformError
from dedup.faults import vacuous
from dedup.histories import damages, read_manifest
from dedup.manifests import Manifest
from dedup.verdicts import ORACLE_LIMIT, Evidence
from dedup_lab.children import Children, python
from dedup_lab.results import write_atomically
from dedup_spark import oracle
from dedup_spark.evidence import Report

VERIFICATION: Final = "verification.json"

Note = Callable[[str], None]


def judge(folders: Sequence[Path], children: Children, work: Path, timeout_s: float, note: Note) -> list[Evidence]:
    """What can be said of each run folder, in their order. The judges' own files go to the folder `work`."""
    opened = [open_folder(folder) for folder in folders]
    sound = [
        (folder, evidence)
        for folder, evidence in zip(folders, opened, strict=True)
        if evidence.manifest is not None and not evidence.damages
    ]
    if not sound:
        return opened
    scratch, output = work / "scratch", work / "spark.json"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    output.unlink(missing_ok=True)
    arguments = ["--output", str(output), *(str(folder) for folder, _ in sound)]
    command = python("dedup_spark.job", *arguments)
    spark = children.start("Spark verification", command, work / "spark.log", TMPDIR=str(scratch))
    by_oracle = {}
    for number, (folder, evidence) in enumerate(sound, 1):
        spark.check_cancelled()
        by_oracle[folder] = _ask_oracle(folder, evidence)
        note(f"the oracle judged {number} of {len(sound)} runs")
    spark.succeed(timeout_s)
    report = _read(output)
    note(f"Spark judged {len(report.runs)} of {len(sound)} runs")
    by_spark = {run.path: run for run in report.runs}
    problems = {problem.path: problem.error for problem in report.problems}
    return [
        _with(evidence, by_spark.get(str(folder)), by_oracle.get(folder, {}), problems.get(str(folder)))
        for folder, evidence in zip(folders, opened, strict=True)
    ]


def open_folder(folder: Path) -> Evidence:
    """The manifest of a run folder and its damages, if it has one; nothing judged yet."""
    try:
        manifest = read_manifest(folder)
    except EvidenceError as error:
        return Evidence(run_id=folder.parent.name, attempt=_number(folder), problem=str(error))
    return Evidence(
        run_id=manifest.run_id,
        attempt=manifest.attempt,
        manifest=manifest,
        damages=tuple(damages(folder, manifest)),
        vacuous={fault.name: vacuous(fault) for fault in manifest.faults},
    )


def keep(folder: Path, evidence: Evidence) -> None:
    """Write what the judges said beside the history."""
    said = evidence.model_dump(mode="json", include={"spark", "oracle", "problem"})
    write_atomically(folder / VERIFICATION, json.dumps(said, indent=1))


def recall(folder: Path) -> Evidence:
    """What `keep` wrote, on top of the folder as it is now."""
    evidence = open_folder(folder)
    try:
        said = json.loads((folder / VERIFICATION).read_bytes())
        return Evidence.model_validate({**evidence.model_dump(), **said})
    except (OSError, ValueError, ValidationError):
        return evidence


def _ask_oracle(folder: Path, evidence: Evidence) -> Mapping[str, Verification | str]:
    manifest = evidence.manifest
    if not isinstance(manifest, Manifest) or manifest.messages > ORACLE_LIMIT:
        return {}
    try:
        return {"oracle": oracle.judge(folder)}
    except Exception as error:  # one history that the oracle cannot read must not cost the others their verdict
        return {"problem": f"the oracle crashed: {type(error).__name__}: {error}"}


def _with(
    evidence: Evidence,
    spark: Verification | None,
    by_oracle: Mapping[str, Verification | str],
    problem: str | None,
) -> Evidence:
    changes = {"spark": spark, **by_oracle} | ({"problem": problem} if problem else {})
    return evidence.model_copy(update=changes) if evidence.manifest is not None else evidence


def _read(output: Path) -> Report:
    try:
        return Report.model_validate_json(output.read_bytes())
    except (OSError, ValidationError) as error:
        raise PlatformError(
            where="Spark verification",
            got=str(error).splitlines()[0],
            rule="it must leave its report",
            todo=f"read {output.with_name('spark.log')}",
        ) from None


def _number(folder: Path) -> int:
    tail = folder.name.rpartition("-")[2]
    return int(tail) if tail.isdigit() else 1
