"""How long does the report of many runs take, and how large is it?

    python bench/report [--runs N] [--messages N]

It makes a results folder of generated histories (once; it stays in the user's cache), draws it in a process of its own,
and loads the page in Debian's Chromium. It exits with 1 if drawing or loading takes longer than it may, the page is too
large, or the browser's console is not silent; with 2 if there is no browser. What came out: docs/report.md.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "verify"))
sys.path.insert(0, str(Path(__file__).parents[2]))  # the browser is the testbed's
import histories
from testbed.browser import chromium

from dedup.errors import EnvironmentError_
from dedup.experiment.plans import Run, deduplicates, plan
from dedup.experiment.spec import Experiment, parse
from dedup.history import latencies, reports
from dedup.history.histories import CLOCK, LATENCY, MANIFEST, parquet_writer, sha256_of
from dedup.judgement.verdicts import Evidence
from dedup.wire.manifests import Deduplication, FaultRecord, Manifest, Segment
from dedup_lab import caches, results
from dedup_report import PAGE
from dedup_spark import local

RUNS: Final = 200
MESSAGES: Final = 1_000_000
MOST_SECONDS: Final = 60.0
MOST_BYTES: Final = 15_000_000
MOST_LOAD_S: Final = 3.0
LOADS: Final = 5
"""The best of at most so many counts, since other work may be in the way of one."""
WIDTH_PX: Final = 1280
EDITION: Final = 3
VARIANTS: Final = 4
PORTION: Final = 20
SECOND: Final = 1_000_000_000
CUT: Final = FaultRecord(
    name="cut",
    kind="killTCP",
    requested_message=1_000,
    triggered_message=1_000,
    effect_message=1_000,
    unacknowledged=1_000,
    in_flight=1_000,
    remaining=1_000,
    injected_ns=4 * SECOND,
    healed_ns=12 * SECOND,
    target="broker 1",
    injector={"duration_s": 8.0},
    target_witness={"touched": ["1"], "leader": "1", "connections_gone": {"1": 1}},
    client_witness={"disconnect": 3},
    heal_proven=True,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--messages", type=lambda text: int(float(text)), default=MESSAGES)
    asked = parser.parse_args()
    folder = made(asked.runs // VARIANTS, asked.messages)
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "dedup_lab.cli", "report", str(folder)], check=True)  # its verdict is pass
    seconds, size = time.monotonic() - began, (folder / PAGE).stat().st_size
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{asked.runs} runs of {asked.messages:,}: {seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} of a processor"
    )
    print(f"{size / 1e6:.2f} MB, {used.ru_maxrss >> 10} MiB at most")
    shown = browsed(folder / PAGE)
    return int(seconds > MOST_SECONDS or size > MOST_BYTES) or shown


def browsed(page: Path) -> int:
    """Load the page in Chromium, and print the seconds: 1 if they are too many or the console spoke, 2 without it."""
    loads, complaints = list[float](), list[str]()
    try:
        chromium.check_machine()
        with chromium.opened() as tab:
            while not loads or (min(loads) >= MOST_LOAD_S and len(loads) < LOADS):
                loads.append(tab.load(page, WIDTH_PX))
                complaints += tab.complaints()
    except EnvironmentError_ as error:
        print(f"not loaded in a browser: {error}")
        return 2
    print(f"loaded in {min(loads):.2f} s, the best of {len(loads)}; {len(complaints)} lines on the console")
    for each in complaints:
        print(each)
    return int(min(loads) >= MOST_LOAD_S or bool(complaints))


def made(runs: int, messages: int) -> Path:
    """The results folder, which is made if it is not there yet."""
    folder = caches.root() / "bench" / f"report-{runs}-{messages}-{EDITION}"
    if not (folder / reports.SUMMARY).exists():
        shutil.rmtree(folder, ignore_errors=True)
        experiment = _experiment(runs, messages)
        root = results.create(folder, experiment)
        evidence = []
        for first in range(0, len(every := plan(experiment)), PORTION):
            paths = [_history(root.attempt(run.run_id, 1), experiment, run) for run in every[first : first + PORTION]]
            evidence += _judged(paths)
            print(f"made {len(evidence)} of {len(every)} runs", flush=True)
        # The table of findings is one of all runs, so that all are judged at once a second time.
        local.verify([root.attempt(run.run_id, 1) for run in every], findings=folder / "verification" / "findings")
        reports.write(experiment, evidence, folder)
    return folder


def _experiment(runs: int, messages: int) -> Experiment:
    variants = [("control", "Disabled", "Duplicates"), ("dedup", "Enabled", "ExactlyOnce")]
    return parse(
        {
            "apiVersion": "dedup.dev/v1alpha1",
            "kind": "DedupExperiment",
            "metadata": {"name": "many-runs"},
            "spec": {
                "systems": [{"name": "kafka", "kafka": {}}, {"name": "pulsar", "pulsar": {}}],
                "workload": {"messages": messages},
                "variants": [{"name": n, "deduplication": d, "expect": e} for n, d, e in variants],
                "runs": runs,
                "faults": [{"name": "cut", "at": {"message": 1_000}, "killTCP": {"duration": "8s"}}],
            },
        },
        source="the benchmark",
    )


def _history(path: Path, experiment: Experiment, run: Run) -> Path:
    """A control stores a few windows again, a treatment none; a clock of 16 seconds that stands still in the middle."""
    messages = experiment.spec.workload.messages
    variant = next(each for each in experiment.spec.variants if each.name == run.variant)
    on = deduplicates(variant)
    one = np.array([1])
    straight = histories.Pieces(one, one * messages, one * 0)
    written = histories.write(path, messages, straight if on else histories.s0_like(messages, run.seed))
    segment = _clock(path, messages, run.seed)
    files = tuple(each for each in written.files if each.path != segment["path"])
    clock = next(each for each in written.files if each.path == segment["path"]).model_copy(update=segment)
    library = next(each for each in experiment.spec.systems if each.name == run.system).library
    told = Manifest.model_validate(
        {
            **written.model_dump(),
            "producer": {**written.producer.model_dump(), "library": library},
            "consumer": {**written.consumer.model_dump(), "library": library},
            "experiment": experiment.name,
            "spec_digest": experiment.digest(),
            "run_id": run.run_id,
            "system": run.system,
            "kind": run.system,
            "variant": run.variant,
            "run": run.number,
            "seed": run.seed,
            "deduplication": Deduplication(asked=on, in_force=on, proof="generated"),
            "faults": (CUT,),
            "files": (*files, clock, _latencies(path, messages, run.seed)),
            "stage_seconds": {"prepare": 1.0, "produce": 16.0, "heal": 1.0, "consume": 2.0},
        }
    )
    (path / MANIFEST).write_text(told.model_dump_json())
    return path


def _clock(path: Path, messages: int, seed: int) -> dict[str, object]:
    """A tick every 10 ms for sends, and for outcomes a little later; from 4 s to 9 s, where copies are, few come."""
    dice = np.random.default_rng(seed)
    at = np.sort(np.concatenate([dice.uniform(0, 4, 400), dice.uniform(4, 9, 12), dice.uniform(9, 16, 700)]))
    index = np.interp(at, [0, 4, 9, 16], [0, messages // 100, messages // 8, messages]).astype(np.int64)
    index[-1] = messages
    kinds = np.repeat([0, 1], len(at))
    times = (np.concatenate([at, at + 0.02]) * SECOND).astype(np.int64)
    columns = [kinds.astype(np.int8), np.concatenate([index, index]), times]
    name = "clock.parquet"
    with parquet_writer(path / name, CLOCK) as writer:
        writer.write_table(pa.Table.from_arrays([pa.array(each) for each in columns], schema=CLOCK))
    return {"path": name, "rows": len(kinds), "bytes": (path / name).stat().st_size, "sha256": sha256_of(path / name)}


def _latencies(path: Path, messages: int, seed: int) -> Segment:
    """Hundreds of buckets in each second of the clock; from 4 s to 9 s acknowledgements took seconds."""
    dice = np.random.default_rng(seed)
    rows = []
    for second in range(16):
        middle_ns = 2e9 if 4 <= second < 9 else 4e6
        took = (middle_ns * dice.lognormal(0, 1, messages // 16)).astype(np.int64)
        upper, counts = np.unique(took | (1 << np.log2(took).astype(np.int64) - 7) - 1, return_counts=True)
        rows.append(np.stack([upper * 0 + second, upper * 0, upper - (upper >> 7), upper, counts]))
    columns = zip(np.concatenate(rows, axis=1), LATENCY, strict=True)
    arrays = [pa.array(column, type=field.type) for column, field in columns]
    with parquet_writer(path / latencies.NAME, LATENCY) as writer:
        writer.write_table(pa.Table.from_arrays(arrays, schema=LATENCY))
    written = path / latencies.NAME
    return Segment(path=latencies.NAME, bytes=written.stat().st_size, sha256=sha256_of(written))


def _judged(paths: list[Path]) -> list[Evidence]:
    """By the local engine; the oracle, which takes minutes, is taken to agree."""
    found = []
    for path, said in zip(paths, local.verify(paths).runs, strict=True):
        answers = {"spark": said.model_copy(update={"engine": "spark"})}
        answers["oracle"] = said.model_copy(update={"engine": "oracle", "findings": None})
        found.append(reports.open_folder(path).model_copy(update=answers))
        reports.keep(path, found[-1])
    return found


if __name__ == "__main__":
    sys.exit(main())
