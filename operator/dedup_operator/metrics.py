"""What the operator says of itself over HTTP: `/healthz` and `/readyz` for Kubernetes, `/metrics` for Prometheus.

A few sums, and no label that would grow with experiments or runs: who wants those reads the resources. What became of
experiments is counted when this process has written a status that says so, from the step between that status and the
one before. So an operator that starts anew counts from 0, which Prometheus expects, and counts no verdict again that it
finds written. It is healthy while all its threads live, and ready while it watches experiments: both
also while it waits for the lease.

How long something takes is a histogram: of a mean nobody learns that one in a hundred takes a minute.

Any pod may connect. So a connection that says nothing is closed, and when there are many, the oldest makes way for the
newest: a probe gets through, whatever others keep open.
"""

import math
import socket
import sys
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

from dedup.experiment.stages import Stage, State, Task, current
from dedup_operator.statuses import Judgement, Status, Sums
from dedup_operator.stories import runs_over


class Family(NamedTuple):
    """One name: what it means, and by what it is told apart."""

    kind: str
    told: str
    label: str = ""
    values: tuple[str, ...] = ("",)
    bounds: tuple[float, ...] = ()
    """Of a histogram: the upper bounds of its buckets but the last, which has none."""


_VERDICTS: Final = tuple(each.value for each in Judgement)
_STAGES: Final = tuple(each.value for each in Stage)
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_MINUTES: Final = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200)
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)
FAMILIES: Final[Mapping[str, Family]] = {
    "verdicts_total": Family("counter", "executions of experiments that came to this verdict", "verdict", _VERDICTS),
    "runs_total": Family("counter", "runs that are over, well or not"),
    "task_failures_total": Family("counter", "tasks that failed, such as a run or the readiness of a system"),
    "duplicates_total": Family("counter", "values read more than once, in controls too, as reports told them"),
    "lost_total": Family("counter", "values acknowledged and never read, as reports told them"),
    "stage_seconds": Family(
        "histogram", "how long stages took that were begun and are over, failed ones too", "stage", _STAGES, _MINUTES
    ),
    "look_seconds": Family(
        "histogram", "how long looks at an experiment took (reconciliations), each one step at most", bounds=_SECONDS
    ),
    "request_seconds": Family(
        "histogram",
        "how long requests to the API server took, unanswered ones too; but for its watches and its lease",
        "method",
        METHODS,
        _SECONDS,
    ),
    "conflicts_total": Family("counter", "looks in which somebody else had written the experiment"),
    "fenced_total": Family("counter", "looks that the end of the lease cut short"),
    "api_errors_total": Family("counter", "requests that the API server or Helm refused or did not answer"),
    "crashes_total": Family("counter", "looks that ended in an error of the operator's own"),
    "lease_held": Family("gauge", "1 while this operator may act, else 0"),
    "queue_length": Family("gauge", "experiments that are to be looked at now"),
    "experiments_begun": Family("gauge", "experiments that have a place among those that run, as far as is known"),
    "experiments_waiting": Family("gauge", "experiments that wait until fewer have begun, as far as is known"),
}


class Metrics:
    """Sums that workers add to."""

    def __init__(self) -> None:
        self._lock, self._sums = threading.Lock(), Counter[tuple[str, str]]()
        self._fallen = Counter[tuple[str, str, int]]()

    def add(self, name: str, amount: float = 1, value: str = "") -> None:
        """`value` is of the family's label, if it has one. To a histogram one observation of that amount is added."""
        bounds = FAMILIES[name].bounds
        with self._lock:
            if bounds:
                self._fallen[name, value, bisect_left(bounds, amount)] += 1
            self._sums[name, value] += amount  # type: ignore[assignment]

    def count(self, before: Status, after: Status, tasks: Sequence[Task], now_unix_s: float) -> None:
        """Add what this step of an experiment, which is written, has changed."""
        for name, amount, value in measured(before, after, tasks, now_unix_s):
            self.add(name, amount, value)

    def text(self, gauges: Mapping[str, float]) -> str:
        """As Prometheus reads it. What never happened is told too, as 0, so that a first time is seen as a change."""
        with self._lock:
            sums: dict[tuple[str, str], float] = {**self._sums, **{(name, ""): each for name, each in gauges.items()}}
            fallen = dict(self._fallen)
        return "".join(line for name, family in FAMILIES.items() for line in _lines(name, family, sums, fallen))


def _lines(
    short: str, family: Family, sums: Mapping[tuple[str, str], float], fallen: Mapping[tuple[str, str, int], int]
) -> Iterator[str]:
    name = f"dedup_operator_{short}"
    yield f"# HELP {name} {family.told}\n# TYPE {name} {family.kind}\n"
    for value in family.values:
        labels = [f'{family.label}="{value}"'] if family.label else []
        total = sums.get((short, value), 0)
        if not family.bounds:
            yield _line(name, labels, total)
            continue
        seen = 0
        for number, bound in enumerate((*map(float, family.bounds), math.inf)):
            seen += fallen.get((short, value, number), 0)
            most = "+Inf" if math.isinf(bound) else repr(bound)
            yield _line(f"{name}_bucket", [*labels, f'le="{most}"'], seen)
        yield _line(f"{name}_sum", labels, total)
        yield _line(f"{name}_count", labels, seen)


def _line(name: str, labels: Sequence[str], value: float) -> str:
    told = f"{{{','.join(labels)}}}" if labels else ""
    return f"{name}{told} {float(value)!r}\n"


def measured(
    before: Status, after: Status, tasks: Sequence[Task], now_unix_s: float
) -> Iterator[tuple[str, float, str]]:
    """What a step from one status to the next adds: names, amounts and values of labels. Pure."""
    same = before.observed_run_token == after.observed_run_token
    if before.state and after.state and same and tasks and before.state != after.state:
        yield from _of_stages(before.state.state, after.state.state, tuple(tasks), now_unix_s)
    if after.verdict is not None and not (same and before.verdict):
        yield "verdicts_total", 1, after.verdict.value
        counts = [each.counts for system in after.systems for each in system.variants if each.counts]
        yield "duplicates_total", _sum(counts, "values_with_duplicates"), ""
        yield "lost_total", _sum(counts, "not_received"), ""


def _of_stages(old: State, new: State, tasks: tuple[Task, ...], now_unix_s: float) -> Iterator[tuple[str, float, str]]:
    over = new.cursor > old.cursor or (old.provisioning and not new.provisioning)
    if over and old.intended:
        stage = current(tasks, old)[0].stage.value
        yield "stage_seconds", max(0.0, now_unix_s - old.since_unix_s), stage
    yield "runs_total", max(0, runs_over(tasks, new.cursor) - runs_over(tasks, old.cursor)), ""
    yield "task_failures_total", new.failures - old.failures, ""


def _sum(counts: Sequence[Sums], name: str) -> int:
    return sum(getattr(each, name) for each in counts)


NOT_READY: Final = """no experiment is watched; the cluster has to know the kind DedupExperiment; \
install its definition: kubectl apply --server-side --filename charts/dedup-operator/crds/
"""


IDLE_S: Final = 5.0
"""How long a connection may say nothing, or take nothing."""
CONNECTIONS: Final = 32
"""At most at a time; each has a thread."""


class _Server(ThreadingHTTPServer):
    """At the port of every address of ours, of IPv6 and of IPv4: a cluster may have either, and the kubelet asks it."""

    request_queue_size = CONNECTIONS

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self._lock, self._open = threading.Lock(), list[Any]()
        super().__init__(("", port), handler)

    def server_bind(self) -> None:
        self.socket.close()
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self.socket = socket.create_server(self.server_address[:2], family=family, dualstack_ipv6=both)
        self.server_name, self.server_port = "", self.socket.getsockname()[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.append(request)
            if len(self._open) > CONNECTIONS:
                with suppress(OSError):  # its peer has gone
                    self._open.pop(0).shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        with self._lock, suppress(ValueError):  # it has made way
            self._open.remove(request)
        super().close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """That a peer goes is not worth a word, which any pod could have it say without end."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def served(
    port: int, text: Callable[[], str], healthy: Callable[[], bool], ready: Callable[[], bool]
) -> ThreadingHTTPServer:
    """Answer at the port in threads of its own, until it is shut down. Port 0: a free one, `server_port`."""

    class Handler(BaseHTTPRequestHandler):
        timeout = IDLE_S

        def do_GET(self) -> None:
            match self.path:
                case "/metrics":
                    self._answer(200, text())
                case "/healthz":
                    well = healthy()
                    self._answer(200 if well else 503, "ok\n" if well else "a thread has died\n")
                case "/readyz":
                    watches = ready()
                    self._answer(200 if watches else 503, "ok\n" if watches else NOT_READY)
                case _:
                    self._answer(404, "there are /healthz, /readyz and /metrics\n")

        def log_message(self, *_arguments: object) -> None:
            """Probes come every few seconds, and nobody wants to read of them."""

        def _answer(self, code: int, words: str) -> None:
            body = words.encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = _Server(port, Handler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
