"""A session of a producer that is a process of its own (dedup_runners.clients.serving), as seen from who orders it.

The process can be killed at any time. Everything that it has said until then is kept.
"""

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dedup.experiment.clients import CLIENTS
from dedup_runners.clients import Int64s, Outcomes, Witnesses, named, numbers_of
from dedup_runners.clients import frames as wire
from dedup_runners.clients.programs import LEAVE_S, Producer, started
from dedup_runners.configs import ProducerConfig, Program

PROGRAM: Final = Program(argv=(sys.executable, "-P", "-m", "dedup_runners.clients.serving"))


def start(program: Program | None) -> "subprocess.Popen[bytes]":
    """A process that loads what it needs, and waits to be told what to do. `program`: of a version that was chosen."""
    return started(program or PROGRAM)


class SessionClient(Producer):
    """One session, as seen from the producer: it orders the process, and takes down what it says."""

    def __init__(
        self,
        config: ProducerConfig,
        record: Callable[[Outcomes], None],
        witnesses: Witnesses,
        process: "subprocess.Popen[bytes]",
    ) -> None:
        self._plan: Int64s = np.empty(0, np.int64)
        self.was_killed = False
        config = config.model_copy(update={"program": config.program or PROGRAM})
        super().__init__(config, record, witnesses, process)

    def plan(self, messages: Int64s) -> None:
        """Say which messages this session is to send: of each stream all from one on, in the order of the run."""
        self._plan = messages
        streams, values = self._messages(np.arange(len(messages)))
        after = np.full(self._streams, np.iinfo(np.int64).max)
        np.minimum.at(after, streams, values - 1)
        self._order(b"after %s\n" % ",".join(map(str, after.tolist())).encode())

    def kill(self) -> Int64s:
        """End the process by SIGKILL; the messages that it has sent, and of which it has told no outcome.

        It is a problem if it was not heard to its end.
        """
        self._killed = True
        self._process.send_signal(signal.SIGKILL)
        self._await(lambda: False, LEAVE_S)
        code = self._process.wait(LEAVE_S)
        self._end()
        if not self._over:  # an outcome may be among what is still to come, and would be recorded as unknown
            self.problem = self.problem or self._blamed("it was killed, and was not heard to its end")
        self.was_killed = code == -signal.SIGKILL and not self.problem
        self._drain()
        left: Int64s = self._plan[self._under_way.left(self._asked)]
        return left

    def _document(self, config: ProducerConfig) -> dict[str, Any]:
        if CLIENTS[config.library].is_installed:  # a program of ours, which takes the whole config
            return config.model_dump(mode="json", exclude={"program"})
        without_end = {"delivery_timeout_ms": 0} if config.life.resumes else {}
        return wire.document(config) | wire.in_sessions(config) | without_end

    def _numbers(self, outcomes: Outcomes) -> Int64s:
        messages = numbers_of(outcomes, self._streams)
        places: Int64s = np.searchsorted(self._plan, messages)
        if (places >= len(self._plan)).any() or (self._plan[places] != messages).any():
            raise wire.Garbled("an outcome of a message that is not of this session")
        return places

    def _messages(self, numbers: Any) -> tuple[Any, Any]:
        return named(self._plan[numbers], self._streams)

    def _waiting(self, sent: int, ended: Any, partition: int | None) -> int:
        streams, _ = self._messages(np.arange(sent))
        left = np.maximum(np.bincount(streams, minlength=self._streams) - ended, 0)
        return int(left.sum() if partition is None else left[partition])
