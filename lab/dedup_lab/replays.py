"""`dedup replay`: a recorded run is done again, with each fault at the message at which it began then.

It is `dedup run` of an experiment that is made from the run's manifest, and then both runs side by side.
"""

from pathlib import Path
from typing import Final, NamedTuple

import yaml
from rich.console import Console

from dedup.errors import EvidenceError, SpecificationError
from dedup.experiment import replays
from dedup.experiment.replays import Again
from dedup.experiment.spec import Experiment
from dedup.history.attempts import RUNS, attempts_of
from dedup.history.histories import read_manifest
from dedup.judgement.replays import Replayed, side, strikes
from dedup.judgement.summaries import RunRow
from dedup.process import machines
from dedup.wire.manifests import Manifest
from dedup_lab import experiments, logins, results
from dedup_lab.exploring.folders import SCHEDULE
from dedup_lab.logins import Secrets
from dedup_lab.results import EXPERIMENT, Results
from dedup_lab.terminal.replays import show, show_never

RULE: Final = "a replay repeats a run that dedup run has recorded: RESULTS RUN, or RESULTS/runs/RUN"


class Recorded(NamedTuple):
    """A run as it is kept: in which results, the folder of its history, and what that says."""

    root: Path
    folder: Path
    manifest: Manifest
    experiment: Experiment


def replay(
    place: Path,
    run_id: str | None,
    *,
    write: Path | None,
    out: Path | None,
    as_json: bool,
    console: Console,
    secrets: Secrets = logins.NONE,
) -> int:
    """Repeat a run and print both; the exit code of the replay's verdict. With `write` only the experiment is made."""
    found = recorded(place, run_id)
    made = replays.again(found.experiment, found.manifest)
    show_never(made.never, console)
    given = [f"{name}={folder}" for name, folder in secrets.items()]
    if write is not None:
        with machines.at(f"--write {write}"):
            if write.exists():
                raise _taken(write)
            results.write(write, text_of(made, found))
        console.print(f"to strike the same again: {experiments.command_of(write, given)}", soft_wrap=True, markup=False)
        return 0
    root = out or results.default_root(made.experiment)
    command = experiments.command_of(root / EXPERIMENT, given)
    code = experiments.run(made.experiment, out=root, resume=False, console=console, command=command, secrets=secrets)
    seen = compared(found, made, Results(root))
    if as_json:
        print(seen.model_dump_json())
    else:
        show(seen, console)
    return code


def recorded(place: Path, run_id: str | None) -> Recorded:
    """The run at a path: in a results folder the one that is named, else its own folder or one of its attempts.

    Of several attempts the last counts. EvidenceError, in one line, if there is no such run with a history.
    """
    named = place.resolve() / RUNS / run_id if run_id is not None else place.resolve()
    attempt = named if run_id is None and named.parent.parent.name == RUNS else None
    folder = named if attempt is None else named.parent
    if folder.parent.name != RUNS:
        raise _no_run(place)
    if attempt is None:
        finished = [each.folder for each in attempts_of(folder.parents[1], folder.name) if each.finished]
        if not finished:
            raise _no_run(place if run_id is None else folder.parents[1], folder.name)
        attempt = Path(str(finished[-1]))
    manifest = read_manifest(attempt)
    root = folder.parents[1]
    experiment = results.experiment_of(root, manifest.spec_digest, "replay", f"run {manifest.run_id}")
    return Recorded(root, attempt, manifest, experiment)


def text_of(made: Again, found: Recorded) -> str:
    """The experiment as a file to edit and to run."""
    told = f"# What was done in run {found.manifest.run_id} of {found.manifest.experiment}: each fault by its message."
    never = f"\n# Left out, since they never began: {', '.join(made.never)}." if made.never else ""
    document = made.experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    return f"{told}{never}\n{yaml.safe_dump(document, sort_keys=False, width=120)}"


def compared(found: Recorded, made: Again, now: Results) -> Replayed:
    """Both runs side by side."""
    attempt = now.finished_attempt(made.run)
    manifest = read_manifest(attempt) if attempt is not None else None
    return Replayed(
        run_id=found.manifest.run_id,
        then=side(str(found.folder), found.manifest, _rows(Results(found.root))),
        now=side(str(attempt or now.root), manifest, _rows(now)),
        faults=strikes(found.manifest, manifest),
        never=made.never,
    )


def _rows(of: Results) -> tuple[RunRow, ...]:
    """What the summary says of each run; nothing where the experiment is unfinished, or another dedup's."""
    try:
        return of.read_summary().runs
    except EvidenceError:
        return ()


def _taken(file: Path) -> SpecificationError:
    rule = "the experiment goes to a new file, so that none that is kept beside a result is replaced"
    return SpecificationError(where=f"--write {file}", got="a file that exists", rule=rule, todo="give another name")


def _no_run(place: Path, run_id: str | None = None) -> EvidenceError:
    if (place / SCHEDULE).is_file():
        got, todo = "a witness of dedup explore", f"dedup explore URL --replay {place}"
    else:
        got = "no run" if run_id is None else f"no run {run_id} with a history"
        known = sorted({path.parents[1].name for path in place.glob(f"{RUNS}/*/attempt-*/manifest.json")})
        todo = f"name one of its runs: {', '.join(known)}" if known else "give the folder that dedup run wrote"
    return EvidenceError(where=str(place), got=got, rule=RULE, todo=todo)
