"""Remove what an execution has made on a system that was there before.

`python -m dedup_runners.leftovers --endpoints=JSON`. The JSON is what the operator gives to a run: where the system is,
how to log in, and the name with which all of it begins. The operator has a Job do this when it is done with the system,
or when its experiment is deleted.

Exit codes: 0 nothing is left; 2 the command line is wrong; 4 something is, and one line names it.
"""

import sys
from typing import Final

from pydantic import ValidationError

from dedup.errors import EXIT_ERROR, DedupError
from dedup.experiment.endpoints import Endpoints
from dedup_runners import programs
from dedup_runners.admins import removals
from dedup_runners.admins.discoveries import discovered

GIVEN: Final = "--endpoints="


def main(arguments: list[str]) -> int:
    """The exit code."""
    try:
        (text,) = arguments
        if not text.startswith(GIVEN):
            raise ValueError
        asked = Endpoints.model_validate_json(text.removeprefix(GIVEN))
    except (ValueError, ValidationError):
        print("usage: python -m dedup_runners.leftovers --endpoints=JSON", file=sys.stderr)
        return 2
    try:
        removals.remove(discovered(asked))
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    print(f"nothing is left that begins with {asked.names}")
    return 0


if __name__ == "__main__":
    programs.leave(main(sys.argv[1:]))
