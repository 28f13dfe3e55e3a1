"""How far a run is, read from the runners as anybody could: over HTTP, from their Prometheus metrics.

The numbers are for people to watch; no judgement reads them. A runner that cannot be reached just now, or does not
answer with its metrics, shows the last numbers that it gave.
"""

import time
from pathlib import Path
from typing import Final, NamedTuple

import httpx
from prometheus_client.parser import text_string_to_metric_families

from dedup.wire.clients import Metric
from dedup.wire.faults import FaultLine
from dedup.wire.files import METRICS, Listening
from dedup_runners.recording.journals import lines

TIMEOUT_S: Final = 0.5


class Progress(NamedTuple):
    """Messages so far, and the last word of the fault injectors."""

    sent: int = 0
    acknowledged: int = 0
    received: int = 0
    faults: tuple[tuple[str, str], ...] = ()


class Watch:
    """Follows one runner of one run folder."""

    def __init__(self, folder: Path, role: str) -> None:
        self._folder, self._role = folder, role
        # one for all questions: to make one reads every certificate of the machine, 10 to 30 ms of a processor
        self._http = httpx.Client(timeout=TIMEOUT_S, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))
        self._next = 0.0
        self.last = Progress()

    def read(self, every_s: float) -> Progress:
        """The newest numbers, asked for at most once `every_s`."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + every_s
            self.last = self._ask()
        return self.last

    def _ask(self) -> Progress:
        try:
            port = Listening.model_validate_json((self._folder / METRICS.format(self._role)).read_bytes()).port
            answer = self._http.get(f"http://127.0.0.1:{port}/metrics")
            values = {
                sample.name: int(sample.value)
                for family in text_string_to_metric_families(answer.raise_for_status().text)
                for sample in family.samples
                if sample.name.startswith("dedup_")
            }
        except (OSError, ValueError, httpx.HTTPError):
            return self.last._replace(faults=self._fault_states())
        return Progress(
            sent=values.get(f"{Metric.SENT}_total", 0),
            acknowledged=values.get(f"{Metric.ACKNOWLEDGED}_total", 0),
            received=values.get(f"{Metric.RECEIVED}_total", 0),
            faults=self._fault_states(),
        )

    def _fault_states(self) -> tuple[tuple[str, str], ...]:
        return tuple({line.fault: line.event for line in lines(self._folder, FaultLine)}.items())
