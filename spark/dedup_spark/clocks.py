"""Clocks: when a fault came and went, as numbers of rows.

Messages carry no times. The producer's clock (`clock.parquet`) says how many had been sent and how many had an outcome,
and when. So what was sent before a fault had healed are the rows of `sent` before one number, and what was told after
it was injected are the rows of `outcomes` from another number on.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from dedup.findings import Window
from dedup.histories import CLOCK, CLOCK_ACKNOWLEDGED, CLOCK_SENT


class Borders(NamedTuple):
    """A fault's time as rows: those of `sent` before `sent`, those of `outcomes` from `told` on."""

    sent: int
    told: int


def borders_of(folder: Path, windows: Sequence[Window]) -> tuple[Borders, ...]:
    """Each window as row numbers, by the run's clock; without windows the clock is not read.

    A row in doubt, one recorded in the same tick as the border, counts as under way.
    """
    if not windows:
        return ()
    with (folder / "clock.parquet").open("rb") as file:
        table = pq.read_table(file, schema=CLOCK)
    kind, index, at_ns = (table.column(name).to_numpy() for name in CLOCK.names)
    ends = np.iinfo(np.int64).max
    borders = []
    for window in windows:
        later = index[(kind == CLOCK_SENT) & (at_ns > window.healed_ns)] if window.healed_ns is not None else ()
        before = index[(kind == CLOCK_ACKNOWLEDGED) & (at_ns < window.injected_ns)]
        borders.append(Borders(int(min(later, default=ends)), int(max(before, default=0))))
    return tuple(borders)
