"""Clocks: when a fault came and went, as numbers of rows.

Messages carry no times. The producer's clock (`clock.parquet`) says how many had been sent and how many had an outcome,
and when. So what was sent before a fault had healed are the rows of `sent` before one number, and what was told after
it was injected are the rows of `outcomes` from another number on.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np

from dedup.findings import Window
from dedup.histories import CLOCK, CLOCK_ACKNOWLEDGED, CLOCK_SENT
from dedup.stores import Place, parquet, reached

AT_ONCE: Final = 16


class Borders(NamedTuple):
    """A fault's time as rows: those of `sent` before `sent`, those of `outcomes` from `told` on."""

    sent: int
    told: int


def borders_of(runs: Sequence[tuple[int, Place, Sequence[Window]]]) -> dict[int, tuple[Borders, ...]]:
    """The windows of runs (their number, folder and windows) as row numbers; without any the clock is not read.

    A row in doubt, one recorded in the same tick as the border, counts as under way.
    """
    asked = [(run, folder, windows) for run, folder, windows in runs if windows]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda each: _borders(each[1], each[2]), asked)
        return {run: borders for (run, _, _), borders in zip(asked, found, strict=True)}


def _borders(folder: Place, windows: Sequence[Window]) -> tuple[Borders, ...]:
    with reached(folder), parquet(folder / "clock.parquet") as file:
        table = file.read(columns=CLOCK.names)
    kind, index, at_ns = (table.column(name).to_numpy() for name in CLOCK.names)
    ends = np.iinfo(np.int64).max
    borders = []
    for window in windows:
        later = index[(kind == CLOCK_SENT) & (at_ns > window.healed_ns)] if window.healed_ns is not None else ()
        before = index[(kind == CLOCK_ACKNOWLEDGED) & (at_ns < window.injected_ns)]
        borders.append(Borders(int(min(later, default=ends)), int(max(before, default=0))))
    return tuple(borders)
