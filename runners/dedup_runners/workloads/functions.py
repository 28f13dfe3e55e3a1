"""`consumer.function`: a function of Pulsar takes the topic; its worker is killed at a message, and comes back.

Nothing is asked of the function. What it has done are the outputs that are read when it has come to its end, and each
names the process that made it. What it had acknowledged when it was killed is what brokers have of its subscription,
when they have noticed that its consumer is gone. It has come to its end when brokers have the acknowledgement of every
message.
"""

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Worker
from dedup.faults.kill import KILLED as KILLED_CODE
from dedup.wire.manifests import Application, EndPosition, Life, Outputs
from dedup.workloads.kinds import CLOSED, KILLED
from dedup_runners import admins
from dedup_runners.admins.functions import SPACE, Functions
from dedup_runners.configs import ConsumerConfig
from dedup_runners.recording.journals import Observer
from dedup_runners.recording.recorders import Recorder
from dedup_runners.waiting import WaitedTooLong, persistently, until
from dedup_runners.workloads.outputs import Committed, OutputsReader, Reads
from dedup_runners.workloads.workers import Keeping, Lived

DOWN_S: Final = 2.0
"""So long after its kill the worker is started again."""
LEADS_S: Final = 60.0
NOTICED_S: Final = 60.0
REMOVED_S: Final = 30.0
LOOK_S: Final = 0.005
"""Between two looks at how far it is: it does some thousand messages a second."""
ATTEMPT_BITS: Final = 16
"""An output has the number of its process in place of session and attempt, which have so many bits each."""


class Working:
    """A function of one run, from its empty topic of outputs to what lies in it."""

    def __init__(
        self,
        config: ConsumerConfig,
        end: tuple[EndPosition, ...],
        messages: int,
        admin: admins.Admin,
        recorder: Recorder,
        observer: Observer,
        reads: Reads,
    ) -> None:
        """`messages`: so many the audit has read. Where entries hold one each, brokers tell which are acknowledged."""
        assert config.consumer is not None and config.consumer.function is not None
        assert isinstance(config.beside, Worker)
        self._config, self._at, self._asked = config, config.consumer.at.message, config.consumer.function
        self._worker, self._log, self._admin = config.beside, observer.log, admin
        self._messages, self._batched = messages, messages != sum(each.entries for each in end)
        self._name = f"function-of-{config.topic.rpartition('/')[2]}"
        self._found = OfProcesses(recorder)
        self._outputs = OutputsReader(config, admin, observer, reads, self._found)
        self._lives: list[Life] = []
        self._told: dict[str, Any] = {}
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._outputs.stop()

    def run(self, timeout_s: float) -> Application:
        """Let it work, kill its worker in the middle, wait until it is through, and read what it has written."""
        with Keeping(self._worker, self._config.endpoints) as self._kept:
            first = self._kept.now()
            token = self._kept.token(first)
            with Functions(self._config.endpoints, self._worker.url, token) as self._functions:
                return self._done(first, timeout_s)

    def _done(self, first: Lived, timeout_s: float) -> Application:
        deadline = time.monotonic() + timeout_s
        output: Outputs | None = None
        problems: tuple[str, ...] = ()
        try:
            self._begin()
            self._live(first, deadline)
        except (OSError, PlatformError) as error:
            problems = (f"the function: {error}",)
        finally:
            removed = self._removed()
        reached = not problems and removed
        if reached:
            output, problems = self._outputs.read(deadline - time.monotonic())
            output = output.model_copy(update={"end": tuple(map(settled, output.end))})
            problems += (*self._found.strangers(), *self._not_as_asked())
        of_lives = [self._found.of_lives.get(number, 0) for number in range(len(self._lives))]
        return Application(
            reached_end=reached,
            group=self._name,
            library_version=f"Pulsar's function worker {self._worker.version}",
            effective_config={key: str(self._told.get(key)) for key in ("runtime", "parallelism", "autoAck")},
            lives=tuple(
                life.model_copy(update={"processed": done}) for life, done in zip(self._lives, of_lives, strict=True)
            ),
            processed=sum(self._found.of_lives.values()),
            problems=problems if removed else (*problems, "the function: it could not be removed"),
            output=output,
        )

    @property
    def _on(self) -> bool:
        """Whether the topic of outputs deduplicates, as that of inputs."""
        return self._config.topic.startswith(self._admin.topic_name("", True))

    def _not_as_asked(self) -> tuple[str, ...]:
        """What was read shows another thing than was asked for, in words."""
        found = self._found.batched and not self._asked.batches
        return ("the outputs: some came in batches, and they were to come one by one",) if found else ()

    def _begin(self) -> None:
        """Make the topic of outputs, register the function, and read back what it asks for."""
        self._outputs.make(deduplication=self._on)
        until(self._functions.leads, LEADS_S, "the function worker leads", 0.2)
        self._functions.register(self._name, self._registration(), self._worker.package)
        self._told = self._functions.told(self._name)
        if (found := self._told.get("processingGuarantees")) != self._asked.guarantee.pulsars:
            raise PlatformError(
                where=f"function {self._name}",
                got=f"processingGuarantees {found}",
                rule=f"it was registered with {self._asked.guarantee.pulsars}",
                todo="look into the worker's log",
            )

    def _registration(self) -> dict[str, Any]:
        tenant, namespace = SPACE.split("/")
        batching = {} if self._asked.batches else {"producerConfig": {"batchingConfig": {"enabled": False}}}
        return {
            "tenant": tenant,
            "namespace": namespace,
            "name": self._name,
            "className": self._worker.function,
            "jar": self._worker.package,
            "runtime": "JAVA",
            "inputs": [self._config.topic],
            "output": self._outputs.config.topic,
            "processingGuarantees": self._asked.guarantee.pulsars,
            "subName": self._name,
            "subscriptionPosition": "Earliest",
            "autoAck": True,
            "parallelism": 1,
            **batching,
        }

    def _live(self, first: Lived, deadline: float) -> None:
        """Its two lives; a life that does not end as it should is its last one."""
        began_ns = time.monotonic_ns()
        self._await(lambda: self._stored() >= self._at, deadline, f"brokers have {self._at:,} outputs", LOOK_S)
        self._check_restarts()
        struck = self._strike(first)
        committed = None if self._batched or struck.left is None else self._messages - struck.left
        ended = KILLED if struck.code == KILLED_CODE else ""
        self._life("the beginning of the topic", ended, began_ns, committed, struck.written)
        began_ns = time.monotonic_ns()
        second = self._kept.after(first, DOWN_S)
        self._found.processes = (first.number, second.number)
        self._await(lambda: self._backlog() == 0, deadline, "brokers have the acknowledgement of every message")
        self._check_restarts()
        self._check_deduplication()
        alive = self._kept.is_at_work(second)
        where = "what was not acknowledged" if committed is None else f"message {committed + 1:,}"
        left_for_it = None if committed is None else self._messages - committed
        self._life(where, CLOSED if alive else "", began_ns, left_for_it, self._stored() - struck.written)

    def _strike(self, worker: Lived) -> "Struck":
        """Kill the worker, and ask brokers when they have noticed; who keeps it may say later that it is dead."""
        self._kept.kill(worker, DOWN_S)
        gone = "brokers have noticed that the function is gone, and said what it had done before it is back"
        found = until(self._between, NOTICED_S, gone)
        assert found is not None  # what `until` returns is true
        struck = Struck(self._kept.code_of(worker), *found)
        self._log(f"worker {worker.number} was killed: {struck}")
        return struck

    def _between(self) -> tuple[int, int | None] | None:
        """What brokers have of the function while it is away: without consumers before and after; else None.

        The outputs that they had taken, and the entries of the topic that they have no acknowledgement of.
        """
        if self._consumers():
            return None
        found = self._stored(), self._backlog()
        return None if self._consumers() else found

    def _check_restarts(self) -> None:
        """PlatformError if its worker has started the function again besides: that is a life of its own."""
        if restarts := self._functions.restarts(self._name):
            raise PlatformError(
                where=f"function {self._name}",
                got=f"{restarts} starts besides; its worker says: {self._functions.state(self._name)}",
                rule="it is started again only when its worker was killed",
                todo="look into the worker's log",
            )

    def _check_deduplication(self) -> None:
        """PlatformError unless the owners of the topic of outputs say that it deduplicates as asked."""
        found = self._admin.deduplication_in_force(self._outputs.config.topic, self._on)
        if found.in_force is not self._on:
            raise PlatformError(
                where=f"topic {self._outputs.config.topic}",
                got=found.proof,
                rule=f"deduplication is {'on' if self._on else 'off'} for outputs, as for inputs",
                todo="look into the policies of its namespace",
            )

    def _life(self, began: str, ended: str, began_ns: int, committed: int | None, written: int) -> None:
        self._lives.append(
            Life(
                began=f"{began}, by the subscription's acknowledgements",
                ended=ended,
                processed=0,
                committed=committed,
                began_ns=began_ns,
                ended_ns=time.monotonic_ns(),
                written=written,
            )
        )

    def _await(self, condition: Callable[[], bool], deadline: float, what: str, every_s: float = 0.1) -> None:
        """Wait for that within the time of the run; the error says what the worker said of the function last."""
        left_s = max(deadline - time.monotonic(), 0.0)
        try:
            until(lambda: self._stopped or condition(), left_s, what, every_s)
        except WaitedTooLong as error:
            raise OSError(f"{error}; its worker says: {self._functions.state(self._name)}") from None
        if self._stopped:
            raise OSError("it was stopped before its end")

    def _removed(self) -> bool:
        """End the function, and wait until its consumers are gone: it writes no more then. Whether that came."""
        try:
            persistently(lambda: self._functions.remove(self._name), REMOVED_S, f"removal of {self._name}")
            until(lambda: not self._consumers(), NOTICED_S, "the function's consumers are gone")
            return True
        except (OSError, PlatformError) as error:
            self._log(str(error))
            return False

    def _stored(self) -> int:
        return self._functions.stored(self._outputs.config.topic, self._config.topic_partitions)

    def _consumers(self) -> int:
        return self._functions.consumers(self._config.topic, self._config.topic_partitions, self._name)

    def _backlog(self) -> int | None:
        return self._functions.backlog(self._config.topic, self._config.topic_partitions, self._name)


class Struck(NamedTuple):
    """A worker that was killed: its exit code, and what brokers say when they have noticed."""

    code: int
    written: int
    """Outputs that they had taken."""
    left: int | None
    """Entries of the topic that they have no acknowledgement of."""


class OfProcesses(Committed):
    """Takes down each output with the life that made it: the number of its process stands in it."""

    processes: tuple[int, ...] = ()
    """The worker's, life by life."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._seen = set[tuple[int, int, int, int]]()
        self._strangers = set[int]()
        self.batched = False
        """Whether an entry held several outputs."""

    def strangers(self) -> tuple[str, ...]:
        """The processes that made outputs, and are none of the worker's, in words."""
        return tuple(
            f"the outputs: some are of process {each}, no life of the worker" for each in sorted(self._strangers)
        )

    def _lives(self, sessions: NDArray[Any], attempts: NDArray[Any]) -> NDArray[np.int32]:
        processes = sessions.astype(np.int64) << ATTEMPT_BITS | attempts.astype(np.int64)
        self._strangers |= set(processes.tolist()) - set(self.processes)
        numbers = {process: number for number, process in enumerate(self.processes)}
        return np.array([numbers.get(each, len(numbers)) for each in processes.tolist()], np.int32)

    def _first(self, *places: NDArray[Any]) -> NDArray[np.int64]:
        """An entry may be a batch of outputs."""
        self.batched = self.batched or bool((places[3] > 0).any())
        fresh = []
        for row, place in enumerate(zip(*(each.tolist() for each in places), strict=True)):
            if place not in self._seen:
                self._seen.add(place)
                fresh.append(row)
        return np.array(fresh, np.int64)


def settled(end: EndPosition) -> EndPosition:
    """An end of a topic to which nobody writes in transactions: none is open there."""
    return end.model_copy(update={"stable": end.entries})
