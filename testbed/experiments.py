"""Experiments of a table that takes hours: each is run to its end, by calls that go on where the last one stopped."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from dedup.errors import EvidenceError, PlatformError
from dedup.experiment.spec import Experiment, parse
from dedup.history.reports import SUMMARY
from dedup.judgement.summaries import Summary
from dedup.judgement.verdicts import Verdict


def summed(name: str, document: Mapping[str, Any], out: Path) -> Summary:
    """Run an experiment into the folder `out`, or go on with it, and read its summary.

    PlatformError if it does not come to its end. EvidenceError if what lies there is of another experiment.
    """
    file = out.with_suffix(".json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))
    command = [sys.executable, "-m", "dedup_lab.cli", "run", str(file), "--out", str(out)]
    code = subprocess.run([*command, *(["--resume"] if out.exists() else [])], check=False).returncode
    if not (out / SUMMARY).is_file():
        raise PlatformError(
            where=name,
            got=f"exit code {code} and no {SUMMARY}",
            rule="it is kept when it came to its end",
            todo="read what was said above, then make it again: it goes on",
        )
    summary = Summary.model_validate_json((out / SUMMARY).read_bytes())
    if not is_of(summary.spec_digest, parse(document, source=name)):
        raise EvidenceError(
            where=name,
            got=f"the summary of another experiment in {out}",
            rule="its runs are of the experiment as it is today",
            todo="remove that folder, and make it again",
        )
    return summary


def is_of(digest: str, experiment: Experiment) -> bool:
    """Whether runs of that digest are of this experiment, and not of an older text of it."""
    return digest == experiment.digest()


def check_is_of(digest: str, experiment: Experiment) -> None:
    """ValueError if what is kept is of another experiment."""
    if not is_of(digest, experiment):
        raise ValueError("it is of another experiment than today's")


def refused(path: Path, what: str, why: Exception) -> EvidenceError:
    """The error for a file that is kept, and is no batch or trial (`what`) of today's experiment."""
    return EvidenceError(
        where=str(path),
        got=str(why)[:200],
        rule=f"it is a {what} that was kept, of the experiment as it is today",
        todo="restore it from Git, or remove it and make it again",
    )


def complete(name: str, summary: Summary) -> Summary:
    """The summary; EvidenceError if a run of it has no result, or an error for one: of that run nothing is known."""
    if lacking := [run.run_id for run in summary.runs if run.counts is None or run.verdict is Verdict.ERROR]:
        raise EvidenceError(
            where=name,
            got=f"nothing to rely on of {', '.join(lacking)}",
            rule="it is kept when each of its runs has a result",
            todo="read why in its summary, then remove its results and make it again",
        )
    return summary


def load() -> float:
    """The machine's load over the last 15 minutes, a processor."""
    return round(psutil.getloadavg()[2] / (psutil.cpu_count() or 1), 1)
