"""A results folder as `dedup run` leaves it, with small histories that both judges (the local engine for Spark) judged.

A story says which values each run read; everything else is clean: 1,000 messages, one cut from 1 s to 3.5 s, which
struck, and no acknowledgement for three seconds.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.builders import History, write_history, write_latencies
from tests.core.evidences import CUT, MESSAGES, experiment, manifest

from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment
from dedup.history import reports
from dedup.history.histories import MANIFEST
from dedup.judgement.verdicts import Evidence
from dedup.wire.manifests import Machine
from dedup_lab import results
from dedup_lab.results import Results
from dedup_spark import local
from dedup_spark.opinions import second_opinion

CLEAN: Final = list(range(1, MESSAGES + 1))
AGAIN: Final = [*range(1, 301), *range(201, 301), *range(301, MESSAGES + 1)]
"""A block of 100 is read a second time."""
LOST: Final = [value for value in CLEAN if value != 500]
STORY: Final = {"control": AGAIN, "dedup": CLEAN}
BROKEN: Final = {"control": AGAIN, "dedup": CLEAN, "kafka-dedup-002": LOST}
"""The treatment loses a message in one of its two runs."""

STRUCK: Final = CUT.model_copy(
    update={
        "in_flight": 80,
        "target_witness": {"touched": ["1"], "leader": "1", "connections_gone": {"1": 3}},
    }
)
MS: Final = 1_000_000
TICKS: Final = [
    *((0, index, 10 * MS * number) for number, index in enumerate(range(0, 200, 20))),
    *((0, index, 3_100 * MS + index * MS) for index in range(200, MESSAGES + 1, 100)),
    *((1, index, 20 * MS + 10 * MS * number) for number, index in enumerate(range(0, 121, 20))),
    *((1, index, 3_120 * MS + index * MS) for index in range(200, MESSAGES + 1, 100)),
]
"""Sends and outcomes; from 80 ms to 3.32 s none is acknowledged."""
LATENCIES: Final = {
    "control": [
        (0, 0, 9_990_000, 10_000_000, 120),
        (3, 0, 3_299_000_000, 3_300_000_000, 80),
        (4, 0, 1, 2_500_000, 800),
    ],
    "dedup": [(0, 0, 14_990_000, 15_000_000, 120), (3, 0, 3_199_000_000, 3_200_000_000, 10), (4, 0, 1, 2_000_000, 870)],
}
"""Rows of the optional file: in the second after the silence acknowledgements took three seconds."""


def finish(root: Path, story: Mapping[str, Sequence[int]] = STORY, **spec: Any) -> Results:
    """Write and judge each run as its id, or else its variant, tells; `spec` changes the experiment.

    Run 2 of the control is as an older dedup wrote it: without latencies.
    """
    made = experiment(**spec)
    folder = results.create(root, made)
    paths = [_write(folder, made, run, story.get(run.run_id, story.get(run.variant, CLEAN))) for run in plan(made)]
    said = {each.path: each for each in local.verify(paths, findings=root / "verification" / "findings").runs}
    evidence = [_judged(path, said[str(path)]) for path in paths]
    reports.write(made, evidence, root)
    return folder


def _write(folder: Results, made: Experiment, run: Any, read: Sequence[int]) -> Path:
    path = folder.attempt(run.run_id, 1)
    base = manifest(run, deduplication=run.variant == "dedup", spec_digest=made.digest())
    places = {value: place for place, value in reversed(list(enumerate(read)))}
    history = History(
        sent=[(0, value) for value in CLEAN],
        outcomes=[(0, value, 0, 0, 0, places.get(value, -1), 0) for value in CLEAN],
        received=[(place, 0, 0, place, 0, 0, value) for place, value in enumerate(read)],
        clock=TICKS,
        partitions=(0,),
    )
    names = ("experiment", "spec_digest", "run_id", "system", "kind", "variant", "run", "seed", "topic", "versions")
    kept = {name: getattr(base, name) for name in (*names, "deduplication", "stage_seconds", "messages")}
    machine = Machine(host="here", os="Linux", java="17")
    written = write_history(
        path, history, **kept, faults=(STRUCK,), machine=machine, recorded_at="2026-11-24T12:00:00Z"
    )
    settings = {"effective_config": base.producer.effective_config, "library_version": base.producer.library_version}
    told = written.model_copy(update={"producer": written.producer.model_copy(update=settings)})
    (path / MANIFEST).write_text(told.model_dump_json(indent=1))
    if run.run_id != "kafka-control-002":
        write_latencies(path, LATENCIES[run.variant])
    return path


def _judged(path: Path, said: Any) -> Evidence:
    evidence = reports.open_folder(path)
    spark = said.model_copy(update={"engine": "spark"})
    found = evidence.model_copy(update={**second_opinion(path, evidence), "spark": spark})
    reports.keep(path, found)
    return found
