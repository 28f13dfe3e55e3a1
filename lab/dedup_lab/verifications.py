"""`dedup verify`: judge recorded histories again, each on its own, with no broker in sight."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from dedup.errors import EvidenceError
from dedup.experiments import Expectation
from dedup.histories import MANIFEST, TABLES
from dedup.summaries import RunRow, run_row
from dedup.verdicts import judge_alone, worst
from dedup_lab import java
from dedup_lab.children import Children
from dedup_lab.judging import judge
from dedup_lab.reports import coloured, show_reasons, show_runs

TIMEOUT_S = 3600.0


def verify(paths: Sequence[Path], *, expect: Expectation, as_json: bool, console: Console) -> int:
    """Judge every run folder at or below the paths; prints and returns the exit code of the worst verdict."""
    java.find()
    folders = [folder for path in paths for folder in run_folders(path)]
    children = Children()
    try:
        with tempfile.TemporaryDirectory(prefix="dedup-verify-") as work, console.status("verifying"):
            evidence = judge(folders, children, Path(work), TIMEOUT_S, lambda text: None)
    finally:
        children.close()
    rows = [run_row(judge_alone(each, expect), each) for each in evidence]
    overall = worst(row.verdict for row in rows)
    if as_json:
        print(json.dumps({"verdict": overall, "runs": [_entry(*pair) for pair in zip(folders, rows, strict=True)]}))
    else:
        show_runs(rows, console)
        console.print(f"verdict: {coloured(overall)}")
        if len(rows) == 1:
            show_reasons(rows[0].reasons, console)
    return overall.exit_code


def run_folders(path: Path) -> list[Path]:
    """The run folders at or below a path, finished or not; EvidenceError if there is none."""
    looks_like_one = [MANIFEST, *TABLES]
    if any((path / name).exists() for name in looks_like_one):
        return [path]
    found = sorted({each.parent for name in looks_like_one for each in path.rglob(name)})
    if not found:
        raise EvidenceError(
            where=str(path),
            got="no run folder" if path.exists() else "no such path",
            rule="a run folder holds manifest.json, sent/, outcomes/ and received/",
            todo="give the path of one, or of a folder that holds some",
        )
    return found


def _entry(folder: Path, row: RunRow) -> dict[str, object]:
    return {
        "path": str(folder),
        "verdict": row.verdict,
        "reasons": [reason.text for reason in row.reasons],
        "counts": row.counts.model_dump() if row.counts else {},
    }
