"""The last step of an experiment: the report, which turns the evidence below its place into a verdict and files.

    runs/RUN/attempt-N/verification.json   the judges' answers on a history, beside it
    experiment.json                        what was run
    summary.json                           the verdict and its reasons, sums, and a row a run
    *_dedup_output.txt, *_order_output.txt for S0's readers

The report does not repeat a judge's work. A report that was interrupted is made again from the same evidence, with the
same result. It is the same on one machine and in a cluster, in folders and in stores. A run or a judgement that is
missing becomes an error, never a pass.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Final

from pydantic import ValidationError

from dedup.errors import EvidenceError
from dedup.experiment.plans import Run, plan
from dedup.experiment.spec import Experiment
from dedup.faults.records import vacuous
from dedup.history import histories
from dedup.history.attempts import Attempt, attempts_of, ending_of, failure_of_system
from dedup.history.histories import VERIFICATION, ends_of, read_manifest
from dedup.history.latencies import histogram_of
from dedup.history.positions import names_positions
from dedup.history.stores import Place, in_store, reached, write_whole
from dedup.judgement.anomalies import Verification
from dedup.judgement.conclusions import conclude
from dedup.judgement.endings import Kind
from dedup.judgement.exports import export
from dedup.judgement.paces import pace_of
from dedup.judgement.summaries import Summary, summarise
from dedup.judgement.verdicts import Evidence
from dedup.wire.manifests import Manifest

SUMMARY: Final = "summary.json"
EXPERIMENT: Final = "experiment.json"
AT_ONCE: Final = 16
"""So many runs are read at the same time, for a store answers slowly."""

Look = Callable[[Place, Manifest], Sequence[str]]
"""A function that lists the damages of a run folder."""


def open_folder(folder: Place, look: Look = histories.damages) -> Evidence:
    """The manifest of a run folder, if it has one, and its damages; nothing is judged yet."""
    try:
        manifest = read_manifest(folder)
    except EvidenceError as error:
        return Evidence(run_id=folder.parent.name, attempt=_number(folder), problem=str(error))
    return Evidence(
        run_id=manifest.run_id,
        attempt=manifest.attempt,
        manifest=manifest,
        damages=tuple(look(folder, manifest)),
        vacuous={fault.name: vacuous(fault) for fault in manifest.faults},
        pace=pace_of(manifest, ends_of(folder)),
        latencies=histogram_of(folder, manifest),
        placed=names_positions(folder, manifest),
    )


def keep(folder: Place, evidence: Evidence) -> None:
    """Write the judges' answers beside the history."""
    answers = evidence.model_dump(mode="json", include={"spark", "oracle", "problem"})
    if evidence.local is not None:
        answers["local"] = evidence.local.model_dump(mode="json")
    with reached(folder):
        write_whole(folder / VERIFICATION, json.dumps(answers, indent=1))


def recall(folder: Place, look: Look = histories.damages) -> Evidence:
    """The folder as it is now, with the answers that `keep` wrote.

    A file that cannot be read counts as no answer, and so does an answer on another attempt.
    """
    with reached(folder):
        evidence = open_folder(folder, look)
        try:
            answers = json.loads((folder / VERIFICATION).read_bytes())
            found = Evidence.model_validate({**evidence.model_dump(), **answers})
            said = {name: getattr(found, name) for name in ("spark", "oracle", "local")}
            strange = [name for name, each in said.items() if each is not None and not _is_of(folder, each)]
            return found.model_copy(update=dict.fromkeys(strange))
        except (FileNotFoundError, ValueError, TypeError, ValidationError, RecursionError):
            return evidence
        except OSError:
            if in_store(folder):  # the store's error proves nothing about the folder
                raise
            return evidence


def _is_of(folder: Place, said: Verification) -> bool:
    """Whether an answer is on this attempt, wherever its experiment lay then."""
    return PurePosixPath(said.path).parts[-2:] == (folder.parent.name, folder.name)


def gather(
    experiment: Experiment,
    root: Place,
    recalled: Callable[[Place], Evidence] = recall,
    failures: Mapping[str, str] | None = None,
) -> list[Evidence]:
    """The evidence of every planned run: each of its attempts, or why there is none.

    `recalled` returns the evidence of a finished attempt; many threads call it. `failures` gives the reason why a
    system, or a run by its id, has nothing, where nothing below `root` gives one. An attempt that was interrupted knows
    not by whom, so what is known of its run is added.
    """

    elsewhere = failures or {}

    def of_run(run: Run) -> list[Evidence]:
        attempts = attempts_of(root, run.run_id)
        found = [recalled(each.folder) if each.finished else _unfinished(run, each) for each in attempts]
        if any(each.finished for each in attempts) or any(each.problem for each in found):
            why = elsewhere.get(run.run_id)
            return found if why is None else [_with_reason(each, why) for each in found]
        why = failure_of_system(root, run.system) or elsewhere.get(run.run_id) or elsewhere.get(run.system)
        if why is None:
            return found
        last = found.pop() if found else Evidence(run_id=run.run_id)
        return [*found, last.model_copy(update={"problem": why})]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [each for found in pool.map(of_run, plan(experiment)) for each in found]


def _unfinished(run: Run, attempt: Attempt) -> Evidence:
    ending = ending_of(attempt)
    return Evidence(run_id=run.run_id, attempt=attempt.number, problem=ending.reason or None, ending=ending)


def _with_reason(evidence: Evidence, elsewhere: str) -> Evidence:
    """An attempt that recorded no reason, or was interrupted, gets the one that is known for its run."""
    ending = evidence.ending
    if ending is None or (ending.reason and ending.kind is not Kind.INTERRUPTED):
        return evidence
    reason = f"{ending.reason}; {elsewhere}" if ending.reason else elsewhere
    told = {"problem": reason} if evidence.problem else {}
    return evidence.model_copy(update={"ending": ending.model_copy(update={"reason": reason}), **told})


def write(experiment: Experiment, evidence: Sequence[Evidence], root: Place) -> Summary:
    """Conclude from the evidence; write the files for S0's readers and then the summary."""
    concluded = conclude(experiment, evidence)
    summary = summarise(experiment, concluded, evidence)
    with reached(root):
        if isinstance(root, Path):
            root.mkdir(parents=True, exist_ok=True)
        for name, text in export(experiment, concluded.runs, evidence).items():
            write_whole(root / name, text)
        write_whole(root / EXPERIMENT, document_of(experiment))
        write_whole(root / SUMMARY, summary.model_dump_json(indent=1))
    return summary


def document_of(experiment: Experiment) -> str:
    """What `experiment.json` holds: the experiment as it is run, with its defaults."""
    return json.dumps(experiment.model_dump(mode="json", by_alias=True, exclude_none=True), indent=1)


def _number(folder: Place) -> int:
    tail = folder.name.rpartition("-")[2]
    return int(tail) if tail.isdigit() else 1
