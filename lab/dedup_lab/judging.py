"""Two judges for every history: the Spark job for all of them at once, and the naive oracle beside it.

They share no code, so an error in one shows as a disagreement (and makes the verdict *error*). The oracle reads one
message at a time and is left out above a million messages a run. The local engine is Spark's method in this process:
for small histories it may replace Spark, whose start alone takes most of a minute. Each can be asked alone.
Their reports are kept next to the history (dedup/history/reports.py), so that a report can be made again without
judging again.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from dedup.errors import EnvironmentError_, EvidenceError, PlatformError
from dedup.history.histories import MANIFEST
from dedup.history.pairs import holds_pair, unpack
from dedup.history.reports import open_folder
from dedup.history.stores import Place, fetched, reached
from dedup.judgement.anomalies import Engine, Verification
from dedup.judgement.verdicts import ORACLE_LIMIT, Evidence
from dedup_lab import java, oracles
from dedup_lab.children import Child, Children, python
from dedup_spark import local
from dedup_spark.evidence import Report
from dedup_spark.opinions import Answers

OUTPUT: Final = "spark.json"
LOCAL_ROWS: Final = 20_000_000
"""Up to so many rows sent and read in all, the local engine may replace Spark: it keeps its data in memory."""
LOG: Final = "spark.log"

Note = Callable[[str], None]


def judge(
    folders: Sequence[Place],
    children: Children,
    work: Path,
    timeout_s: float,
    note: Note,
    alone: Engine | None = None,
    findings: Place | None = None,
    *,
    by_size: bool = False,
    locally: bool = False,
) -> list[Evidence]:
    """The evidence of each history, in their order: by both judges, or by one `alone`.

    `by_size`: the local engine replaces Spark if all histories are small. `locally`: it does whatever their size.
    The judges' own files, and the tables of CSV pairs, go to the folder `work`; every finding to
    the folder `findings`, if given (the oracle alone makes none).
    """
    opened = []
    for number, folder in enumerate(folders):
        with reached(folder):
            opened.append(_open(folder, work / f"pair-{number}", alone))
    sound = [
        (tables, evidence) for tables, evidence in opened if evidence.manifest is not None and not evidence.damages
    ]
    replaced = locally or (by_size and small([each for _, each in sound]))
    asks_local = alone is Engine.LOCAL or (alone is None and replaced)
    asks_spark = bool(sound) and alone in (None, Engine.SPARK) and not asks_local
    if asks_spark and by_size:
        java.find()
    spark = _start_spark([tables for tables, _ in sound], children, work, findings) if asks_spark else None
    by_oracle: dict[Place, Answers] = {}
    for tables, said in _ask_oracle(sound if alone in (None, Engine.ORACLE) else [], children, work, timeout_s, spark):
        by_oracle[tables] = said
        note(f"the oracle judged {len(by_oracle)} of {len(sound)} runs")
    report = Report(engine=Engine.SPARK)
    if spark is not None:
        spark.succeed(timeout_s)
        report = _read(work / OUTPUT)
        note(f"Spark judged {len(report.runs)} of {len(sound)} runs")
    elif asks_local:
        report = local.verify([tables for tables, _ in sound], findings=findings)
    engine = None if alone is not None else Engine(report.engine)  # the one asked, though it may say nothing
    judged: dict[str, Answers] = {run.path: {report.engine: run} for run in report.runs}
    problems = {problem.path: problem.error for problem in report.problems}
    return [
        _with(
            folder, evidence, judged.get(str(tables), {}) | by_oracle.get(tables, {}), problems.get(str(tables))
        ).model_copy(update={"engine": engine})
        for folder, (tables, evidence) in zip(folders, opened, strict=True)
    ]


def small(histories: Sequence[Evidence]) -> bool:
    """Whether the oracle judges each of these histories, and the local engine has memory for them."""
    manifests = [each.manifest for each in histories if each.manifest is not None]
    rows = sum(manifest.rows("sent") + manifest.rows("received") for manifest in manifests)
    return rows <= LOCAL_ROWS and all(manifest.messages <= ORACLE_LIMIT for manifest in manifests)


def _ask_oracle(
    sound: Sequence[oracles.Opened], children: Children, work: Path, timeout_s: float, spark: Child | None
) -> Iterator[tuple[Place, Answers]]:
    """The oracle's answers. While Spark works on every processor the oracle takes one history after the other."""
    if spark is None and (most := oracles.at_once(sound)) > 1:
        return oracles.side_by_side(sound, children, work, timeout_s, most)
    return oracles.one_by_one(sound, spark.check_cancelled if spark is not None else lambda: None)


def _start_spark(folders: Sequence[Place], children: Children, work: Path, findings: Place | None) -> Child:
    if find_spec("pyspark") is None:
        raise EnvironmentError_(
            where="Spark",
            got="no Python package pyspark",
            rule="the extra verify is without Spark",
            todo="pip install 'dedup[lab]', or ask another judge: dedup verify --engine local",
        )
    scratch, output = work / "scratch", work / OUTPUT
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    output.unlink(missing_ok=True)
    tables = () if findings is None else ("--findings", str(findings.absolute()))
    command = python("dedup_spark.job", "--output", str(output), *tables, *map(str, folders))
    return children.start("Spark verification", command, work / LOG, TMPDIR=str(scratch), **java.environment())


def _open(folder: Place, scratch: Path, alone: Engine | None) -> tuple[Place, Evidence]:
    """The place of a history's tables, and its evidence; the tables of a CSV pair are made in `scratch`."""
    if not holds_pair(folder):
        return folder, open_folder(folder).model_copy(update={"alone": alone})
    here: Place = folder
    try:
        with fetched(folder) as here:
            unpack(here, scratch)
    except EvidenceError as error:
        said = str(error).replace(str(here), str(folder))
        return folder, Evidence(run_id=folder.resolve().name, problem=said, alone=alone)
    except OSError as error:
        raise EnvironmentError_(
            where=str(folder),
            got=str(error),
            rule="a CSV pair is judged from tables made of it, in a temporary folder",
            todo="free space there, or set TMPDIR to a folder on another disk",
        ) from None
    bare = not (folder / MANIFEST).exists()
    return scratch, open_folder(scratch).model_copy(update={"alone": alone, "bare": bare})


def _with(
    folder: Place,
    evidence: Evidence,
    said: Answers,
    problem: str | None,
) -> Evidence:
    if evidence.manifest is None:
        return evidence
    here = {
        name: each.model_copy(update={"path": str(folder)})
        for name, each in said.items()
        if isinstance(each, Verification)
    }
    return evidence.model_copy(update={**said, **here} | ({"problem": problem} if problem else {}))


def _read(output: Path) -> Report:
    try:
        return Report.model_validate_json(output.read_bytes())
    except (OSError, ValidationError) as error:
        raise PlatformError(
            where="Spark verification",
            got=str(error).splitlines()[0],
            rule="it must write its report",
            todo=f"read {output.with_name(LOG)}",
        ) from None
