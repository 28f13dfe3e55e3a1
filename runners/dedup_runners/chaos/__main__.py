"""One fault in a container of its own: `python -m dedup_runners.chaos FOLDER FAULT`.

Where a platform starts chaos processes itself, it writes the chaos experiment and then starts `chaos run`. In a pod all
containers start at once. So this one waits until chaos/FAULT/experiment.json is there, and then is `chaos run`: in this
very process, for Chaos Toolkit needs the main thread, and whoever holds on to this process must see its end.
"""

import runpy
import sys
from pathlib import Path
from typing import Final

from dedup.errors import EXIT_ERROR, DedupError
from dedup_runners.chaos.experiments import EXPERIMENT, command
from dedup_runners.waiting import until

TOLD_S: Final = 600.0


def main(arguments: list[str]) -> int:
    """Wait for the experiment and run it; the exit code of `chaos run`."""
    if len(arguments) != 2:
        print("usage: python -m dedup_runners.chaos FOLDER FAULT", file=sys.stderr)
        return 2
    folder, fault = Path(arguments[0]), arguments[1]
    path = folder / "chaos" / fault / EXPERIMENT
    try:
        until(path.is_file, TOLD_S, f"the experiment of fault {fault} is written to {path}")
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    _, _, module, *sys.argv[1:] = command(folder, fault)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
