"""S4's table made again: `python -m testbed.claims`; `--page` writes docs/kafka-and-pulsar.md only.

The exit code is 0, or 4 with one sentence if a trial does not come to its end.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from dedup.errors import EXIT_ERROR, DedupError, PlatformError
from testbed.claims import trials
from testbed.claims.pages import page
from testbed.claims.rows import TRIALS
from testbed.s0 import batches

PAGE: Final = trials.ROOT / "docs" / "kafka-and-pulsar.md"
BENCH: Final = trials.ROOT / "bench" / "cost"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m testbed.claims", description="make S4's table again")
    parser.add_argument("trial", nargs="*", help=f"only these of {', '.join(TRIALS)}, cost; default: all")
    parser.add_argument("--results", type=Path, default=trials.ROOT / "results" / "claims", help="where histories are")
    parser.add_argument("--page", action="store_true", help="write the page from what is kept, and run nothing")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.trial) - TRIALS.keys() - {"cost"}:
        parser.error(f"{', '.join(sorted(unknown))}: it is one of {', '.join(TRIALS)}, cost")
    try:
        for name in [] if asked.page else asked.trial or [*TRIALS, "cost"]:
            if name == "cost":
                if not trials.COST.exists():
                    measure()
            elif name not in trials.read():
                trials.make(TRIALS[name], asked.results)
            write()
        write()
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return 0


def measure() -> None:
    """Run bench/cost, which is for a machine of its own. PlatformError if it does not come to its end."""
    trials.KEPT.mkdir(parents=True, exist_ok=True)
    code = subprocess.run([sys.executable, str(BENCH), "--json", str(trials.COST)], check=False).returncode
    if code:
        raise PlatformError(
            where=str(BENCH),
            got=f"exit code {code}",
            rule="it measures all its rounds",
            todo="read what was said above",
        )


def write() -> None:
    """The page, as it is kept."""
    PAGE.write_text(page(batches.read(), trials.read(), trials.costs()), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
