"""`make fuzz`: goes on where the last call was stopped, and writes docs/fuzz.md from all that was done.

A line of the state file, which is kept in the repository, tells of a thousand cases. What a case is follows from its
number, the published experiments and this program: as long as these stay, `--case N` shows any of them again.
`--minutes` ends it after so long, when a thousand are over; Ctrl-C in one, which is then done again. The exit code is 1
if anything was wrong so far.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, TextIO

from testbed import ledgers
from tests.fuzz import histories, specs
from tests.fuzz.specs import Outcome

from dedup_lab.reporting.markdowns import plain

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "fuzz.md"
STATE: Final = ROOT / "docs" / "fuzz.jsonl"
EACH: Final = 1000
"""Cases that a line tells of."""
KINDS: Final = ("specs", "histories")
SHOWN: Final = 20

HEAD: Final = """# Fuzzing

Made by `make fuzz` (tests/fuzz), not by hand, from fuzz.jsonl beside it. A case follows from its number, the
published experiments, and the program of its day.

- *Specs*: a published experiment with one to six changes that nobody would make, or a file with changed bytes. It must
  be accepted, or refused in one line with four parts; never a traceback. What is accepted can be planned, and is the
  same when it is written down and read again; one in 25 is held against the JSON schema, by which editors mark errors.
- *Histories*: a run whose history passes, with one file damaged in one of 21 ways, before or after it was recorded. The
  verdict must be *error*, with a reason.

| what | cases | accepted | refused, or *error* | wrong | cases a second |
| --- | ---: | ---: | ---: | ---: | ---: |
"""


class Done(ledgers.Entry):
    """A thousand cases of one kind: those numbered from `first` on."""

    PART: ClassVar = ("kind", "first")

    kind: str
    first: int
    accepted: int
    refused: int
    took_s: float
    wrong: dict[int, str]
    """What was wrong, by the number of the case."""


def checked(kind: str, numbers: Sequence[int]) -> list[Outcome]:
    """The cases of these numbers, each with what came of it."""
    return [specs.check(number) for number in numbers] if kind == "specs" else histories.checked(numbers)


def thousand(kind: str, first: int) -> Done:
    began_s = time.monotonic()
    numbers = range(first, first + EACH)
    outcomes = checked(kind, numbers)
    accepted = sum(each.accepted for each in outcomes)
    return Done(
        kind=kind,
        first=first,
        accepted=accepted,
        refused=EACH - accepted,
        took_s=round(time.monotonic() - began_s, 1),
        wrong={number: each.problem for number, each in zip(numbers, outcomes, strict=True) if each.problem},
    )


def run(kind: str, upto: int, until_s: float, before: Sequence[Done], state: TextIO) -> None:
    """Do what is missing of the first so many cases, until the time is over."""
    known = {each.first for each in before if each.kind == kind}
    for first in range(0, upto, EACH):
        if first not in known and time.monotonic() < until_s:
            done = thousand(kind, first)
            ledgers.add(state, done)
            print(f"{kind} {first + EACH:,} of {upto:,}: {len(done.wrong)} wrong, {done.took_s} s", flush=True)


def page(done: Sequence[Done]) -> str:
    """All of it, in Markdown."""
    return HEAD + "".join(f"{line}\n" for line in (*_rows(done), *_made(done), *_wrong(done)))


def _rows(done: Sequence[Done]) -> Iterator[str]:
    for kind in KINDS:
        own = [each for each in done if each.kind == kind]
        sums = Counter[str]()
        for each in own:
            sums.update(accepted=each.accepted, refused=each.refused, wrong=len(each.wrong))
        cases, took_s = EACH * len(own), sum(each.took_s for each in own)
        cells = (kind, f"{cases:,}", *(f"{sums[name]:,}" for name in ("accepted", "refused", "wrong")))
        yield f"| {' | '.join(cells)} | {cases / took_s if took_s else 0:,.0f} |"


def _made(done: Sequence[Done]) -> Iterator[str]:
    yield from ("", f"Each thousand is a line of the ledger, {len(done):,} in all. {ledgers.made(done)}")


def _wrong(done: Sequence[Done]) -> Iterator[str]:
    found = [(each.kind, number, words) for each in done for number, words in each.wrong.items()]
    if found:
        yield from ("", "## Wrong", "")
        yield from (f"- {kind} {number}: {plain(words)}" for kind, number, words in found[:SHOWN])
    if len(found) > SHOWN:
        yield f"- and {len(found) - SHOWN:,} more, which are in the ledger"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="offer what nobody would write")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--number", type=int, default=EACH, metavar="N", help="how many cases there are to be")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="begin no thousand after so long")
    parser.add_argument("--case", type=int, metavar="N", help="do this one alone, and show it")
    parser.add_argument("--state", type=Path, default=STATE, metavar="FILE", help="a line for each thousand")
    parser.add_argument("--out", type=Path, default=PAGE, metavar="FILE", help="the page")
    asked = parser.parse_args()
    if asked.case is not None:
        if asked.kind == "specs":
            print(specs.case(asked.case))
        print(*checked(asked.kind, [asked.case]))
        return 0
    with ledgers.going_on(asked.state) as state, suppress(KeyboardInterrupt):
        run(asked.kind, asked.number, time.monotonic() + asked.minutes * 60, ledgers.read(asked.state, Done), state)
    done = ledgers.read(asked.state, Done)
    asked.out.write_text(page(done), encoding="utf-8")
    wrong = sum(len(each.wrong) for each in done)
    print(f"{asked.out}: {EACH * len(done):,} cases, {wrong} of them wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(ledgers.told(main))
