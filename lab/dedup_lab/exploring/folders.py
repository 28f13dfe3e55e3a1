"""The folder of an exploration: what was asked, what was heard, what was visited; from it one can go on.

asked.json        what is explored: another exploration is refused
calm.json         the exchanges of the calm conversations
visits.jsonl      a line a visit, as it ended
visits/           the histories of visits that are neither clean nor alarms
witnesses/        a run folder an alarm: history, conversation and schedule
exploration.json  the result
"""

import json
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from dedup.errors import EvidenceError, SpecificationError
from dedup.experiment.points import Exchange
from dedup.history.stores import write_whole
from dedup.judgement.explorations import Exploration, Shrunk, Visit
from dedup.wire.manifests import Record
from dedup_lab.results import LOCK

R = TypeVar("R", bound=Record)
ASKED: Final = "asked.json"
CALM: Final = "calm.json"
VISITS: Final = "visits.jsonl"
RESULT: Final = "exploration.json"
SCHEDULE: Final = "schedule.json"
EXPERIMENT: Final = "experiment.yaml"
WITNESSES: Final = "witnesses"
LOGS: Final = "logs"
"""Of the brokers that were started: they are there before anything is asked."""


class Asked(Record):
    """What must be the same for two explorations to be one."""

    target: str
    messages: int
    partitions: int
    in_flight: int
    transactions: str = ""
    messages_per_second: int | None = None
    seed: int
    treatment: dict[str, str]
    settings: dict[str, str]
    system: str
    versions: dict[str, str]


class Calm(Record):
    """What was heard when nothing was broken: the exchanges of each conversation."""

    conversations: tuple[tuple[Exchange, ...], ...]


def is_one(root: Path) -> bool:
    """Whether a folder is an exploration's; also of one that was interrupted before it knew what there is to ask."""
    return root.is_dir() and ((root / ASKED).is_file() or {each.name for each in root.iterdir()} <= {LOCK, LOGS})


class Folder:
    """One exploration's files. Any thread may note a visit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()

    @property
    def visits(self) -> Path:
        return self.root / "visits"

    def begin(self, asked: Asked) -> None:
        """Write what is asked, or see that it is what was asked before."""
        path = self.root / ASKED
        if not path.is_file():
            write_whole(path, asked.model_dump_json(indent=1))
            return
        before = self._read(path, Asked).model_dump()
        for name, value in asked.model_dump().items():
            if before[name] != value:
                raise SpecificationError(
                    where=f"--resume {self.root}",
                    got=f"{name} {value}",
                    rule=f"it was begun with {name} {before[name]}",
                    todo="give the same, or begin another exploration with --out",
                )

    def heard(self) -> Calm | None:
        """The calm conversations, if they were heard."""
        path = self.root / CALM
        return self._read(path, Calm) if path.is_file() else None

    def hear(self, conversations: Sequence[frozenset[Exchange]]) -> Calm:
        calm = Calm(conversations=tuple(tuple(sorted(each, key=lambda one: one.order)) for each in conversations))
        write_whole(self.root / CALM, calm.model_dump_json(indent=1))
        return calm

    def note(self, visit: Visit) -> None:
        with self._lock, (self.root / VISITS).open("a") as file:
            file.write(visit.model_dump_json() + "\n")

    def noted(self) -> list[Visit]:
        """The visits so far; a line that was cut off is none. A folder that has moved has taken its histories along."""
        path = self.root / VISITS
        text = path.read_text(errors="replace") if path.is_file() else ""
        lines = text.splitlines(keepends=True)
        found = []
        for number, line in enumerate(lines, 1):
            try:
                found.append(self._found(Visit.model_validate_json(line)))
            except ValidationError:
                if number < len(lines):
                    raise _unreadable(path, f"line {number}") from None
                path.write_text(text.removesuffix(line))
                return found
        if text and not text.endswith("\n"):  # the line is whole but for its end, and another one is to come
            path.write_text(f"{text}\n")
        return found

    def keep(self, visit: Visit) -> Visit:
        """Note a visit, and give an alarm's history its place. It is noted first: so no alarm is lost on the way."""
        place = self._place(visit)
        if not visit.alarm or visit.folder is None or place.exists():
            self.note(visit)
            return visit
        kept = visit.model_copy(update={"folder": str(place)})
        self.note(kept)
        place.parent.mkdir(exist_ok=True)
        shutil.move(visit.folder, place)
        return kept

    def _place(self, visit: Visit) -> Path:
        return self.root / WITNESSES / visit.name

    def _found(self, visit: Visit) -> Visit:
        """With the history where it is now; with none if it is gone."""
        if visit.folder is None or Path(visit.folder).is_dir():
            return visit
        places = (self._place(visit), self.visits / Path(visit.folder).name)
        return visit.model_copy(update={"folder": next((str(each) for each in places if each.is_dir()), None)})

    def keep_schedule(self, visit: Visit, shrunk: Shrunk, experiment: str = "") -> None:
        """Write beside an alarm's history the shortest schedule that shows it, and its experiment if there is one."""
        if visit.folder is not None:
            (Path(visit.folder) / SCHEDULE).write_text(shrunk.model_dump_json(indent=1))
            if experiment:
                (Path(visit.folder) / EXPERIMENT).write_text(experiment)

    def finish(self, result: Exploration) -> None:
        write_whole(self.root / RESULT, json.dumps(result.model_dump(mode="json"), indent=1))
        if self.visits.is_dir() and not any(self.visits.iterdir()):
            self.visits.rmdir()

    def _read(self, path: Path, kind: type[R]) -> R:
        try:
            return kind.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise _unreadable(path, str(error).splitlines()[0]) from None


def _unreadable(path: Path, got: str) -> EvidenceError:
    return EvidenceError(
        where=str(path), got=got, rule="dedup explore wrote it", todo="begin another exploration with --out"
    )
