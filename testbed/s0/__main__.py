"""One of S0's tables made again: `python -m testbed.s0 kafka-kill-tcp`; `--page` writes docs/s0.md only.

The exit code is 0, or 4 with one sentence if a batch does not come to its end.
"""

import argparse
import sys
from pathlib import Path

from dedup.errors import EXIT_ERROR, DedupError
from testbed.s0.batches import ROOT, make, missing, read
from testbed.s0.pages import page
from testbed.s0.tables import BATCH, RUNS, TABLES


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m testbed.s0", description="make one of S0's tables again")
    parser.add_argument("table", nargs="?", choices=sorted(TABLES))
    parser.add_argument("--batches", type=int, default=RUNS // BATCH, help=f"of {BATCH} runs a variant; default: all")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "s0", help="where histories are kept")
    parser.add_argument("--page", action="store_true", help="write the page from what is kept, and run nothing")
    asked = parser.parse_args(arguments)
    if (asked.table is None) != asked.page:
        parser.error("name a table, or give --page")
    try:
        for number in [] if asked.page else list(missing(TABLES[asked.table], asked.batches)):
            make(TABLES[asked.table], number, asked.results)
            write()
        write()
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return 0


def write() -> None:
    """The page, as the batches are that are kept."""
    (ROOT / "docs" / "s0.md").write_text(page(read()), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
