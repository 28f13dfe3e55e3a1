"""How an application takes, writes and acknowledges in Pulsar's transactions: by the Java client, which alone has them.

That client is a process beside this one (PulsarJavaApplication.java), which carries out orders. It ends when this one
does, without a farewell. Pulsar has no transactional id: what a killed life has left open stays so until its time-out.
Until then its acknowledgements are pending. If the next life is given the same messages before, and brokers refuse to
acknowledge them in another transaction, it aborts that one, and tries again.
"""

from collections.abc import Sequence
from typing import Any, Final

from dedup.payloads import Message, packed
from dedup.wire.manifests import EndPosition
from dedup_runners.admins.pulsar import PulsarAdmin
from dedup_runners.clients.frames import line
from dedup_runners.clients.processing import POLL_S, Place, Source, Taken, Task, say
from dedup_runners.clients.processing_pulsar import CONNECT_S, group_of, last
from dedup_runners.clients.processing_writing import Aborted, WritingLife, outputs_of
from dedup_runners.clients.programs import started

TRANSACTION_S: Final = 10.0
"""After so long without an end brokers abort a transaction."""


class Client:
    """The Java client; one order at a time."""

    def __init__(self, task: Task) -> None:
        config = task.config
        if config.program is None:
            raise ValueError("nobody said how to start the Java client")
        # A program of a run is started by its own command; this is the application's, of the same library.
        self._process = started(config.program.model_copy(update={"argv": config.program.application}))
        assert self._process.stdin is not None and self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout
        document: dict[str, Any] = {
            "bootstrap": config.endpoints.client_bootstrap,
            "listener": config.endpoints.listener_name,
            "topic": config.topic,
            "outputs": outputs_of(config),
            "subscription": group_of(config),
            "partitions": config.topic_partitions,
            "transaction_ms": round(TRANSACTION_S * 1000),
            "patience_ms": round(min(CONNECT_S, task.timeout_s) * 1000),
        }
        self._orders.write(line(document))
        self.version = " ".join(self._answered()[-1][1:])

    def order(self, *words: object) -> list[list[str]]:
        """What was answered before it was done. Aborted if the transaction was; else OSError."""
        self._orders.write((" ".join(map(str, words)) + "\n").encode())
        return self._answered()[:-1]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        with self._process:  # it is waited for, and its pipes are closed
            pass

    def _answered(self) -> list[list[str]]:
        self._orders.flush()
        found: list[list[str]] = []
        for said in self._answers:
            found.append(said.decode().split())
            if found[-1][0] == "done":
                return found
            if found[-1][0] == "error":
                words = " ".join(found[-1][2:])
                raise Aborted(words) if found[-1][1] == "aborted" else OSError(f"the Java client: {words}")
        raise OSError("the Java client is gone")


class JavaSource(Source):
    """Messages that the Java client takes, over a durable subscription."""

    def __init__(self, task: Task, client: Client) -> None:
        self._client, self.problem, self._committed = client, "", 0
        self._ends = {each.partition: last(each) for each in task.end}
        self._taken = {each: set[Place]() for each in self._ends}
        with PulsarAdmin(task.config.endpoints) as admin:
            self._at = dict(enumerate(admin.mark_deleted(task.config.topic, group_of(task.config))))
        self._left = {each.partition: behind(each, self._at[each.partition]) for each in task.end}
        places = [f"partition {each} after {ledger}:{entry}" for each, (ledger, entry) in self._at.items()]
        say("speaks", client.version)
        say("began", ", ".join([*places, "by the subscription's acknowledgements"]))

    def take(self, most: int) -> list[Taken]:
        batch: list[Taken] = []
        for partition in self._ends:
            if self._over(partition) or len(batch) >= most:
                continue
            for _, ledger, entry, number, payload in self._client.order(
                "take", partition, most - len(batch), round(POLL_S * 1000)
            ):
                place = Place(partition, int(ledger), int(entry), int(number))
                if place in self._taken[partition]:
                    continue  # it is given again after an abort, and this life still has it
                self._taken[partition].add(place)
                batch.append(Taken(place, bytes.fromhex(payload), None))
                self._at[partition] = max(self._at[partition], place[1:3])
        return batch

    def at_end(self) -> bool:
        return all(map(self._over, self._ends))

    def lacking(self) -> str:
        return ", ".join(f"partition {each}: {self._at[each]} of {end}" for each, end in self._ends.items())

    def commit(self, batch: Sequence[Taken]) -> int:
        self.acknowledge(batch, "outside")
        return self.count(batch)

    def acknowledge(self, batch: Sequence[Taken], where: str) -> None:
        """One by one, within the open transaction or outside of it."""
        for place, *_ in batch:
            self._client.order("ack", *place[:3], where)

    def count(self, batch: Sequence[Taken]) -> int:
        """These messages are acknowledged for good; how many are of this life."""
        self._committed += len(batch)
        return self._committed

    def close(self) -> None:
        self._client.close()

    def _over(self, partition: int) -> bool:
        """Whether this life has taken all that was not acknowledged: what was pending comes last, behind the end."""
        return len(self._taken[partition]) >= self._left[partition]


def behind(end: EndPosition, at: tuple[int, int]) -> int:
    """How many entries, each of them a message, a partition has behind a position."""
    ledger, entry = at
    return sum(
        max(0, entries - (entry + 1 if each == ledger else 0)) for each, entries in end.extents if each >= ledger
    )


class Outputs:
    """Outputs that the Java client writes."""

    def __init__(self, task: Task, client: Client) -> None:
        self._client, self._life = client, task.life

    def write(self, batch: Sequence[tuple[int, int, int]], attempt: int) -> None:
        self._client.order("begin")
        for partition, stream, value in batch:
            self._client.order("write", partition, packed(Message(stream, value, self._life, attempt)).hex())
        self._client.order("settle")

    def commit(self) -> None:
        self._client.order("commit")


class PulsarLife(WritingLife):
    """A life that writes in Pulsar's transactions."""

    _source: JavaSource

    def __init__(self, task: Task) -> None:
        self._client = Client(task)
        super().__init__(task, Outputs(task, self._client))

    def live(self) -> None:
        try:
            super().live()
        finally:
            self._client.close()

    def _opened(self, task: Task) -> Source:
        return JavaSource(task, self._client)

    def _say_where_it_begins(self, taken: Sequence[Taken]) -> None:
        """Nothing: what the life before has left pending is given to this one later, behind what comes first."""

    def _say_of_the_rest(self) -> None:
        """Nothing, likewise."""

    def _add(self, batch: Sequence[Taken]) -> None:
        self._source.acknowledge(batch, "within")

    def _count(self, batch: Sequence[Taken]) -> int:
        return self._source.count(batch)


def life(task: Task) -> WritingLife:
    """The life that is to be lived."""
    return PulsarLife(task)
