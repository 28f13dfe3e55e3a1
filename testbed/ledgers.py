"""What a long campaign has done so far: a file with a line for each part, from which the next call goes on.

A call may be ended while it writes. A line that was cut short tells of nothing, and its part is done again.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO, TypeVar

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)


def read(path: Path, kind: type[M]) -> list[M]:
    """Every whole line of that kind; none if there is no file."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else ():
        with suppress(ValueError):
            found.append(kind.model_validate_json(line))
    return found


@contextmanager
def going_on(path: Path) -> Iterator[TextIO]:
    """The file, open behind its last line, which may have been cut short."""
    with path.open("a") as file:
        file.write("\n")
        yield file


def add(file: TextIO, line: BaseModel) -> None:
    """Write a line, at once."""
    file.write(f"{line.model_dump_json()}\n")
    file.flush()
