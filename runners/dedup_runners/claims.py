"""An attempt is claimed by one pod, before it has even made the topic: whoever comes second sends nothing.

Kubernetes may start a Job's pod twice. Two producers of one attempt would send every message twice, and no broker could
be blamed for the copies. So the first thing that a conductor does is to write `claim.json` where the history will lie,
in a way that only one can win: in S3 a put on the condition that nothing is there (If-None-Match), in a folder an
exclusive create. Only the winner's pod carries its files to the store.
"""

import json
import socket
import uuid
from pathlib import Path
from typing import Final

from dedup.errors import PlatformError
from dedup.experiment.assignments import Assignment
from dedup.history import stores
from dedup.history.stores import Place

CLAIM: Final = "claim.json"
TAKEN: Final = ("PreconditionFailed", "ConditionalRequestConflict")
"""What a store answers when something is there, or when another is just writing it."""


class AlreadyClaimed(PlatformError):
    """Another pod has this attempt, or had it: this one has sent nothing and must not."""


def claim(assignment: Assignment) -> None:
    """Take the attempt for this pod; AlreadyClaimed if another has it, EnvironmentError_ if the store is out of reach.

    That it was won is written down in the shared folder, for the courier.
    """
    place = stores.place(assignment.place() or str(assignment.folder)) / CLAIM
    words = json.dumps(
        {
            "run_id": assignment.run_id,
            "attempt": assignment.attempt,
            "pod": socket.gethostname(),
            "token": uuid.uuid4().hex,
        }
    )
    with stores.reached(place):
        if not _created(place, words.encode()):
            try:
                found = place.read_text()
            except FileNotFoundError:  # another is just writing it
                found = ""
            if found != words:  # equal: the first answer was lost on its way, and the client had asked again
                raise _claimed(place, found)
    won(assignment.shared).write_text(words)


def won(shared: Path) -> Path:
    """The file that says that this pod has the attempt."""
    return shared / CLAIM


def _created(place: Place, content: bytes) -> bool:
    """Write it if nothing is there; False if there is something."""
    try:
        if isinstance(place, Path):
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                file.write(content)
        else:
            place.fs.pipe_file(place.path, content, mode="create")
        return True
    except FileExistsError:
        return False
    except OSError as error:
        answer = getattr(error.__cause__, "response", {})  # botocore's, of a store that said no
        if answer.get("Error", {}).get("Code") in TAKEN:
            return False
        raise


def _claimed(place: Place, found: str) -> AlreadyClaimed:
    try:
        by = json.loads(found)["pod"]
    except (ValueError, KeyError, TypeError):
        by = "somebody who wrote no name"
    return AlreadyClaimed(
        where=str(place),
        got=f"a claim by {by}",
        rule="one pod carries out an attempt, and this one has sent nothing",
        todo="look at that pod's logs; a new try is a new attempt",
    )
