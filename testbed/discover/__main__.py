"""`make discover DISCOVER_MINUTES=60`: explore in rounds, the subjects in turns, as long as one gives it.

A round that was done is a line of the ledger, which is kept in the repository, and is not done again. One that was
interrupted, or has no result, is done anew. The exit code is 1 if any round so far is an error, has an alarm that is no
known bug, or has no result now.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from dedup.judgement.explorations import Exploration
from testbed import ledgers
from testbed.discover.ledger import Line, line, page
from testbed.discover.subjects import SUBJECTS, Round, drawn

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "discovered.md"
LEDGER: Final = ROOT / "docs" / "discovered.jsonl"
INTERRUPTED: Final = 130
GIVEN_UP: Final = 3
"""After so many rounds without a result no other one is begun."""


def rounds(names: Sequence[str], done: Sequence[Line]) -> Iterator[Round]:
    """The rounds that are not done yet, the subjects in turns, without end."""
    known = {(each.subject, each.number) for each in done}
    for number in count(1):
        yield from (drawn(SUBJECTS[name], number) for name in names if (name, number) not in known)


def explored(round_: Round, results: Path) -> Exploration | None:
    """Do a round; None if it has no result. KeyboardInterrupt if it was interrupted."""
    out = results / f"{round_.subject.name}-{round_.number}"
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "dedup_lab.cli", "explore", str(round_.subject.file), "--format", "json"]
    told = subprocess.run([*command, "--out", str(out), *round_.options], stdout=subprocess.PIPE, check=False)
    if told.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    try:
        return Exploration.model_validate_json(told.stdout.splitlines()[-1])
    except (ValidationError, json.JSONDecodeError, IndexError):
        print(f"{out.name}: exit code {told.returncode}, and no result", file=sys.stderr)
        return None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m testbed.discover", description="explore, and keep a ledger")
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="begin no round after so long; default: %(default)s"
    )
    parser.add_argument("--subject", choices=sorted(SUBJECTS), action="append", help="only this one; default: all")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "discover", help="where witnesses are kept")
    parser.add_argument("--ledger", type=Path, default=LEDGER, metavar="FILE", help="a line a round")
    parser.add_argument("--out", type=Path, default=PAGE, metavar="FILE", help="the page")
    asked = parser.parse_args(arguments)
    until_s = time.monotonic() + asked.minutes * 60
    asked.results.mkdir(parents=True, exist_ok=True)
    without = 0
    with ledgers.going_on(asked.ledger) as ledger, suppress(KeyboardInterrupt):
        for round_ in rounds(list(dict.fromkeys(asked.subject or SUBJECTS)), ledgers.read(asked.ledger, Line)):
            if time.monotonic() > until_s or without == GIVEN_UP:
                break
            if (result := explored(round_, asked.results)) is None:
                without += 1
                continue
            done = line(round_, result)
            ledgers.add(ledger, done)
            taken = ", ".join(found.taken_for for found in done.found) or "none"
            what = f"{done.points_visited} points, {done.pairs_visited} pairs, alarms: {taken}"
            print(f"{done.subject} {done.number}: {what}", flush=True)
    lines = ledgers.read(asked.ledger, Line)
    asked.out.write_text(page(lines), encoding="utf-8")
    bad = [each for each in lines if each.unexplained]
    print(f"{asked.out}: {len(lines)} rounds, {len(bad)} of them with something that is not known")
    print(f"rounds without a result, which are done again next time: {without}")
    return int(bool(bad or without))


if __name__ == "__main__":
    sys.exit(ledgers.told(main))
