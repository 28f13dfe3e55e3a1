"""Progress for people and for Prometheus: counters over HTTP, read from the client when somebody asks.

A producer whose latencies are recorded serves them too, as a histogram of wider buckets (recording/latencies.py).

Nothing is counted twice and the hot loop does nothing for it: a scrape asks the running client for its numbers. The
port that was chosen is written to `<role>.metrics.json` in the run's folder. No judgement ever reads these numbers.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from dedup.wire.clients import Metric
from dedup.wire.files import METRICS, Listening
from dedup_runners.recording.latencies import Latencies, bounds_ns

HELP = {
    Metric.SENT: "messages handed to the client",
    Metric.ACKNOWLEDGED: "messages with a final outcome",
    Metric.RECEIVED: "messages read back",
}


LATENCY: Final = "dedup_acknowledgement_seconds"
BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class _Counters(Collector):
    def __init__(self, run_id: str, read: Callable[[], dict[Metric, int]], latencies: Latencies | None) -> None:
        self._run_id, self._read, self._latencies = run_id, read, latencies

    def collect(self) -> Iterable[CounterMetricFamily | HistogramMetricFamily]:
        for name, value in self._read().items():
            family = CounterMetricFamily(name, HELP[name], labels=["run"])
            family.add_metric([self._run_id], value)
            yield family
        if self._latencies is not None:
            yield self._histogram(self._latencies)

    def describe(self) -> Iterable[CounterMetricFamily]:
        return []

    def _histogram(self, latencies: Latencies) -> HistogramMetricFamily:
        """A bucket of ours that reaches over a bound counts above it."""
        counts, sum_ns = latencies.total()
        _, longest_ns = bounds_ns(np.arange(len(counts)))
        until = np.concatenate([[0], np.cumsum(counts)])
        places = np.searchsorted(longest_ns, np.array(BOUNDS_S) * 1e9, "right")
        buckets = [(repr(bound), float(until[place])) for bound, place in zip(BOUNDS_S, places, strict=True)]
        family = HistogramMetricFamily(LATENCY, "from the hand-over to the client to its outcome ok", labels=["run"])
        family.add_metric([self._run_id], [*buckets, ("+Inf", float(until[-1]))], sum_ns / 1e9)
        return family


@contextmanager
def served(
    role: str,
    folder: Path,
    run_id: str,
    host: str,
    port: int | None,
    read: Callable[[], dict[Metric, int]],
    latencies: Latencies | None = None,
) -> Iterator[None]:
    """Serve what `read` returns (name without `_total` → count) until the block ends; nothing if `port` is None."""
    if port is None:
        yield
        return
    registry = CollectorRegistry()
    registry.register(_Counters(run_id, read, latencies))
    server, thread = start_http_server(port, host, registry)
    try:
        (folder / METRICS.format(role)).write_text(Listening(port=server.server_port).model_dump_json())
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
