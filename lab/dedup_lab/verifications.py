"""`dedup verify`: judge recorded histories again, each on its own, without brokers."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console

from dedup.errors import EvidenceError, PlatformError, SpecificationError
from dedup.experiment.spec import Expectation
from dedup.history import histories
from dedup.history.pairs import COLUMNS
from dedup.history.reports import gather
from dedup.history.stores import Place, place, reached
from dedup.judgement.anomalies import Engine
from dedup.judgement.conclusions import conclude
from dedup.judgement.summaries import Summary, summarise, summarise_alone
from dedup.judgement.verdicts import JUDGES, Evidence, judge_alone
from dedup_lab import java
from dedup_lab.children import Children
from dedup_lab.judging import LOG, judge
from dedup_lab.results import EXPERIMENT, Results
from dedup_lab.terminal.findings import show_telling
from dedup_lab.terminal.reports import coloured, show_reasons, show_runs, show_summary

TIMEOUT_S = 3600.0


def verify(
    paths: Sequence[Place],
    *,
    expect: Expectation | None,
    alone: Engine | None,
    trust_csv: bool,
    as_json: bool,
    findings: str | None,
    console: Console,
) -> int:
    """Judge every history at or below the paths; prints and returns the exit code of the verdict.

    A results folder is judged by its own experiment, unless `expect` says otherwise; bare histories one by one. Two
    judges are asked: the oracle, and for small histories the local engine, else Spark. With one judge `alone` no other
    checks it, and the output says so. Only Spark needs Java. All findings go to the folder `findings`, if given.
    """
    if findings is not None and alone is Engine.ORACLE:
        raise SpecificationError(
            where="--findings",
            got="--engine oracle",
            rule="the oracle counts and makes no findings",
            todo="ask the local engine, or both judges",
        )
    tables = None if findings is None else place(findings)
    if alone is Engine.SPARK:
        java.find()
    only = paths[0] if len(paths) == 1 else None
    of_experiment = only if isinstance(only, Path) and (only / EXPERIMENT).is_file() else None
    if of_experiment is not None and trust_csv:
        raise SpecificationError(
            where="--trust-csv",
            got=f"{of_experiment}, the results of an experiment",
            rule="only a CSV pair without a manifest.json is taken at its word",
            todo="leave it out",
        )
    if expect is None and of_experiment is not None:
        return _verify_experiment(Results(of_experiment), alone, as_json, tables, console)
    folders = [folder for path in paths for folder in run_folders(path)]
    evidence = _judged(folders, alone, tables, console)
    wanted = expect or Expectation.EXACTLY_ONCE
    summary = summarise_alone([(judge_alone(each, wanted, trusted=trust_csv), each) for each in evidence])
    rows = list(summary.runs)
    if as_json:
        _print_json(summary, folders)
    else:
        show_runs(rows, console)
        console.print(f"verdict: {coloured(summary.verdict)}")
        if len(rows) == 1:
            show_reasons(rows[0].reasons, console)
            show_telling(rows[0], console)
    return summary.exit_code


def _verify_experiment(
    results: Results, alone: Engine | None, as_json: bool, findings: Place | None, console: Console
) -> int:
    experiment = results.experiment()
    gathered = gather(experiment, results.root)
    without_history = [each for each in gathered if each.manifest is None]
    folders = [results.attempt(each.run_id, each.attempt) for each in gathered if each.manifest is not None]
    evidence = [*_judged(folders, alone, findings, console), *without_history]
    summary = summarise(experiment, conclude(experiment, evidence), evidence)
    if as_json:
        paths = [results.attempt(row.run_id, row.attempt) for row in summary.runs]
        _print_json(summary, paths)
    else:
        show_summary(summary, console)
    return summary.exit_code


def _judged(folders: Sequence[Place], alone: Engine | None, findings: Place | None, console: Console) -> list[Evidence]:
    # The judges' programs end before their folder goes, also after Ctrl-C: what they still write would stay.
    with _work_folder() as (work, kept), closing(Children()) as children, console.status("verifying"):
        judged = judge(folders, children, work, TIMEOUT_S, lambda text: None, alone, findings, by_size=True)
        kept += [log for log in work.glob("*.log") if any(str(log) in (each.problem or "") for each in judged)]
    if alone is not None:
        console.print(f"{JUDGES[alone]} alone was asked: no other judge checked it", soft_wrap=True)
    else:
        for words in sorted({_judges(each) for each in judged if each.said is not None}):
            console.print(f"judged by {words}", soft_wrap=True)
    return judged


def _judges(evidence: Evidence) -> str:
    return JUDGES[evidence.judge] + (
        " and the oracle" if evidence.oracle else " alone: too many messages for the oracle"
    )


@contextmanager
def _work_folder() -> Iterator[tuple[Path, list[Path]]]:
    """A temporary folder, and which of its files stay: the logs that a reason or an error names, and nothing else."""
    folder, kept = Path(tempfile.mkdtemp(prefix="dedup-verify-")), list[Path]()
    try:
        yield folder, kept
    except PlatformError:
        kept += folder.glob(LOG)
        raise
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
        for path in folder.glob("*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path not in kept:
                path.unlink()


def run_folders(path: Place) -> list[Place]:
    """The run folders and CSV pairs at or below a path, whole or not; EvidenceError if there is none."""
    with reached(path):
        found = histories.run_folders(path, COLUMNS)
    if not found:
        raise EvidenceError(
            where=str(path),
            got="no history" if path.exists() else "no such path",
            rule="a run folder holds manifest.json, sent/, outcomes/ and received/; a pair sent.csv and received.csv",
            todo="give the path of one, or of a folder that holds some",
        )
    return found


def _print_json(summary: Summary, folders: Sequence[Place]) -> None:
    """The summary as summary.json has it, on one line; each run with the path of its history, whole or not."""
    rows = [row.model_copy(update={"path": str(path)}) for row, path in zip(summary.runs, folders, strict=True)]
    print(summary.model_copy(update={"runs": tuple(rows)}).model_dump_json())
