"""How the latency of acknowledgements went over a run: its percentiles in each second.

A second counts from the first send, and an acknowledgement in the second in which the client served it: after a silence
comes a second of long latencies. A second without an acknowledgement has none.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dedup.history.latencies import ACKNOWLEDGED, NAME, table_of
from dedup.history.stores import Place
from dedup.judgement.latencies import Latency, latency_of, merged
from dedup.wire.manifests import Manifest

NOT_RECORDED: Final = (
    "Latencies were not recorded: an older dedup did not, nor do clients that are programs and producers that send "
    "messages again."
)
UNREADABLE: Final = f"The latencies of this run, {NAME}, cannot be read."
NOTHING: Final = "There are no latencies: nothing was acknowledged."
Numbers = npt.NDArray[np.float64]


class Latencies(NamedTuple):
    """Percentiles by second, in milliseconds: element n is of the second from n to n + 1; NaN: none came in it."""

    p50_ms: Numbers
    p99_ms: Numbers
    whole: Latency
    """Of the whole run."""


def latencies_of(folder: Place, manifest: Manifest) -> Latencies | str:
    """The latencies of a run; or why there are none, in a sentence."""
    rows = table_of(folder, manifest)
    if rows is None:
        return UNREADABLE if any(each.path == NAME for each in manifest.files) else NOT_RECORDED
    by_second: dict[int, dict[int, int]] = {}
    columns = (rows.column(name).to_pylist() for name in ("second", "outcome", "upper_ns", "count"))
    for second, outcome, upper_ns, count in zip(*columns, strict=True):
        if outcome == ACKNOWLEDGED:
            by_second.setdefault(second, {})[upper_ns] = count
    whole = latency_of(merged(by_second.values()))
    if whole is None:
        return NOTHING
    p50, p99 = np.full(max(by_second) + 1, np.nan), np.full(max(by_second) + 1, np.nan)
    for second, histogram in by_second.items():
        if (found := latency_of(histogram)) is not None:
            p50[second], p99[second] = found.p50_ms, found.p99_ms
    return Latencies(p50, p99, whole)
