"""A client that is a program, and sends in transactions: it is ordered to begin, to settle, to commit and to abort.

Each of these orders is answered by one frame before the next order comes. Messages name their session, and have their
numbers in the run: a session that takes over begins with the first message that was not sent.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dedup.wire.manifests import Asked, Ended
from dedup_runners.clients import Outcomes, Witnesses, named, numbers_of
from dedup_runners.clients import frames as wire
from dedup_runners.clients.frames import Frame, Kind
from dedup_runners.clients.programs import GRACE_S, LEAVE_S, Producer
from dedup_runners.configs import ProducerConfig

ENDS = {"committed": Ended.COMMITTED, "aborted": Ended.ABORTED}
"""What settles a transaction; nothing else that a program can answer does."""
ANSWERS = {"begin": {"begun"}, "settle": {"settled"}, "commit": {"committed", "aborted"}, "abort": {"aborted"}}
"""What can be answered to each order, besides `unknown`."""


class TransactionalProgram(Producer):
    """One session of a transactional producer that is a program."""

    def __init__(
        self, config: ProducerConfig, record: Callable[[Outcomes], None], witnesses: Witnesses, **more: Any
    ) -> None:
        self.failed, self.fenced = "", False
        self._first, self._calls, self._told = config.life.first, 0, ""
        self._pending = ""  # the order that waits for its answer
        super().__init__(config, record, witnesses, **more)

    def begin(self) -> None:
        """Begin a transaction; its client may ask brokers for one as long as for the end of one."""
        self._call("begin", self._patience_s + GRACE_S)

    def settle(self) -> None:
        """Return when every message sent has its final outcome."""
        self._call("settle", self._patience_s + GRACE_S)
        self._drain()

    def end(self, asked: Asked, timeout_s: float) -> Ended:
        """Commit or abort; what became of it. A commit that cannot be is aborted instead."""
        if self.failed:
            return Ended.UNKNOWN
        return ENDS.get(self._call(asked.name.lower(), 2 * timeout_s + GRACE_S), Ended.UNKNOWN)

    def close(self) -> None:
        """See the program out, which closes its client if it still can."""
        self._order(b"finish\n")
        self._await(lambda: self._finished, LEAVE_S)
        self._end()

    def _call(self, order: str, timeout_s: float) -> str:
        """Give an order, and wait for its answer; empty if the program is gone."""
        with self._changed:
            calls, self._told, self._pending = self._calls, "", order
        self._order(f"{order}\n".encode())
        if not self._await(lambda: self._calls > calls, timeout_s) and not self._over:
            self._give_up(f"no answer to {order} within {timeout_s:g} s")
        return self._told

    def _take_state(self, frame: Frame) -> None:
        if frame.kind is not Kind.ENDED:
            super()._take_state(frame)
            return
        told = wire.called(frame)
        with self._changed:
            if told.ended not in {*ANSWERS.get(self._pending, ()), *(["unknown"] if self._pending else [])}:
                raise wire.Garbled(f"the answer {told.ended} to {self._pending or 'no order'}")
            self._pending = ""
            self._calls, self._told, self.failed = self._calls + 1, told.ended, self.failed or told.failed
            self.fenced = self.fenced or told.fenced
            self._changed.notify_all()

    def _document(self, config: ProducerConfig) -> dict[str, Any]:
        return super()._document(config) | wire.in_transactions(config)

    def _numbers(self, outcomes: Outcomes) -> Any:
        numbers = numbers_of(outcomes, self._streams) - self._first
        if len(numbers) and numbers.min() < 0:
            raise wire.Garbled("an outcome of a message that is not of this session")
        return numbers

    def _messages(self, numbers: Any) -> tuple[Any, Any]:
        return named(numbers + self._first, self._streams)

    def _waiting(self, sent: int, ended: Any, partition: int | None) -> int:
        streams, _ = self._messages(np.arange(sent))
        left = np.maximum(np.bincount(streams, minlength=self._streams) - ended, 0)
        return int(left.sum() if partition is None else left[partition])
