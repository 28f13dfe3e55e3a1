"""One life of a service: it does the steps of its pattern to each order, one by one (dedup.workloads.services).

A step is done for good, or is in the open transaction, when the next one begins. After its failure point a life waits
until it is killed. An order that comes back, and whose id is remembered, is left alone, and its offset is committed.
"""

import json
import time
import urllib.request
from collections.abc import Sequence
from typing import Any, Final

import confluent_kafka as ck
import psycopg

from dedup.wire.manifests import Committed
from dedup.workloads.services import Step
from dedup_runners import credentials
from dedup_runners.clients.processing import Life, Taken, Task, say
from dedup_runners.clients.processing_kafka import Source, group_of
from dedup_runners.configs import Beside
from dedup_runners.services.orders import Order, events_of

ANSWER_S: Final = 30.0


class Known(Exception):
    """The order's id is remembered: it was processed before."""


class ServiceLife(Life):
    """A life of a service."""

    _source: Source

    def __init__(self, task: Task) -> None:
        service, beside = task.asked.service, task.config.beside
        assert service is not None and isinstance(beside, Beside)
        self._pattern, self._after, self._run = service.pattern, service.after, task.config.topic
        self._database = psycopg.connect(beside.database, autocommit=True)
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the payments are on this machine
        transactional = {"transactional.id": group_of(task.config)} if self._pattern.has_transactions else {}
        self._producer = ck.Producer(
            {
                "bootstrap.servers": task.config.endpoints.client_bootstrap,
                "enable.idempotence": "true",
                "linger.ms": "0",
                "log_level": "0",
                **transactional,
                **credentials.librdkafka(task.config.endpoints.for_clients),
            }
        )
        if transactional:  # before the group is asked where to begin: it ends what the life before has left open
            self._producer.init_transactions(ANSWER_S)
        super().__init__(task)

    def live(self) -> None:
        try:
            super().live()
        except psycopg.Error as error:
            raise OSError(f"{type(error).__name__}: {error}") from error

    def _most(self) -> int:
        return 1

    def _do(self, batch: Sequence[Taken]) -> None:
        (order,) = batch
        self._done += 1
        say("wrote", self._done)
        try:
            for step in self._pattern.steps:
                self._step(step, order)
                if step is self._after:
                    self._wait_if_over()
        except Known:
            self._database.execute("ROLLBACK")
            self._commit(batch)

    def _step(self, step: Step, taken: Taken) -> None:
        """Do one step. Known if the order was processed before."""
        order, execute = self._order(taken), self._database.execute
        match step:
            case Step.TAKE:
                pass  # it is taken
            case Step.CALL:
                with self._http.open(self._task.payments, json.dumps(order._asdict()).encode(), ANSWER_S):
                    pass  # it was answered, and with a status that is no error
            case Step.BEGIN:
                execute("BEGIN")
            case Step.REMEMBER:
                insert = "INSERT INTO remembered VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
                if not execute(insert, (self._run, order.stream, order.value)).rowcount:
                    raise Known
            case Step.ROW:
                execute("INSERT INTO payments VALUES (%s, %s, %s, %s, %s, %s)", (self._run, *order))
            case Step.OUTBOX:
                insert = "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES (%s, %s, 'paid', %s)"
                execute(insert, (events_of(self._run), f"{order.stream} {order.value}", order.text))
            case Step.COMMIT:
                execute("COMMIT")
            case _:
                self._step_in_kafka(step, taken, order)

    def _step_in_kafka(self, step: Step, taken: Taken, order: Order) -> None:
        match step:
            case Step.BEGIN_KAFKA:
                self._producer.begin_transaction()
            case Step.EMIT:
                self._emit(order)
            case Step.OFFSET:
                self._commit([taken])
            case Step.OFFSET_IN_KAFKA:
                self._say_what_it_covers([taken])
                positions = self._source.positions([taken])
                self._producer.send_offsets_to_transaction(positions, self._source.group(), ANSWER_S)
            case Step.COMMIT_KAFKA:
                say("asks", time.monotonic_ns())
                self._producer.commit_transaction(ANSWER_S)
                say("answered", int(Committed.CONFIRMED), time.monotonic_ns())
                say("committed", self._source.count([taken]))

    def _emit(self, order: Order) -> None:
        """Emit an event; it is stored when this returns."""
        answers = list[ck.KafkaError | None]()
        self._producer.produce(
            events_of(self._run), order.text, partition=0, on_delivery=lambda error, _: answers.append(error)
        )
        self._producer.flush(ANSWER_S)
        if answers != [None]:
            raise TimeoutError(f"the event of order {order.text} was not acknowledged: {answers or 'no answer'}")

    def _order(self, taken: Taken) -> Order:
        place: Any = taken.place
        return Order(self._task.life, place.partition, place.entry, *self._identity(taken))
