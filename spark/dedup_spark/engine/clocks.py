"""Clocks: when a fault began and ended, as numbers of rows.

Messages carry no times. The producer's clock (`clock.parquet`) records how many messages had been sent and how many had
an outcome, and when. So the messages sent before a heal are the rows of `sent` before one number, and the outcomes
after an injection are the rows of `outcomes` from another number on.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np

from dedup.history.histories import CLOCK, CLOCK_ACKNOWLEDGED, CLOCK_SENT
from dedup.history.stores import Place, parquet, reached
from dedup.judgement.findings import Window
from dedup_spark.engine.files import DAMAGED, damage

AT_ONCE: Final = 16


class Borders(NamedTuple):
    """A fault's time as rows: those of `sent` before `sent`, those of `outcomes` from `outcomes` on."""

    sent: int
    outcomes: int


def borders_of(
    runs: Sequence[tuple[int, Place, Sequence[Window]]],
) -> tuple[dict[int, tuple[Borders, ...]], dict[int, list[str]]]:
    """The windows of runs (their number, folder and windows) as row numbers; and damages of clocks, in words.

    Without windows the clock is not read. A row in the same tick as the border counts as under way; without any tick,
    as in a CSV pair, none does: nothing is known of its time.
    """
    asked = [(run, folder, windows) for run, folder, windows in runs if windows]

    def read(each: tuple[int, Place, Sequence[Window]]) -> tuple[Borders, ...] | str:
        try:
            return _borders(each[1], each[2])
        except DAMAGED as error:  # pages can be damaged even if the checksum is right
            return f"clock.parquet: {damage(error)}"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip((run for run, _, _ in asked), pool.map(read, asked), strict=True))
    borders = {run: each for run, each in found.items() if not isinstance(each, str)}
    return borders, {run: [each] for run, each in found.items() if isinstance(each, str)}


def _borders(folder: Place, windows: Sequence[Window]) -> tuple[Borders, ...]:
    with reached(folder), parquet(folder / "clock.parquet") as file:
        table = file.read(columns=CLOCK.names).cast(CLOCK)  # fails if a value is missing
    kind, index, at_ns = (table.column(name).to_numpy() for name in CLOCK.names)
    ends = np.iinfo(np.int64).max
    if not len(index):
        return (Borders(0, ends),) * len(windows)
    borders = []
    for window in windows:
        later = index[(kind == CLOCK_SENT) & (at_ns > window.healed_ns)] if window.healed_ns is not None else ()
        before = index[(kind == CLOCK_ACKNOWLEDGED) & (at_ns < window.injected_ns)]
        borders.append(Borders(int(min(later, default=ends)), int(max(before, default=0))))
    return tuple(borders)
