"""What a long campaign has done so far: a file with a line for each part, from which the next call goes on.

A call may be ended while it writes. A line that was cut short tells of nothing, and its part is done again. Any other
line counts once, or the ledger is refused: a page never shows less than was done, and never more.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import ClassVar, Final, TextIO, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from dedup.errors import EXIT_ERROR, DedupError, EvidenceError

ROOT: Final = Path(__file__).parents[1]


class Entry(BaseModel):
    """What is kept of a part."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    PART: ClassVar[tuple[str, ...]]
    """The fields that name the part."""
    made: str | None = None
    """The commit of the program that did it; None: it is older than this record."""

    @property
    def part(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.PART)


M = TypeVar("M", bound=Entry)


def read(path: Path, kind: type[M]) -> list[M]:
    """Every whole line; none if there is no file.

    EvidenceError for a whole line of another kind, as another version may have written it, and for a part that is there
    twice, as two calls at a time may have done it.
    """
    found = dict[tuple[object, ...], M]()
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    for number, text in enumerate(lines, 1):
        if not _is_whole(text):
            continue
        try:
            each = kind.model_validate_json(text)
        except ValidationError as error:
            raise _refused(path, number, str(error)[:200], "remove the line, and its part is done again") from None
        if each.part in found:
            part = ", ".join(f"{name} {value}" for name, value in zip(kind.PART, each.part, strict=True))
            raise _refused(path, number, f"{part} once more", "look at both lines, and remove one of them")
        found[each.part] = each
    return list(found.values())


def _is_whole(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _refused(path: Path, number: int, got: str, todo: str) -> EvidenceError:
    return EvidenceError(
        where=f"{path.name}, line {number}", got=got, rule="each whole line tells of one part, once", todo=todo
    )


@contextmanager
def going_on(path: Path) -> Iterator[TextIO]:
    """The file, open behind its last line, which may have been cut short."""
    commit()  # as it is now: the campaign goes on for hours
    with path.open("a", encoding="utf-8") as file:
        file.write("\n")
        yield file


def add(file: TextIO, line: Entry) -> None:
    """Write a line, at once."""
    file.write(f"{line.model_copy(update={'made': commit()}).model_dump_json()}\n")
    file.flush()


@cache
def commit() -> str:
    """The commit when it was first asked for: `git describe`, with "-dirty" if files had been changed since."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or "unknown"


def made(lines: Sequence[Entry]) -> str:
    """By which commits of the program these parts were done, in a sentence."""
    found = Counter(each.made or "not recorded" for each in lines)
    return f"Commits of the program: {', '.join(f'{name} ({count:,})' for name, count in found.items()) or 'none'}."


def told(main: Callable[[], int]) -> int:
    """The exit code of a program; of an error that a user sees its sentence, and 4."""
    try:
        return main()
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
