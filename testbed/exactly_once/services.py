"""One life of the service: `python -m testbed.exactly_once.services`, its task as one line of JSON on standard input.

It takes the orders of its topic in a consumer group, and does to each what its pattern says, step by step. At its
failure point it writes `waits` and goes no further: it is killed there. When it has taken all orders it ends in order,
and its last line is `ended`. What it cannot do is its last line on standard error, and the exit code 4.

A group's member that is killed keeps its partitions until its session is over. This one has a name of its own in the
group (`group.instance.id`, KIP-345), as a service that is started again by its platform has, so that the next life
takes its place at once.
"""

import os
import sys
import time
import uuid
from typing import Any, Final

import confluent_kafka as ck
import httpx
import psycopg

from dedup.errors import EXIT_ERROR, one_line
from testbed.exactly_once.patterns import PATTERNS, Step
from testbed.exactly_once.tasks import Task

CALL_S: Final = 30.0


class Known(Exception):
    """The order's id is remembered: it was processed before."""


class Life:
    """A life of the service, from its first order to its last."""

    def __init__(self, task: Task) -> None:
        self._task, self._pattern = task, PATTERNS[task.pattern]
        self._deadline = time.monotonic() + task.timeout_s
        self._database = psycopg.connect(task.database, autocommit=True)
        self._http = httpx.Client(timeout=CALL_S)
        transactional = {"transactional.id": task.run} if self._pattern.has_transactions else {}
        common = {"bootstrap.servers": task.bootstrap}
        self._producer = ck.Producer({**common, "enable.idempotence": "true", "linger.ms": "0", **transactional})
        if transactional:
            self._producer.init_transactions(CALL_S)
        self._orders = ck.Consumer(
            {
                **common,
                "group.id": task.run,
                "group.instance.id": "service",
                "enable.auto.commit": "false",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._orders.subscribe([task.taken])
        self._taken: Any = None

    def live(self) -> None:
        """Process orders until all are processed, or until this life is killed."""
        while self._take() is not None:
            order = int(self._taken.value())
            try:
                for step in self._pattern.steps:
                    self._do(step, order)
                    if self._task.at == (order, step):
                        self._wait()
            except Known:
                self._database.execute("ROLLBACK")
                self._commit_offset()
        self._orders.close()
        say("ended")

    def _take(self) -> Any:
        """The next order; None if the one before was the last."""
        if self._taken is not None and self._taken.offset() + 1 >= self._task.orders:
            return None
        while True:
            if time.monotonic() > self._deadline:
                raise TimeoutError(f"no order within {self._task.timeout_s:g} s")
            message = self._orders.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                raise ck.KafkaException(message.error())
            self._taken = message
            return message

    def _do(self, step: Step, order: int) -> None:
        """One step of an order, done for good when this returns. Known if the order was processed before."""
        task, execute = self._task, self._database.execute
        match step:
            case Step.TAKE:
                pass  # it is taken
            case Step.CALL:
                self._http.post(task.payments, json={"run": task.run, "order": order}).raise_for_status()
            case Step.BEGIN:
                execute("BEGIN")
            case Step.REMEMBER:
                remembered = execute("INSERT INTO remembered VALUES (%s, %s) ON CONFLICT DO NOTHING", (task.run, order))
                if not remembered.rowcount:
                    raise Known
            case Step.ROW:
                execute("INSERT INTO payments VALUES (%s, %s, %s)", (task.run, order, task.life))
            case Step.OUTBOX:
                event = (uuid.uuid4(), task.emitted, str(order), "paid", str(order))
                execute("INSERT INTO outbox VALUES (%s, %s, %s, %s, %s)", event)
            case Step.COMMIT:
                execute("COMMIT")
            case _:
                self._do_in_kafka(step, order)

    def _do_in_kafka(self, step: Step, order: int) -> None:
        match step:
            case Step.BEGIN_KAFKA:
                self._producer.begin_transaction()
            case Step.EMIT:
                self._emit(order)
            case Step.OFFSET:
                self._commit_offset()
            case Step.OFFSET_IN_KAFKA:
                group = self._orders.consumer_group_metadata()
                self._producer.send_offsets_to_transaction([self._next()], group, CALL_S)
            case Step.COMMIT_KAFKA:
                self._producer.commit_transaction(CALL_S)

    def _emit(self, order: int) -> None:
        """Emit an event; it is stored when this returns."""
        answers = list[ck.KafkaError | None]()
        self._producer.produce(
            self._task.emitted, str(order), str(order), on_delivery=lambda error, _: answers.append(error)
        )
        self._producer.flush(CALL_S)
        if answers != [None]:
            raise TimeoutError(f"the event of order {order} was not acknowledged: {answers or 'no answer'}")

    def _next(self) -> ck.TopicPartition:
        """The position behind the order at hand."""
        return ck.TopicPartition(self._task.taken, self._taken.partition(), self._taken.offset() + 1)

    def _commit_offset(self) -> None:
        for each in self._orders.commit(offsets=[self._next()], asynchronous=False) or []:
            if each.error is not None:
                raise ck.KafkaException(each.error)

    def _wait(self) -> None:
        """Go no further; a tester that is gone ends this."""
        say("waits")
        sys.stdin.read()
        os._exit(EXIT_ERROR)


def say(word: str) -> None:
    print(word, flush=True)


def main() -> int:
    """Live once, as standard input says."""
    if not (line := sys.stdin.readline()):
        return 0
    try:
        Life(Task.model_validate_json(line)).live()
    except (OSError, ValueError, ck.KafkaException, httpx.HTTPError, psycopg.Error) as error:
        print(one_line(str(error)), file=sys.stderr)
        return EXIT_ERROR
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)
