"""JSON lines, each a record by itself.

A line that is being written, or was cut short by a crash, is no JSON: it is left out. JSON that is no such record is an
error: one program of the tester does not understand another, and what it said may have decided a verdict.
"""

from typing import ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from dedup.errors import PlatformError


class Line(BaseModel):
    """One record, on one line; in a run's folder the lines of a kind are the file of that name."""

    FILE: ClassVar[str]
    model_config = ConfigDict(frozen=True, extra="ignore")


class Event(Line):
    """A line that says what has happened, in one word."""

    event: str


L = TypeVar("L", bound=Line)


def parse(text: str, kind: type[L]) -> list[L]:
    """The records in the text of a file; PlatformError for JSON that is none."""
    found = []
    for line in text.splitlines():
        try:
            found.append(kind.model_validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            if first["type"] == "json_invalid":
                continue
            raise PlatformError(
                where=f"{kind.FILE}: {'.'.join(map(str, first['loc']))}",
                got=line[:200],
                rule=f"each line is a {kind.__name__}: {first['msg']}",
                todo="use one version of the tester for all programs of a run",
            ) from None
    return found
