"""A clean history of random shape, as seeded anomalies find it: what is stored where, and what becomes of it."""

import random
from dataclasses import dataclass, field, replace

from tests.builders import ENDS, NOWHERE, History, Place, rows_of_transaction

from dedup.wire.manifests import OpenTransaction

Message = tuple[int, int]
"""stream, value"""
Send = tuple[int, int]
"""session, attempt"""


@dataclass
class Clean:
    """A history on its way: what is stored in each partition, what the client was told, what was read."""

    dice: random.Random
    logs: list[list[Message]]
    sent: list[Message]
    outcomes: dict[Message, int]
    unread: set[Message] = field(default_factory=set)
    displaced: set[Message] = field(default_factory=set)
    re_read: int | None = None
    moved: tuple[Message, Message] | None = None
    late: Message | None = None
    batch: int = 1
    partitions: tuple[int, ...] = ()
    sessions: int = 0
    sends: dict[Message, list[Send]] = field(default_factory=dict)
    """Of which send the first copy of a message is, the second, …; else of the first."""
    again: list[tuple[Message, Send, int | None]] = field(default_factory=list)
    """Further sends, each with its outcome."""
    lives: list[list[Message]] | None = None
    """What each life of an application processed, if there is one."""
    commits: list[tuple[int, int, Place, int]] | None = None
    """Where each life begins (0) and what it commits (1), with the outcome of that; if it is known."""
    transactions: list[tuple[str, list[Message]]] | None = None
    """The end of each transaction (builders.ENDS) and its messages, if there are some."""
    open: dict[int, list[OpenTransaction]] = field(default_factory=dict)
    """What had not ended in each partition."""
    hidden: set[Message] = field(default_factory=set)
    """What a committed reader is not given; its entries are holes."""

    def pick(self, room: int = 2) -> tuple[list[Message], int]:
        """A partition's log, and a place in it with `room` messages before and behind."""
        log = self.dice.choice(self.logs)
        return log, self.dice.randrange(room, len(log) - room)

    def history(self) -> History:
        """With transactions, nothing is stored beside what is read, and each message has an entry of its own."""
        made = replace(self.without_transactions(), commits=self.committed())
        if self.transactions is None:
            return made
        read = [row for row in made.received if row[5:7] not in self.hidden]
        holes: dict[int, list[int]] = {}
        for row in made.received:
            if row[5:7] in self.hidden:
                holes.setdefault(row[1], []).append(row[3])
        rows: list[tuple[int, ...]] = []
        for number, (end, messages) in enumerate(self.transactions, 1):
            rows += rows_of_transaction(number, [((0, stream), value) for stream, value in messages], ENDS[end])
        received = [(arrival, *row[1:]) for arrival, row in enumerate(read)]
        return replace(made, received=received, transactions=rows, holes=holes, open=self.open)

    def committed(self) -> list[tuple[int, ...]] | None:
        if self.commits is None:
            return None
        return [(life, kind, *at, said, 1, 2) for life, kind, at, said in self.commits]

    def without_transactions(self) -> History:
        places: dict[Message, Place] = {}
        read: list[tuple[int, ...]] = []
        for partition, log in enumerate(self.logs):
            for i, message in enumerate(log):
                place = (partition, 0, i // self.batch, i % self.batch)
                places.setdefault(message, place)
                if message not in self.unread:
                    read.append((*place, *message))
        ends = {partition: {0: -(-len(log) // self.batch)} for partition, log in enumerate(self.logs)}
        if self.moved is not None:
            mover, seat = self.moved
            read = [(*places[seat], *mover) if row[4:] == mover else row for row in read]
        if self.late is not None:
            i = next(i for i, row in enumerate(read) if row[4:] == self.late)
            read[i : i + 2] = read[i + 1], read[i]
        if self.re_read is not None:
            read.insert(self.dice.randrange(self.re_read + 1, len(read) + 1), read[self.re_read])
        outcomes: list[tuple[int, ...]] = []
        for message, outcome in self.outcomes.items():
            partition, ledger, entry, batch = places.get(message, NOWHERE) if outcome == 0 else NOWHERE
            outcomes.append((*message, outcome, partition, ledger, entry + 1000 * (message in self.displaced), batch))
        rows = [(arrival, *row) for arrival, row in enumerate(read)]
        if self.sessions:
            return self.with_sends(outcomes, rows, ends, places)
        return History(self.sent, outcomes, rows, ends, partitions=self.partitions, processed=self.processed(places))

    def processed(self, places: dict[Message, Place]) -> list[tuple[int, ...]] | None:
        if self.lives is None:
            return None
        return [
            (life, *places.get(message, NOWHERE), *message) for life, done in enumerate(self.lives) for message in done
        ]

    def with_sends(
        self,
        outcomes: list[tuple[int, ...]],
        rows: list[tuple[int, ...]],
        ends: dict[int, dict[int, int]],
        places: dict[Message, Place],
    ) -> History:
        copies: dict[tuple[int, ...], list[Send]] = {message: list(sends) for message, sends in self.sends.items()}
        told = [
            (*message, outcome, *places[message], *send) for message, send, outcome in self.again if outcome is not None
        ]
        return History(
            [*((*message, 0, 0) for message in self.sent), *((*message, *send) for message, send, _ in self.again)],
            [*((*row, 0, 0) for row in outcomes), *told],
            [(*row, *(copies[row[5:]].pop(0) if copies.get(row[5:]) else (0, 0))) for row in rows],
            ends,
            partitions=self.partitions,
            sessions=self.sessions,
            processed=self.processed(places),
        )


def clean(seed: int) -> Clean:
    dice = random.Random(seed)
    streams, before = dice.choice([1, 2, 3]), dice.choice([0, 0, 131_060])
    logs = [[(stream, before + 1 + i) for i in range(dice.randint(12, 60))] for stream in range(streams)]
    sent = [message for log in logs for message in log]
    return Clean(dice, logs, sent, dict.fromkeys(sent, 0), partitions=tuple(range(streams)))


Found = dict[str, int]
"""What a judge must count more, or less, than of the clean history."""
