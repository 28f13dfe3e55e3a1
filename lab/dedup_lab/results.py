"""The results folder: where one experiment keeps everything, and from which it can be resumed.

experiment.json   the experiment as it is run, after the command line's changes
state.json        where the stage machine stands
runs/RUN/attempt-N/   one history each (dedup.history.histories)
logs/SYSTEM/      the brokers' logs
summary.json, *_dedup_output.txt, *_order_output.txt   written by the last stage

A folder belongs to one experiment: another one is refused, and so is running a finished one again.
"""

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from dedup.errors import EvidenceError, SpecificationError
from dedup.experiment.plans import Run
from dedup.experiment.spec import Experiment, parse
from dedup.experiment.stages import State
from dedup.history.attempts import LOGS, Attempt, attempts_of, folder_of, note_ending
from dedup.history.reports import EXPERIMENT as EXPERIMENT
from dedup.history.reports import SUMMARY, document_of
from dedup.history.stores import Place, write_whole
from dedup.judgement.endings import Kind
from dedup.judgement.summaries import Summary
from dedup.refusals import location, short
from dedup.wire.files import Failure

STATE: Final = "state.json"
LOCK: Final = ".lock"


def write(path: Path, text: str) -> None:
    """Replace a file, whole or not at all; its folder is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)


class Results:
    """One experiment's folder on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()  # processes that get these paths have other working folders

    @property
    def summary(self) -> Path:
        return self.root / SUMMARY

    def read_summary(self) -> Summary:
        """What the last stage wrote; EvidenceError, in one line, if there is none that can be read."""
        try:
            return Summary.model_validate_json(self.summary.read_bytes())
        except OSError as error:
            got, rule = (
                error.strerror or type(error).__name__,
                "it is written after all runs of the experiment are judged",
            )
        except ValidationError as error:
            got, rule = _foreign(error)
        raise EvidenceError(
            where=str(self.summary),
            got=got,
            rule=rule,
            todo=f"finish the experiment (dedup run … --resume), or judge the finished runs: dedup verify {self.root}",
        )

    def logs(self, system: str) -> Path:
        return self.root / LOGS / system

    def attempt(self, run_id: str, number: int) -> Path:
        folder = folder_of(self.root, run_id, number)
        assert isinstance(folder, Path)
        return folder

    def experiment(self) -> Experiment:
        path = self.root / EXPERIMENT
        return _parsed(path, path.read_bytes())

    def state(self) -> State:
        return _state(self.root / STATE, (self.root / STATE).read_bytes())

    def save(self, state: State) -> None:
        write(self.root / STATE, state.model_dump_json(indent=1))

    def finished_attempt(self, run: Run) -> Path | None:
        """The run's attempt that has a manifest; of several the last, which has replaced the others."""
        return next(reversed(self.histories(run)), None)

    def histories(self, run: Run) -> list[Path]:
        """The run's attempts that have a manifest, oldest first; all but the last were replaced."""
        return [self.attempt(run.run_id, each.number) for each in self.attempts(run) if each.finished]

    def attempts(self, run: Run) -> list[Attempt]:
        """Every attempt that was begun, oldest first."""
        return attempts_of(self.root, run.run_id)

    def note_ending(self, run_id: str, number: int, stage: str, reason: str, kind: Kind) -> None:
        """Keep why an attempt has no history; the first reason stays."""
        note_ending(self.attempt(run_id, number), stage, reason, kind)

    def note_failure(self, system: str, stage: str, reason: str) -> None:
        """Keep why a system could not be provisioned or removed."""
        said = Failure(stage=stage, reason=reason)
        write(self.logs(system) / Failure.FILE, said.model_dump_json(indent=1, exclude_unset=True))


def _foreign(error: ValidationError) -> tuple[str, str]:
    """What a file holds that is no summary of this version: what came, and the rule that it breaks."""
    problems = error.errors(include_url=False)
    version = next((problem for problem in problems if problem["loc"] == ("schema_version",)), None)
    if version:
        return (
            f"schema version {short(version['input'])}",
            "this dedup reads version 1; the dedup that wrote it reads it",
        )
    first = problems[0]
    if first["type"] == "json_invalid":
        return "text that is not JSON", "a summary is one JSON document, so this one is damaged"
    what = location(first["loc"]) or "the document"
    lacks = "has no key" if first["type"] == "missing" else "does not fit at"
    return f"a document that {lacks} {what}", "it must have the format of this version of dedup"


def content_of(path: Place) -> bytes | None:
    """What a file holds; None if there is none."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def experiment_of(where: Place, digest: str, use: str, beside: str) -> Experiment:
    """The experiment that was run there, whose digest is known from what lies beside it.

    EvidenceError, in one line, if it is not there: `use` must know it.
    """
    path = where / EXPERIMENT
    found = content_of(path)
    if found is None:
        raise EvidenceError(
            where=str(path),
            got="no such file",
            rule=f"a {use} must know what was run, and an older dedup did not keep that in a store",
            todo="put the experiment there as JSON, with the systems, runs and messages of that execution",
        )
    experiment = _parsed(path, found)
    if experiment.digest() != digest:
        raise EvidenceError(
            where=str(path),
            got=f"an experiment with the digest {experiment.digest()[:12]}",
            rule=f"{beside} is of {digest[:12]}, another experiment",
            todo="put the experiment there that was run; or use the version of dedup that ran it",
        )
    return experiment


def _parsed(path: Place, found: bytes) -> Experiment:
    """What an experiment.json says; EvidenceError, in one line, if it is damaged."""
    try:
        return parse(json.loads(found), source=str(path))
    except (ValueError, RecursionError):
        raise EvidenceError(
            where=str(path),
            got="text that is not JSON",
            rule="experiment.json is one JSON document, so this one is damaged",
            todo="restore it from where it was copied",
        ) from None


def _state(path: Path, found: bytes) -> State:
    """What a state.json says; EvidenceError, in one line, if it is damaged."""
    try:
        return State.model_validate_json(found)
    except ValidationError:
        raise EvidenceError(
            where=str(path),
            got="a file that is damaged, or of another version of dedup",
            rule="it says which experiment the folder is of, and how far that is",
            todo=f"restore it, or name another folder; to judge the finished runs: dedup verify {path.parent}",
        ) from None


def is_local(name: str) -> bool:
    """Whether a name is that of a results folder here: it holds an experiment or a summary, or the name is a path."""
    held = (Path(name, file) for file in (SUMMARY, EXPERIMENT))
    return "/" in name or name in (".", "..") or any(path.is_file() for path in held)


def default_root(experiment: Experiment) -> Path:
    """`results/NAME-TIME` below the current folder, a new one for every start, in the same second too."""
    root = Path("results") / f"{experiment.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    others = (root.with_name(f"{root.name}-{number}") for number in count(2))
    return root if not root.exists() else next(each for each in others if not each.exists())


def latest_root(experiment: Experiment) -> Path | None:
    """The newest results folder below `results/` that holds this experiment.

    EvidenceError if there is none, and one that cannot be read, which may be it.
    """
    roots = sorted(Path("results").glob(f"{experiment.name}-*/{STATE}"), key=lambda path: path.stat().st_mtime)
    damaged: EvidenceError | None = None
    for path in reversed(roots):
        try:
            if _digest_in(path.parent) == experiment.digest():
                return path.parent
        except EvidenceError as error:
            damaged = damaged or error
    if damaged is not None:
        raise damaged
    return None


def create(root: Path, experiment: Experiment) -> Results:
    """A new results folder; SpecificationError if the folder is in use."""
    if (root / STATE).exists():
        same = _digest_in(root) == experiment.digest()
        raise SpecificationError(
            where=f"--out {root}",
            got="results of this experiment" if same else "results of another experiment",
            rule="a results folder holds one experiment and is never overwritten",
            todo="add --resume to finish it, or name another folder" if same else "name another folder",
        )
    check_own(root, "--out")
    root.mkdir(parents=True, exist_ok=True)
    try:
        (root / LOCK).open("x").close()  # of two that begin at the same moment one has it
    except FileExistsError:
        raise _in_use(root, "dedup run") from None
    results = Results(root)
    with made_for(root):
        write(root / EXPERIMENT, document_of(experiment))
        results.save(State(digest=experiment.digest()))
    return results


def check_own(root: Path, option: str) -> None:
    """SpecificationError if there is anything in the folder that an option names."""
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise SpecificationError(
            where=f"{option} {root}",
            got="a folder with other files in it" if root.is_dir() else "a file",
            rule="results need a folder of their own",
            todo="name an empty or a new folder",
        )


def resume(root: Path, experiment: Experiment) -> Results:
    """An existing results folder of this experiment; SpecificationError if it belongs to another one."""
    found = _digest_in(root)
    if found is None:
        raise SpecificationError(
            where=f"--resume --out {root}",
            got="no results folder",
            rule="there is nothing to resume",
            todo="leave --resume out, or name the folder of the interrupted run",
        )
    if found != experiment.digest():
        raise SpecificationError(
            where=f"--resume --out {root}",
            got="results of another experiment, or of this one with other --runs, --messages, --system or --seed",
            rule="only the very same experiment can be resumed",
            todo=f"give the file and options it was started with (see {root / EXPERIMENT}), or name another folder",
        )
    return Results(root)


def _digest_in(root: Path) -> str | None:
    """The experiment that a folder is of; None if it is no results folder."""
    found = content_of(root / STATE)
    return None if found is None else _state(root / STATE, found).digest


@contextmanager
def made_for(root: Path) -> Iterator[None]:
    """A folder that was made for one command; it goes if nothing is left in it, so that the command can be repeated."""
    try:
        yield
    finally:
        if root.is_dir() and {each.name for each in root.iterdir()} <= {LOCK}:
            (root / LOCK).unlink(missing_ok=True)
            root.rmdir()


@contextmanager
def alone(root: Path, command: str) -> Iterator[None]:
    """Hold a results folder; while it is held the same command is refused there."""
    with (root / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _in_use(root, command) from None
        yield


def _in_use(root: Path, command: str) -> SpecificationError:
    return SpecificationError(
        where=f"--out {root}",
        got=f"a folder that another {command} is using",
        rule="only one process at a time may write results",
        todo="wait for it to end, or name another folder",
    )
