"""`make cycles N=1000`: goes on where the last call was stopped, and writes docs/cycles.md from all that was done.

A line of the state file, which is kept in the repository, is one cycle. Kafka's are done first, then Pulsar's, so that
each system is started once; with `--system` two calls do them side by side. `--minutes` ends it after so long, when a
cycle is over; Ctrl-C in one, which is then done again. The exit code is 1 if any cycle so far was bad.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TextIO

from testbed import ledgers
from testbed.cycles.cycles import Cycle, Outcome, drawn
from testbed.cycles.pages import page
from testbed.cycles.systems import VERSIONS, turns

PAGE: Final = Path(__file__).parents[2] / "docs" / "cycles.md"
STATE: Final = Path(__file__).parents[2] / "docs" / "cycles.jsonl"


def outcomes_in(state: Path, seed: int) -> list[Outcome]:
    """What was done with this seed so far. A last line that was cut short is no outcome."""
    return [each for each in ledgers.read(state, Outcome) if each.seed == seed]


def run(cycles: Sequence[Cycle], seed: int, until_s: float, state: TextIO, logs: Path) -> None:
    """Do these cycles, system by system, until the time is over."""
    for name in VERSIONS:
        own = [each for each in cycles if each.system == name]
        if not own or time.monotonic() > until_s:
            continue
        with closing(turns(own, seed, logs)) as outcomes:
            for outcome in outcomes:
                ledgers.add(state, outcome)
                print(_told(outcome), flush=True)
                if time.monotonic() > until_s:
                    return


def _told(outcome: Outcome) -> str:
    killed = ", injector killed" if outcome.killed else ""
    past = "" if outcome.past_s is None else f", {outcome.past_s:+.1f} s past its deadline"
    problems = f": {'; '.join(outcome.problems)}" if outcome.problems else ""
    return f"cycle {outcome.number}: {outcome.system}, {outcome.kind}{killed}{past}, {outcome.took_s} s{problems}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m testbed.cycles", description="inject, kill, heal, and look")
    parser.add_argument("--cycles", type=int, default=1000, metavar="N", help="how many there are to be in the end")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="begin no cycle after so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--system", choices=sorted(VERSIONS), help="only its cycles; default: one system after the other"
    )
    parser.add_argument("--state", type=Path, default=STATE, metavar="FILE", help="a line for each cycle that was done")
    parser.add_argument("--out", type=Path, default=PAGE, metavar="FILE", help="the page")
    asked = parser.parse_args()
    began_s = time.monotonic()
    asked.state.parent.mkdir(parents=True, exist_ok=True)
    before = {each.number for each in outcomes_in(asked.state, asked.seed)}
    drawn_ = (drawn(asked.seed, number) for number in range(asked.cycles) if number not in before)
    todo = [cycle for cycle in drawn_ if asked.system in (None, cycle.system)]
    with tempfile.TemporaryDirectory() as logs, ledgers.going_on(asked.state) as state, suppress(KeyboardInterrupt):
        run(todo, asked.seed, began_s + asked.minutes * 60, state, Path(logs))
    outcomes = outcomes_in(asked.state, asked.seed)
    asked.out.write_text(page(outcomes), encoding="utf-8")
    wrong = sum(each.bad for each in outcomes)
    print(f"{asked.out}: {len(outcomes)} of {asked.cycles} cycles, {wrong} of them bad")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(ledgers.told(main))
