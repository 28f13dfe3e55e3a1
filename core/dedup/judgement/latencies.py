"""Latencies of acknowledgements: percentiles from histograms, of one run or of many.

A histogram is a mapping from a latency in nanoseconds to the number of acknowledgements that took so long. The runner
counts in buckets (docs/history.md, Latencies), and a bucket stands here by its upper bound: no percentile is below the
true one, and none more than 1 % above it for the sake of the bucket. Histograms are added, percentiles never are.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import Field

from dedup.wire.manifests import Record

Histogram = Mapping[int, int]
"""Latency in nanoseconds -> how many."""

MS: Final = 1e6


class Latency(Record):
    """How long acknowledgements took: from the hand-over to the client library until the client served the outcome."""

    messages: int = Field(0, description="with outcome ok")
    p50_ms: float = Field(description="to four digits, as all three: a bucket is no narrower")
    p99_ms: float
    max_ms: float = 0.0


def latency_of(histogram: Histogram | None) -> Latency | None:
    """The percentiles of a histogram; None without one, or with nothing in it."""
    if not histogram:
        return None
    return Latency(
        messages=sum(histogram.values()),
        p50_ms=_ms(percentile(histogram, 50)),
        p99_ms=_ms(percentile(histogram, 99)),
        max_ms=_ms(max(histogram)),
    )


def percentile(histogram: Histogram, percent: float) -> int:
    """The smallest latency that at least so many percent do not exceed. The histogram is not empty."""
    wanted = sum(histogram.values()) * percent / 100
    seen = 0
    for latency in sorted(histogram):
        seen += histogram[latency]
        if seen >= wanted:
            break
    return latency


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """The histogram of all that is in these."""
    added = Counter[int]()
    for each in histograms:
        added.update(each)
    return added


def _ms(latency_ns: int) -> float:
    return float(f"{latency_ns / MS:.4g}")
