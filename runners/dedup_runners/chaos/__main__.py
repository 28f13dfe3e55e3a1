"""One fault in a container of its own: `python -m dedup_runners.chaos FOLDER FAULT`.

Where a platform starts chaos processes itself, it writes the chaos experiment and then starts `chaos run`. In a pod all
containers start at once. So this one waits until the conductor has written chaos/FAULT/experiment.json, and then is
`chaos run`: in this very process, for Chaos Toolkit needs the main thread, and the conductor must see its end.
"""

import runpy
import sys
from pathlib import Path

from dedup_runners import lifelines
from dedup_runners.chaos.experiments import EXPERIMENT, command
from dedup_runners.programs import Ending, attempt


def main(arguments: list[str]) -> int:
    """Wait for the experiment and run it; the exit code of `chaos run`."""
    if len(arguments) != 2:
        print("usage: python -m dedup_runners.chaos FOLDER FAULT", file=sys.stderr)
        return 2
    folder, fault = Path(arguments[0]), arguments[1]
    role = f"chaos-{fault}"
    with lifelines.held(role) as ended:
        ending = attempt(role, lambda: lifelines.await_orders(folder / "chaos" / fault / EXPERIMENT))
        if ending.code == 0:
            ending = Ending(run(folder, fault))
        ended(*ending)
    return ending.code


def run(folder: Path, fault: str) -> int:
    """Be `chaos run`, to its end; its exit code."""
    _, _, module, *sys.argv[1:] = command(folder, fault)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
