"""A producer of librdkafka that sends in transactions.

librdkafka says of each error whether the call may be repeated, whether the transaction must be aborted, or whether the
producer is of no use any more. Only a call that returns without an error settles a transaction; of one that ends in an
error of the last kind nobody knows whether it was committed.
"""

import time
from collections.abc import Callable
from typing import Final

import confluent_kafka as ck

from dedup.errors import PlatformError
from dedup.wire.clients import Noticed
from dedup.wire.manifests import Asked, Ended
from dedup_runners.clients import native
from dedup_runners.clients.confluent_kafka import Producer
from dedup_runners.configs import ProducerConfig

STEP_S: Final = 1.0
"""A call is repeated after so long: it goes on where it was."""
FENCES: Final = frozenset({ck.KafkaError._FENCED, ck.KafkaError.INVALID_PRODUCER_EPOCH, ck.KafkaError.PRODUCER_FENCED})
"""The errors which say that another instance of the transactional id has taken this one's place."""


class TransactionalProducer(Producer):
    """One producer with a transactional id. After `failed` it takes no further transaction."""

    failed = ""
    """Why the client is of no use any more, in words; empty as long as it is."""
    fenced = False
    """Whether that is because another instance has taken its place."""

    def _more(self, config: ProducerConfig) -> dict[str, str]:
        assert config.transactions is not None
        timeout_s = config.transactions.timeout_s
        return {
            "transactional.id": config.producer_name,
            "transaction.timeout.ms": str(round(timeout_s * 1000)),
            "message.timeout.ms": str(round(min(timeout_s, config.delivery_timeout_s) * 1000)),
        }

    def connect(self, timeout_s: float) -> None:
        """Also end what an earlier producer of the same transactional id has left open."""
        super().connect(timeout_s)
        deadline = time.monotonic() + timeout_s
        if error := self._until_done(self._client.init_transactions, deadline):
            raise PlatformError(
                where=f"transactional id {self.effective_config['transactional.id']}",
                got=error.words,
                rule=f"brokers give a transactional producer its id within {timeout_s:g} s",
                todo="look at the brokers' logs: __transaction_state must have its replicas in sync",
            )

    def settle(self) -> None:
        """Return when every message sent has its final outcome."""
        self.finish()

    def begin(self) -> None:
        """Begin a transaction."""
        if error := self._client.begin_transaction():
            self._give_up(error)

    def end(self, asked: Asked, timeout_s: float) -> Ended:
        """Commit or abort; what became of it. A commit that cannot be is aborted instead."""
        deadline = time.monotonic() + timeout_s
        if self.failed:
            return Ended.UNKNOWN
        if asked is Asked.COMMIT:
            error = self._until_done(self._client.commit_transaction, deadline)
            if error is None:
                return Ended.COMMITTED
            self._witnesses.disturbed(Noticed.ERROR, f"commit: {error.name}: {error.words}")
            if not error.aborts:
                self._give_up(error)
                return Ended.UNKNOWN
        error = self._until_done(self._client.abort_transaction, deadline)
        if error is None:
            return Ended.ABORTED
        self._give_up(error)
        return Ended.UNKNOWN

    def _until_done(self, call: Callable[[float], native.Failure | None], deadline: float) -> native.Failure | None:
        """Repeat a call as long as it may be; None when it is done, else the error."""
        while True:
            self._serve(0)
            error = call(STEP_S)
            self._drain()
            if error is None or not error.again or time.monotonic() > deadline:
                return error

    def _give_up(self, error: native.Failure) -> None:
        self.failed = self.failed or f"{error.name}: {error.words}"
        self.fenced = self.fenced or error.code in FENCES
        self._witnesses.disturbed(Noticed.ERROR, f"the client has given up: {self.failed}")
