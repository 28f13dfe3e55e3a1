"""A witness again: its shrunk schedule is run ten times, and it is counted how often the anomaly is there."""

from pathlib import Path
from typing import Final

from pydantic import ValidationError

from dedup.errors import SpecificationError
from dedup.judgement import explorations
from dedup.judgement.explorations import REPLAYS, Replay, Shrunk
from dedup_lab.exploring.crews import Again, Crew, Job
from dedup_lab.exploring.folders import SCHEDULE

WHERE: Final = "--replay"


def read(folder: Path) -> Shrunk:
    """The schedule of a witness's folder."""
    path = folder / SCHEDULE
    try:
        return Shrunk.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise SpecificationError(
            where=WHERE,
            got=f"{path}: {str(error).splitlines()[0]}",
            rule="an alarm that counts leaves its shortest schedule there",
            todo="name a folder below witnesses/ of an exploration",
        ) from None


def replay(shrunk: Shrunk, crew: Crew) -> Replay:
    """Run it ten times, side by side."""
    job = Job(shrunk.schedule, messages=shrunk.messages, transaction_size=shrunk.transaction_size, again=Again.MISSED)
    return explorations.replayed(shrunk, [done.visit for done in crew.do([job] * REPLAYS)])
