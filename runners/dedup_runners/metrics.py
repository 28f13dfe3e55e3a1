"""Progress for people and for Prometheus: counters over HTTP, read from the client when somebody asks.

Nothing is counted twice and the hot loop does nothing for it: a scrape asks the running client for its numbers. The
port that was chosen is written to `<role>.metrics.json` in the run's folder. No judgement ever reads these numbers.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from dedup.wire.clients import Metric
from dedup.wire.files import METRICS, Listening

HELP = {
    Metric.SENT: "messages handed to the client",
    Metric.ACKNOWLEDGED: "messages with a final outcome",
    Metric.RECEIVED: "messages read back",
}


class _Counters(Collector):
    def __init__(self, run_id: str, read: Callable[[], dict[Metric, int]]) -> None:
        self._run_id, self._read = run_id, read

    def collect(self) -> Iterable[CounterMetricFamily]:
        for name, value in self._read().items():
            family = CounterMetricFamily(name, HELP[name], labels=["run"])
            family.add_metric([self._run_id], value)
            yield family

    def describe(self) -> Iterable[CounterMetricFamily]:
        return []


@contextmanager
def served(
    role: str, folder: Path, run_id: str, host: str, port: int | None, read: Callable[[], dict[Metric, int]]
) -> Iterator[None]:
    """Serve what `read` returns (name without `_total` → count) until the block ends; nothing if `port` is None."""
    if port is None:
        yield
        return
    registry = CollectorRegistry()
    registry.register(_Counters(run_id, read))
    server, thread = start_http_server(port, host, registry)
    try:
        (folder / METRICS.format(role)).write_text(Listening(port=server.server_port).model_dump_json())
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
