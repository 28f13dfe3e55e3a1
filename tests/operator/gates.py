"""Every row of docs/gitops.md: a status that the operator would write, and what tools are to make of it."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from testbed.specs import changed
from testbed.worlds import TOLD

from dedup.experiment.spec import parse
from dedup.experiment.stages import State, schedule
from dedup_operator.conditions import Situation, noted, stalled, status_of
from dedup_operator.sights import ToldFaults
from dedup_operator.statuses import Judgement, Status

ROOT: Final = Path(__file__).parents[2]
TASKS: Final = schedule(parse(changed(), source="test"))
DIGEST: Final = "0" * 64
GENERATION: Final = 3
EXECUTION: Final = "d-aaaaaaaaaa"
NOW: Final = datetime(2026, 11, 22, tzinfo=UTC)
_ROW: Final = re.compile(r"^\| ?(.*?) ?\|$", re.MULTILINE)
Table = Mapping[str, Mapping[str, str]]


def table(text: str) -> Table:
    """The first table of a page: its rows by their first cell, their cells by the column's heading."""
    heading, _rule, *rows = ([cell.strip() for cell in row.split("|")] for row in _ROW.findall(text))
    return {row[0]: dict(zip(heading[1:], row[1:], strict=True)) for row in rows if len(row) == len(heading)}


DOCUMENTED: Final = table((ROOT / "docs" / "gitops.md").read_text())


def at(cursor: int | None, **more: Any) -> Status:
    """The status of an execution that stands there; None: nothing is begun."""
    state = None if cursor is None else State(digest=DIGEST, cursor=cursor)
    return status_of(Situation(GENERATION, None, EXECUTION, TASKS, state, **more), Status(), NOW)


def ended(verdict: Judgement) -> Status:
    return at(len(TASKS), told=TOLD.model_copy(update={"verdict": verdict}))


FAULTS: Final = (
    ToldFaults(planned=0, runs=2, struck=2),
    ToldFaults(planned=1, runs=2, struck=2),
    ToldFaults(planned=1, runs=2, struck=1, missed="kafka-dedup-2: it came too late"),
    ToldFaults(planned=1, runs=0, struck=0),
)
"""Of each kind that a report may tell."""


def all_statuses() -> list[Status]:
    """One for each reason that a condition may have."""
    told = [TOLD.model_copy(update={"faults": each}) for each in FAULTS]
    stages = [at(cursor) for cursor in (None, *range(len(TASKS)))]
    waits = at(None, queued="1st in the queue; 4 may run at a time")
    return [*STATUSES.values(), *stages, waits, *(at(len(TASKS), told=each) for each in told)]


STATUSES: Final[Mapping[str, Status]] = {
    "none yet": at(0),
    "none, and none can come": stalled(at(0), GENERATION, "the Secret is not there", NOW),
    "none yet, suspended": at(0, suspended=True),
    "Pass, then edited": noted(ended(Judgement.PASS), GENERATION, True, NOW),
    **{verdict.value: ended(verdict) for verdict in Judgement},
}


def resource(status: Status | None, generation: int = GENERATION) -> dict[str, Any]:
    """The resource as the API server has it."""
    made: dict[str, Any] = changed()
    made["metadata"]["generation"] = generation
    if status is not None:
        made["status"] = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return made
