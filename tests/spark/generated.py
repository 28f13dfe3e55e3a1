"""Histories at random, from one seed each: a producer, a broker and a consumer that misbehave in every way we count.

A history begins as what an honest run would leave, and then a few accidents happen to it: blocks are stored again,
values vanish, neighbours are shuffled, messages are re-read, positions collide, outcomes contradict themselves. Small
numbers make the accidents meet."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.builders import ENDS, History, rows_of_transaction

from dedup.wire.manifests import OpenTransaction

BUCKET: Final = 1 << 17
"""Some streams begin just below this value, where islands are cut (dedup_spark/engine/islands.py)."""

Read = tuple[int, int, int, int, int, int]
"""partition, ledger, entry, batch, stream, value"""


def history_of(seed: int) -> History:
    """The history that `seed` stands for; a few of them are empty, honest, or long enough to have long islands.

    Each stream has a partition of its own, or all take turns in one.
    """
    dice = random.Random(seed)
    streams, messages = dice.choice([1, 2, 2, 3, 3]), dice.choice([0, 1, 12, 30, 30, 50, 80, 80, 80])
    before = dice.choice([0, 0, 0, BUCKET - 9])
    sent = [(i % streams, before + i // streams + 1) for i in range(messages)]
    logs: list[list[tuple[int, int]]] = [[] for _ in range(streams)]
    together = dice.random() < 0.4
    for stream, value in sent:
        logs[0 if together else stream].append((stream, value))
    for accident in dice.sample(STORED, dice.choice([0, 1, 1, 2, 4])):
        accident(dice, logs)
    place = dice.choice([_offsets, _batches, _ledgers])
    read = [row for partition, log in enumerate(logs) for row in place(dice, partition, log)]
    first: dict[tuple[int, int], Read] = {}
    for row in read:
        first.setdefault((row[4], row[5]), row)
    outcomes: list[tuple[int, ...]] = _outcomes(dice, sent, first)
    ends = _ends(dice, read)
    read = _interleaved(dice, read)
    for misreading in dice.sample(MISREAD, dice.choice([0, 0, 1, 2])):
        misreading(dice, read)
    for forgetting in (sent, outcomes):
        if forgetting and dice.random() < 0.25:
            forgetting.pop(dice.randrange(len(forgetting)))
    received: list[tuple[int, ...]] = [(arrival, *row) for arrival, row in enumerate(read)]
    processed = _processed(dice, read)
    commits = None if processed is None or dice.random() < 0.2 else _commits(dice, read)
    if dice.random() < 0.45:
        history = History(sent, outcomes, received, ends, processed=processed, commits=commits)
    else:
        history = replace(_with_sends(dice, sent, outcomes, received, ends), processed=processed, commits=commits)
    return with_transactions(dice, history) if dice.random() < 0.35 else history


def transactional(seed: int) -> History:
    """The history of that seed, with transactions in any case."""
    history = history_of(seed)
    return history if history.transactions is not None else with_transactions(random.Random(seed), history)


def with_transactions(dice: random.Random, history: History) -> History:
    """The same, sent in transactions of a few messages each; some entries hold no message, read or not.

    Of a transaction that is not to be read some messages are mostly taken out of what was read, or all.
    """
    messages = list(dict.fromkeys(row[:2] for row in history.sent))
    rows: list[tuple[int, ...]] = []
    hidden = set[tuple[int, ...]]()
    number = begin = 0
    while begin < len(messages):
        number, size = number + 1, dice.choice([1, 3, 4, 10])
        part, begin = messages[begin : begin + size], begin + size
        if dice.random() < 0.03:
            continue
        end = ENDS[dice.choice(["committed", "committed", *ENDS])]
        rows += rows_of_transaction(number, [((0, stream), value) for stream, value in part], end)
        if end != ENDS["committed"] or dice.random() < 0.1:
            hidden |= set(dice.choice([part, part, part[1:], part[::2], []]))
    dice.shuffle(rows)
    kept = [row[1:] for row in history.received if row[5:7] not in hidden]
    unread = {(row[1], row[3]) for row in history.received} - {(row[0], row[2]) for row in kept}
    holes: dict[int, list[int]] = {}
    for partition, entry in sorted(unread):
        if dice.random() < 0.8:
            holes.setdefault(partition, []).append(entry)
    received = [(arrival, *row) for arrival, row in enumerate(kept)]
    open_ = {end.partition: _open(dice, end.entries) for end in history.end_positions() if dice.random() < 0.3}
    return replace(history, received=received, ends=history.ends, transactions=rows, holes=holes, open=open_)


def _open(dice: random.Random, entries: int) -> list[OpenTransaction]:
    """Transactions that had not ended in a partition; some hang. Sometimes there are more than a judge names."""
    number = dice.choice([1, 1, 2, 15])
    begun = sorted(dice.choices(range(max(1, entries)), k=number))
    return [
        OpenTransaction(
            producer_id=producer,
            epoch=dice.randrange(3),
            first=first,
            seen_s=dice.choice([0.0, 0.5, 70.0]),
            due_s=dice.choice([0.0, 0.5, 70.0]),
        )
        for producer, first in enumerate(begun)
    ]


def _processed(dice: random.Random, read: list[Read]) -> list[tuple[int, ...]] | None:
    """An application's lives: each begins somewhere, before or behind where the last one ended. Or there is none."""
    if dice.random() < 0.6:
        return None
    rows: list[tuple[int, ...]] = []
    at = 0
    for life in range(dice.choice([1, 2, 2, 3])):
        begin = max(0, at + dice.choice([-5, 0, 0, 3]))
        at = len(read) if dice.random() < 0.5 else dice.randint(0, len(read))
        rows += [(life, *row) for row in read[begin:at]]
    if dice.random() < 0.3:
        rows.append((0, 0, 0, 0, 0, dice.randrange(3), dice.choice([1, 9, 131_072])))
    return rows


def _commits(dice: random.Random, read: list[Read]) -> list[tuple[int, ...]]:
    """Where lives begin and what they commit, mostly in order, now and then anywhere, or where nothing was read."""
    rows: list[tuple[int, ...]] = []
    for life in range(dice.choice([1, 2, 2, 3, 4])):
        for partition in range(3):
            places = sorted(row[:4] for row in read if row[0] == partition)
            at = dice.randrange(len(places)) if places else 0
            for kind in (0, *[1] * dice.choice([0, 1, 2, 4])):
                if not places or dice.random() < 0.05:
                    place: tuple[int, ...] = (
                        partition,
                        dice.choice([0, 3, 5, 8]),
                        dice.randrange(9),
                        dice.randrange(3),
                    )
                else:
                    at = min(at + dice.choice([0, 1, 1, 5]), len(places) - 1)
                    place = places[at]
                rows.append((life, kind, *place, kind * dice.choice([0, 0, 0, 1, 2]), 1, 2))
    return rows


def _with_sends(
    dice: random.Random,
    sent: list[tuple[int, int]],
    outcomes: list[tuple[int, ...]],
    received: list[tuple[int, ...]],
    ends: dict[int, dict[int, int]],
) -> History:
    """The same in schema 2: another session from some message on, messages sent again, copies of any of their sends."""
    from_here = dice.choice([0, len(sent) // 2, len(sent)])
    sends = {message: [(int(number >= from_here), 0)] for number, message in enumerate(sent)}
    rows: list[tuple[int, ...]] = [(*message, *sends[message][0]) for message in sent]
    told = [(*row, *sends.get((row[0], row[1]), [(0, 0)])[0]) for row in outcomes]
    for message in dice.sample(sent, dice.choice([0, len(sent) // 2, len(sent), len(sent)])):
        session, attempt = sends[message][-1]
        sends[message].append(dice.choice([(session, attempt + 1), (session + 1, 0)]))
        rows.insert(dice.randint(0, len(rows)), (*message, *sends[message][-1]))
        if dice.random() < 0.6:
            told.append((*message, dice.choice([0, 1, 2]), 0, 0, -1, 0, *sends[message][-1]))
    if told and dice.random() < 0.3:
        at = dice.randrange(len(told))
        told[at] = (*told[at][:-2], dice.randrange(3), dice.randrange(2))
    whose: dict[tuple[int, ...], tuple[int, int]] = {}
    copies: Counter[tuple[int, ...]] = Counter()
    read = []
    for arrival, *row in received:
        if tuple(row) not in whose or dice.random() < 0.1:
            known = sends.get((row[4], row[5]), [(0, 0)])
            one = known[copies[tuple(row[4:])] % len(known)] if dice.random() < 0.7 else dice.choice(known)
            whose[tuple(row)] = one if dice.random() < 0.99 else (dice.randrange(3), dice.randrange(3))
            copies[tuple(row[4:])] += 1
        read.append((arrival, *row, *whose[tuple(row)]))
    return History(rows, told, read, ends, sessions=3)


def _repeat(dice: random.Random, logs: list[list[tuple[int, int]]]) -> None:
    """A block is stored again, in its own partition or another."""
    log, other = dice.choice(logs), dice.choice(logs)
    if log:
        first = dice.randrange(len(log))
        at = dice.randint(0, len(other))
        other[at:at] = log[first : first + dice.choice([1, 2, 5, 20])]


def _repeat_in_parts(dice: random.Random, logs: list[list[tuple[int, int]]]) -> None:
    """Of a block every second message is stored again."""
    log = dice.choice(logs)
    first, at = dice.randint(0, len(log)), dice.randint(0, len(log))
    log[at:at] = log[first : first + dice.choice([3, 7]) : 2]


def _vanish(dice: random.Random, logs: list[list[tuple[int, int]]]) -> None:
    log = dice.choice(logs)
    first = dice.randint(0, len(log))
    del log[first : first + dice.choice([1, 3])]


def _shuffle(dice: random.Random, logs: list[list[tuple[int, int]]]) -> None:
    log = dice.choice(logs)
    first, length = dice.randint(0, len(log)), dice.choice([2, 6, 100])
    part = log[first : first + length]
    dice.shuffle(part)
    log[first : first + length] = part


def _invent(dice: random.Random, logs: list[list[tuple[int, int]]]) -> None:
    log = dice.choice(logs)
    log.insert(
        dice.randint(0, len(log)), (dice.randrange(3), dice.choice([0, 7, 100, 131_071, 131_072, (1 << 48) - 1]))
    )


STORED: Final[list[Callable[[random.Random, list[list[tuple[int, int]]]], None]]] = [
    *(_repeat, _repeat, _repeat, _repeat_in_parts, _repeat_in_parts, _vanish, _vanish, _shuffle, _invent, _invent),
]


def _offsets(dice: random.Random, partition: int, log: list[tuple[int, int]]) -> list[Read]:
    return [(partition, 0, entry, 0, *message) for entry, message in enumerate(log)]


def _batches(dice: random.Random, partition: int, log: list[tuple[int, int]]) -> list[Read]:
    rows: list[Read] = []
    entry = batch = 0
    for message in log:
        rows.append((partition, 5, entry, batch, *message))
        entry, batch = (entry + 1, 0) if dice.random() < 0.3 else (entry, batch + 1)
    return rows


def _ledgers(dice: random.Random, partition: int, log: list[tuple[int, int]]) -> list[Read]:
    middle = dice.randint(0, len(log))
    parts = ((3, log[:middle]), (8, log[middle:]))
    return [(partition, ledger, entry, 0, *message) for ledger, part in parts for entry, message in enumerate(part)]


def _outcomes(
    dice: random.Random, sent: list[tuple[int, int]], first: dict[tuple[int, int], Read]
) -> list[tuple[int, ...]]:
    honest = dice.random() < 0.4
    outcomes: list[tuple[int, ...]] = []
    for message in [*sent, (0, 9_999)] if dice.random() < 0.1 else sent:
        for _ in range(1 if honest or dice.random() < 0.9 else 2):
            outcome = 0 if honest or dice.random() < 0.85 else dice.choice([1, 2])
            place = first[message][:4] if message in first and dice.random() < 0.95 else (0, 0, dice.choice([-1, 2]), 0)
            outcomes.append((*message, outcome, *place))
    return outcomes


def _ends(dice: random.Random, read: list[Read]) -> dict[int, dict[int, int]]:
    ends: dict[int, dict[int, int]] = {}
    for partition, ledger, entry, *_ in read:
        extents = ends.setdefault(partition, {})
        extents[ledger] = max(extents.get(ledger, 0), entry + 1)
    if dice.random() < 0.3:
        extents = ends.setdefault(dice.randrange(3), {})
        ledger = dice.choice([0, 3, 5, 8])
        extents[ledger] = max(0, extents.get(ledger, 0) + dice.choice([-2, 1, 3]))
    return ends


def _interleaved(dice: random.Random, read: list[Read]) -> list[Read]:
    """Partitions arrive in chunks; each keeps its own order."""
    queues = [[row for row in read if row[0] == partition] for partition in sorted({row[0] for row in read})]
    merged: list[Read] = []
    while any(queues):
        queue = dice.choice([queue for queue in queues if queue])
        taken = dice.choice([1, 4, 50])
        merged += queue[:taken]
        del queue[:taken]
    return merged


def _read_again(dice: random.Random, read: list[Read]) -> None:
    if read:
        first, at = dice.randrange(len(read)), dice.randint(0, len(read))
        read[at:at] = read[first : first + dice.choice([1, 4])]


def _skip(dice: random.Random, read: list[Read]) -> None:
    first = dice.randint(0, len(read))
    del read[first : first + dice.choice([1, 2])]


def _leave_tail(dice: random.Random, read: list[Read]) -> None:
    """Of a batch only the first messages are read."""
    if batches := [row for row in read if row[3]]:
        last = dice.choice(batches)
        read[:] = [row for row in read if row[:3] != last[:3] or row[3] < last[3]]


def _collide(dice: random.Random, read: list[Read]) -> None:
    if read:
        at, other = dice.randrange(len(read)), dice.choice(read)
        read[at] = (*other[:4], *read[at][4:])


MISREAD: Final[list[Callable[[random.Random, list[Read]], None]]] = [
    *(_read_again, _read_again, _skip, _leave_tail, _leave_tail, _leave_tail, *(_collide,) * 4),
    lambda dice, read: dice.shuffle(read),
]
