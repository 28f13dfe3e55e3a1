"""Known bugs, ten and twenty times: `python -m testbed.known_bugs`; `--page` writes docs/known-bugs-figures.md only.

A batch of each bug is made before the second of any. The exit code is 0, or 4 with one sentence if a batch does not
come to its end.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

from dedup.errors import EXIT_ERROR, DedupError
from testbed.known_bugs.batches import BATCHES, BUGS, ROOT, RUNS, make, path_of, read
from testbed.known_bugs.pages import page

PAGE: Final = ROOT / "docs" / "known-bugs-figures.md"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m testbed.known_bugs", description="find known bugs again, often")
    parser.add_argument("bug", nargs="*", help="only these of examples/bugs; default: all")
    parser.add_argument("--batches", type=int, default=BATCHES, help=f"of {RUNS} runs a version; default: %(default)s")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "bugs", help="where histories are kept")
    parser.add_argument("--page", action="store_true", help="write the page from what is kept, and run nothing")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.bug) - BUGS.keys():
        parser.error(f"{', '.join(sorted(unknown))}: it is one of {', '.join(BUGS)}")
    try:
        for number in range(1, 1 if asked.page else asked.batches + 1):
            for name in asked.bug or BUGS:
                if not path_of(name, number).exists():
                    make(name, number, asked.results)
                    write()
        write()
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return 0


def write() -> None:
    """The page, as the batches are that are kept."""
    PAGE.write_text(page(read()), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
