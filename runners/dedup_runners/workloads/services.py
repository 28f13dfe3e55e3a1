"""`consumer.service`: the lives of a service, and what came of each order, counted where its effects are.

What a service says of itself is not asked. Calls are counted by the payment service that it called, rows by the
database, and events by a reader of committed messages; one of the three is what this run processes messages by.
"""

import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import numpy as np

from dedup.errors import PlatformError
from dedup.wire.manifests import Application, EndPosition
from dedup.workloads.services import Effect
from dedup_runners import admins, credentials
from dedup_runners.configs import Beside, ConsumerConfig
from dedup_runners.recording.recorders import Recorder
from dedup_runners.services import events
from dedup_runners.services.databases import Database
from dedup_runners.services.orders import Order, events_of
from dedup_runners.services.payments import Payments
from dedup_runners.workloads.consumer import Lives

TYPES: Final = (np.int32, np.int32, np.int64, np.int64, np.int32, np.int32, np.int64)


class Serving:
    """A service of one run, from its empty topic of events to its effects."""

    def __init__(
        self,
        config: ConsumerConfig,
        end: tuple[EndPosition, ...],
        admin: admins.Admin,
        recorder: Recorder,
        log: Callable[[str], None],
    ) -> None:
        assert config.consumer is not None and config.consumer.service is not None and isinstance(config.beside, Beside)
        self._config, self._service, self._admin, self._recorder = config, config.consumer.service, admin, recorder
        self._topic = events_of(config.topic)
        self._database = Database(config.beside.database, config.beside.psql)
        self._payments = Payments()
        self._lives = Lives(config, end, recorder, log, payments=self._payments.url)
        self._beside: list[list[str]] = []

    def stop(self) -> None:
        self._lives.stop()

    def run(self, timeout_s: float) -> Application:
        """Let it live, and count what it has done."""
        try:
            lived = self.live(timeout_s)
            done = self.effects()[self._service.effect] if lived.reached_end else ()
            self._check_beside()
        finally:
            self.close()
        with suppress(PlatformError):  # what was read is complete; a topic left behind goes with its system
            self._admin.delete_topic(self._topic)
        self._record(done)
        of_lives = Counter(order.life for order in done)
        lives = tuple(
            life.model_copy(update={"processed": of_lives[number]}) for number, life in enumerate(lived.lives)
        )
        return lived.model_copy(update={"lives": lives, "processed": len(done)})

    def close(self) -> None:
        """End the payment service."""
        self._payments.close()

    def live(self, timeout_s: float) -> Application:
        """Make the topic of events, and let the service live twice, when what it writes is captured."""
        if self._service.pattern.has_outbox:
            self._database.wait_captured()
        self._beside = self._database.lives()
        self._admin.create_topic(self._topic, partitions=1, deduplication=True)
        return self._lives.run(timeout_s)

    def _check_beside(self) -> None:
        """PlatformError if what stands beside the brokers was started again: its losses are not the service's."""
        if (found := self._database.lives()) != self._beside:
            raise PlatformError(
                where="the database beside the brokers, and who captures its outbox",
                got=f"{found}, which was {self._beside}",
                rule="both live as long as the run: rows that they lose and events that they repeat would be counted",
                todo="read why they ended (in a cluster: kubectl describe pod), and run it again",
            )

    def effects(self) -> dict[Effect, tuple[Order, ...]]:
        """What it has done, once for each time that it did it."""
        last = f"{events.LAST}{uuid.uuid4()}" if self._service.pattern.has_outbox else ""
        if last:
            self._database.put_last(self._topic, last)
        endpoints = self._config.endpoints
        settings = {
            "bootstrap.servers": endpoints.direct_bootstrap,
            "log_level": "0",
            **credentials.librdkafka(endpoints.security),
        }
        return {
            Effect.CALL: self._payments.calls,
            Effect.ROW: self._database.rows(self._config.topic),
            Effect.EVENT: events.settled(settings, self._topic, 0, last),
        }

    def _record(self, done: tuple[Order, ...]) -> None:
        rows = [(of.life, of.partition, 0, of.offset, 0, of.stream, of.value) for of in done]
        if rows:
            columns = zip(*rows, strict=True)
            self._recorder.write(
                "processed", tuple(np.array(column, kind) for column, kind in zip(columns, TYPES, strict=True))
            )
