"""JSON lines, each a record by itself. One that is being written, or was cut short by a crash, is none."""

from typing import ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError


class Line(BaseModel):
    """One record, on one line; in a run's folder the lines of a kind are the file of that name."""

    FILE: ClassVar[str]
    model_config = ConfigDict(frozen=True, extra="ignore")


class Event(Line):
    """A line that says what has happened, in one word."""

    event: str


L = TypeVar("L", bound=Line)


def parse(text: str, kind: type[L]) -> list[L]:
    """The records in the text of a file."""
    found = []
    for line in text.splitlines():
        try:
            found.append(kind.model_validate_json(line))
        except ValidationError:
            continue
    return found
