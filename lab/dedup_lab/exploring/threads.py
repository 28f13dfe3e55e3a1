"""The clients of a run as threads of this process: a short run would spend most of its time on starting processes.

They are the producer and the consumer that every run has, with the same configuration, history and reports.
"""

import sys
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from dedup.errors import EXIT_ERROR, DedupError, PlatformError, one_line
from dedup_lab.children import Cancelled
from dedup_runners import consumer, producer, programs
from dedup_runners.attempt.companions import Companion
from dedup_runners.configs import ConsumerConfig, ProducerConfig

LOOK_S: Final = 0.25

Work = Callable[[str], None]
_BEGUN: Final = threading.Event()


def begin() -> None:
    """From now on client libraries work in this process, in threads that nothing can end."""
    _BEGUN.set()


def leave(code: object) -> None:
    """End the process with this code, without tearing down client libraries that have worked in it; else do nothing.

    Pulsar's threads abort a process that ends in the ordinary way while they live (programs.leave).
    """
    if _BEGUN.is_set():
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = EXIT_ERROR
        programs.leave(code or 0)


def _produce(config: str) -> None:
    producer.produce(ProducerConfig.model_validate_json(config).model_copy(update={"metrics_port": None}))


def _consume(config: str) -> None:
    consumer.consume(ConsumerConfig.model_validate_json(config).model_copy(update={"metrics_port": None}))


WORK: Final[dict[str, Work]] = {"producer": _produce, "consumer": _consume}


class Threads(NamedTuple):
    """Starts the clients of one run (companions.Companions). `ended` is called when one of them has ended."""

    run_id: str
    cancelled: threading.Event
    ended: Callable[[str], None]

    def client(self, role: str) -> "ThreadOf":
        return ThreadOf(f"{role} of {self.run_id}", role, self.cancelled, self.ended)

    def fault(self, name: str) -> Companion:
        raise PlatformError(
            where=f"fault {name}",
            got="a fault of an experiment",
            rule="an exploration has faults of its own",
            todo="take the faults out of the file",
        )


class ThreadOf(Companion):
    """One client. It cannot be ended from outside; it ends by its own time-outs, or with the process."""

    def __init__(self, name: str, role: str, cancelled: threading.Event, ended: Callable[[str], None]) -> None:
        self.name, self._role, self._cancelled, self._ended = name, role, cancelled, ended
        self._over = threading.Event()
        self._words: str | None = None

    def tell(self, config: str) -> None:
        threading.Thread(target=self._run, args=(config,), name=self.name, daemon=True).start()

    def code(self) -> int | None:
        if not self._over.is_set():
            return None
        return 0 if self._words is None else 1

    def pause(self) -> None:
        self._over.wait(LOOK_S)
        if self._cancelled.is_set():
            raise Cancelled

    def give_up(self) -> None:
        """Nothing can end a thread."""

    def failure(self, what: str) -> PlatformError:
        return PlatformError(
            where=self.name, got=what, rule=self._words or "it left no word", todo="see the logs in the run's folder"
        )

    def _run(self, config: str) -> None:
        try:
            WORK[self._role](config)
        except DedupError as error:
            self._words = str(error)
        except Exception as error:  # whatever it is, who waits must hear of it
            self._words = one_line(f"{type(error).__name__}: {error}")
        finally:
            self._over.set()
            self._ended(self._role)
