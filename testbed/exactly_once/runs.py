"""One run: a few orders, a service that is killed after a step of one of them and comes back, and its three effects.

The service, and what counts its effects, are those of `dedup run` (dedup_runners.workloads.services); here many short
runs share brokers and database, and all three effects of a run are kept. A run counts only if the service was killed at
its failure point, came back and committed the last order, and if everything was read that was to come. Otherwise it
has no result, but an error.
"""

import hashlib
import importlib.metadata
import tempfile
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import confluent_kafka as ck
from pydantic import BaseModel, ConfigDict

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup.wire.manifests import EndPosition
from dedup.workloads.consumer import Consumer
from dedup.workloads.kinds import CLOSED, KILLED
from dedup.workloads.restart import End, RestartAt
from dedup.workloads.services import Effect, Pattern, Service, Step
from dedup_lab.systems.debezium import Capture
from dedup_runners import admins
from dedup_runners.clients import chunk_of
from dedup_runners.configs import Beside, ConsumerConfig
from dedup_runners.recording.recorders import Recorder
from dedup_runners.services import events
from dedup_runners.services.orders import Order, events_of
from dedup_runners.workloads.services import Serving
from testbed.exactly_once.patterns import CAPTURE, ONCE, Effects

ORDERS: Final = 5
STRUCK: Final = 3
"""The order at which the service is killed."""
RUN_S: Final = 180.0
ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = (
    "core/dedup/workloads/services.py",
    *(f"runners/dedup_runners/clients/processing{part}.py" for part in ("", "_kafka", "_services")),
    *(f"runners/dedup_runners/services/{part}.py" for part in ("databases", "events", "orders", "payments")),
    "runners/dedup_runners/workloads/services.py",
)
"""The files of the service, and of what counts its effects."""


class Lived(BaseModel):
    """A life of the service: how it ended, and how many orders it had begun.

    `killed`: it was at its failure point, and its process ended by SIGKILL. `closed`: it ended by itself, with code 0.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ended: str
    begun: int


class Made(BaseModel):
    """How a run was made: when, with which dedup and which program (`program`), and how the lives of its service ended.

    `capture`: where Debezium was killed, how its process ended; negative: the signal's number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: datetime
    dedup: str
    program: str
    lives: tuple[Lived, ...]
    capture: int | None = None


class Run(BaseModel):
    """What became of the order at which the service was killed, and of those others that were not processed once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: int
    rows: int
    events: int
    aborted: int = 0
    """Events of that order that only a reader of uncommitted messages is given."""
    others: dict[int, Effects] = {}
    made: Made | None = None
    """None: it is older than this record."""

    @property
    def effects(self) -> Effects:
        return Effects(self.calls, self.rows, self.events)


class Ground(NamedTuple):
    """What runs stand on: it serves many of them, one after the other or side by side."""

    endpoints: Endpoints
    beside: Beside
    capture: Capture

    @property
    def settings(self) -> dict[str, str]:
        """Those of a client of the tester."""
        return {"bootstrap.servers": self.endpoints.direct_bootstrap, "log_level": "0"}


def make(ground: Ground, pattern: Pattern, after: str, name: str) -> Run:
    """Make a run of a pattern, killed at a failure point. PlatformError if it shows nothing."""
    with tempfile.TemporaryDirectory(prefix="exactly-once-") as folder, admins.connect(ground.endpoints) as admin:
        admin.create_topic(name, partitions=1, deduplication=True)
        _send(ground, name)
        recorder = Recorder(Path(folder))
        config = _config(ground, pattern, after, name, Path(folder))
        end = (EndPosition(partition=0, extents=((0, ORDERS),)),)
        serving = Serving(config, end, admin, recorder, lambda _: None)
        try:
            return _found(ground, serving, after, name)
        finally:
            serving.close()
            recorder.close()


def program() -> str:
    """Which program runs are made with: a digest of its files, by their names and contents."""
    digest = hashlib.sha256()
    for name in PROGRAM:
        digest.update(name.encode() + b"\0" + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return digest.hexdigest()[:12]


def _found(ground: Ground, serving: Serving, after: str, name: str) -> Run:
    """Let the service live, and count its effects."""
    stored_ns = ground.capture.stored_ns
    lived = serving.live(RUN_S)
    lives = tuple(Lived(ended=life.ended, begun=life.written or 0) for life in lived.lives)
    if lived.problems or not lived.reached_end or tuple(life.ended for life in lives) != (KILLED, CLOSED):
        ended = ", ".join(life.ended or "?" for life in lives)
        raise _shows_nothing(name, f"its lives ended: {ended}; {'; '.join(lived.problems)}")
    if lives[0].begun != STRUCK:
        raise _shows_nothing(name, f"it was killed when it had begun {lives[0].begun} orders, not {STRUCK}")
    code = None
    if after == CAPTURE:
        serving.effects()  # all events are emitted then
        code = strike(ground.capture, stored_ns, name)
    counted = {effect: _by_order(done) for effect, done in serving.effects().items()}
    every = events.read(ground.settings, events_of(name), 0, committed=False).orders
    found = judged(counted[Effect.CALL], counted[Effect.ROW], counted[Effect.EVENT], _by_order(every))
    at, version = datetime.now(UTC).replace(microsecond=0), importlib.metadata.version("dedup")
    made = Made(at=at, dedup=version, program=program(), lives=lives, capture=code)
    return found.model_copy(update={"made": made})


class Dies(Protocol):
    """Change data capture that can be killed (dedup_lab.systems.debezium)."""

    @property
    def stored_ns(self) -> int: ...
    def kill(self) -> int: ...
    def start(self) -> None: ...


def strike(capture: Dies, stored_ns: int, name: str) -> int:
    """Kill change data capture, and start it again; its exit code.

    PlatformError if it has stored its position since `stored_ns`, for then it has nothing to emit again. That is asked
    when it is dead: until then it may store.
    """
    code = capture.kill()
    try:
        if capture.stored_ns != stored_ns:
            raise _shows_nothing(name, "Debezium stored its position before it was dead")
    finally:
        capture.start()
    return code


def judged(calls: dict[int, int], rows: dict[int, int], seen: dict[int, int], every: dict[int, int]) -> Run:
    """What is kept of the counts of a run; an order that a count does not have was never there.

    `seen`: the events that a reader of committed messages is given; `every`: and one of all. PlatformError if the
    second is given less than the first.
    """
    if fewer := [order for order in seen if every.get(order, 0) < seen[order]]:
        raise _shows_nothing("events", f"a reader of all messages is given fewer events of orders {fewer}")
    of = {
        order: Effects(calls.get(order, 0), rows.get(order, 0), seen.get(order, 0))
        for order in {*range(1, ORDERS + 1), *calls, *rows, *every}
    }
    return Run(
        **of[STRUCK]._asdict(),
        aborted=every.get(STRUCK, 0) - seen.get(STRUCK, 0),
        others={order: each for order, each in sorted(of.items()) if order != STRUCK and each != ONCE},
    )


def _by_order(done: Iterable[Order]) -> dict[int, int]:
    return dict(Counter(order.value for order in done))


def _config(ground: Ground, pattern: Pattern, after: str, name: str, folder: Path) -> ConsumerConfig:
    """The service's; where Debezium is killed the service is killed, too, when it has nothing left to do."""
    step = pattern.steps[-1] if after == CAPTURE else Step(after)
    service = Service(pattern=pattern, after=step, effect=Effect.CALL)
    return ConsumerConfig(
        run_id=name,
        folder=folder,
        endpoints=ground.endpoints,
        topic=name,
        library="confluent-kafka",
        timeout_s=RUN_S,
        consumer=Consumer(at=RestartAt(message=STRUCK), end=End.KILL, service=service),
        beside=ground.beside,
    )


def _send(ground: Ground, topic: str) -> None:
    """Send the orders: 1, 2, …"""
    producer = ck.Producer({**ground.settings, "enable.idempotence": "true"})
    for payload in chunk_of(0, ORDERS, 1).payloads:
        producer.produce(topic, payload.tobytes(), partition=0)
    if left := producer.flush(RUN_S):
        raise _shows_nothing(topic, f"{left} orders were not acknowledged")


def _shows_nothing(run: str, got: str) -> PlatformError:
    return PlatformError(
        where=run,
        got=got,
        rule="a run counts if the service was killed at its failure point, came back and processed all orders",
        todo="read what was said; the next `make exactly-once` makes the run again",
    )
