"""The findings of a history, found one message at a time: the twin that the engines' tables are held against.

It shares no code with them but models and schemas. It knows no islands, pieces or bits: who was under way when is asked
of every message and every tick of the clock.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dedup.history.histories import read_manifest, schemas, segments

Row = tuple[Any, ...]
Message = tuple[int, int]
"""stream, value"""


def tables_of(folder: Path) -> dict[str, list[Row]]:
    """The rows of each table, but for path and run_id, sorted."""
    return Naive(folder).tables()


class Naive:
    """One history, with everything looked up by message."""

    def __init__(self, folder: Path) -> None:
        faults = read_manifest(folder).faults
        homes = read_manifest(folder).stream_partitions or ()
        given = read_manifest(folder).resent_partitions or ()
        resent = (*given, *homes[len(given) :])
        self.faults = [each for each in faults if each.requested_message is not None and each.injected_ns is not None]
        self.ticks = pq.read_table(folder / "clock.parquet").to_pylist()
        self.sent, self.told = dict[Message, int](), dict[Message, int]()
        self.version = read_manifest(folder).schema_version
        self.outcomes = dict[Message, set[int]]()
        sends, ended = dict[Message, set[Row]](), dict[Message, set[Row]]()
        acknowledged = dict[Message, list[Row]]()
        for row, message in enumerate(_rows(folder, "sent", self.version)):
            self.sent.setdefault((message[0], message[1]), row)
            sends.setdefault((message[0], message[1]), set()).add(message[2:])
        for row, (stream, value, outcome, *rest) in enumerate(_rows(folder, "outcomes", self.version)):
            position, send = rest[:4], tuple(rest[4:])
            ended.setdefault((stream, value), set()).add(send)
            self.told[stream, value] = row
            self.outcomes.setdefault((stream, value), set()).add(outcome)
            if outcome == 0 and position[2] != -1:
                acknowledged.setdefault((stream, value), []).append(tuple(position))
        self.copies = dict[Message, list[Row]]()
        self.attempts = dict[Message, list[int]]()
        self.lanes = dict[tuple[int, int], list[tuple[int, int, Row]]]()
        read = set[Row]()
        for arrival, *told in _rows(folder, "received", self.version):
            position, stream, value = told[:4], told[4], told[5]
            if tuple(told) not in read:
                read.add(tuple(told))
                self.copies.setdefault((stream, value), []).append(tuple(position))
                self.attempts.setdefault((stream, value), []).append(told[7] if len(told) > 7 else 0)
                self.lanes.setdefault((position[0], stream), []).append((arrival, value, tuple(position[1:])))
        ok = {message for message, outcomes in self.outcomes.items() if 0 in outcomes}
        fail = {message for message, outcomes in self.outcomes.items() if outcomes == {1}}
        fail -= {message for message in fail if not sends.get(message, set()) <= ended[message]}
        self.anomalies = {
            **self._of_application(folder),
            **self._of_transactions(folder, fail),
            **self._of_commits(folder),
            "not_received": {each for each in ok - self.copies.keys() if each not in self.uncommitted},
            "values_with_duplicates": {message for message, places in self.copies.items() if len(places) > 1},
            "phantom": self.copies.keys() - self.sent.keys(),
            "failed_but_received": fail & self.copies.keys(),
            "misplaced": {message for message in self.copies if self._is_misplaced(*message, homes, resent)},
            "send_backwards": {
                (stream, value)
                for (_, stream), read in self.lanes.items()
                for place, (_, value, _) in enumerate(read)
                if max((before for _, before, _ in read[:place]), default=-1) > value
                and value not in {before for _, before, _ in read[:place]}
            },
            "ack_mismatch": {
                message
                for message, places in acknowledged.items()
                if message in self.copies and any(place not in self.copies[message] for place in places)
            },
        }

    def _of_transactions(self, folder: Path, fail: set[Message]) -> dict[str, set[Message]]:
        """Also notes the messages of transactions whose commit was not confirmed."""
        inside, never = dict[Message, Row](), set[Message]()
        self.uncommitted = set[Message]()
        for session, number, stream, first, last, asked, outcome, *_ in _rows(folder, "transactions", self.version):
            for message in ((stream, value) for value in range(first, last + 1)):
                inside[message] = session, number
                if (asked, outcome) != (1, 0):
                    self.uncommitted.add(message)
                if asked != 1 or outcome == 1:
                    never.add(message)
        begun = {transaction for message, transaction in inside.items() if message in self.copies}
        missing = (inside.keys() & self.sent.keys()) - self.copies.keys() - never - fail
        return {
            "aborted_read": never & self.copies.keys(),
            "torn_transaction": {message for message in missing if inside[message] in begun},
        }

    def _of_application(self, folder: Path) -> dict[str, set[Message]]:
        processed = Counter[Message]((row[5], row[6]) for row in _rows(folder, "processed", self.version))
        twice = {each for each, times in processed.items() if times > 1 and times > len(self.copies.get(each, ()))}
        never = self.copies.keys() - processed.keys()
        is_there = read_manifest(folder).consumer.application is not None
        return {"processed_twice": twice, "never_processed": never if is_there else set()}

    def _of_commits(self, folder: Path) -> dict[str, set[Message]]:
        rows = list(_rows(folder, "commits", self.version))
        again, passed = set[Message](), set[Message]()
        for number, (_, kind, *begin, _, _, _) in enumerate(rows):
            told = [(tuple(row[2:6]), row[6]) for row in rows[:number] if row[1] and row[2] == begin[0] and row[6] != 1]
            confirmed = [place for place, (_, outcome) in enumerate(told) if outcome == 0]
            if kind or not confirmed:
                continue
            permitted = [place for place, _ in told[confirmed[-1] :]]
            for message, places in self.copies.items():
                own = [place for place in places if place[0] == begin[0]]
                if any(tuple(begin) <= place <= min(permitted) for place in own):
                    again.add(message)
                if any(max(permitted) < place < tuple(begin) for place in own):
                    passed.add(message)
        return {"reread_below_commit": again, "skipped_above_commit": passed}

    def during(self, messages: Sequence[Message]) -> tuple[str, ...]:
        return tuple(fault.name for fault in self.faults if any(self._under_way(each, fault) for each in messages))

    def _under_way(self, message: Message, fault: Any) -> bool:
        if message not in self.sent or not self.ticks:
            return False
        for tick in self.ticks:
            if tick["kind"] == 0 and fault.healed_ns is not None:
                sent_after = tick["monotonic_ns"] > fault.healed_ns and tick["index"] <= self.sent[message]
                if sent_after:
                    return False
            if tick["kind"] == 1 and message in self.told:
                told_before = tick["monotonic_ns"] < fault.injected_ns and tick["index"] > self.told[message]
                if told_before:
                    return False
        return True

    def tables(self) -> dict[str, list[Row]]:
        jumps, blocks = list[Row](), list[Row]()
        for (partition, stream), read in self.lanes.items():
            lowest = min((value for own, value in self.sent if own == stream), default=1)
            jumps += self._jumps(partition, stream, read, lowest - 1)
            blocks += self._blocks(partition, stream, read)
        ranges = [row for anomaly in self.anomalies for row in self._ranges(anomaly)]
        return {"jumps": sorted(jumps), "blocks": sorted(blocks), "ranges": sorted(ranges)}

    def _jumps(self, partition: int, stream: int, read: Sequence[Row], last: int) -> Iterator[Row]:
        seen = set[int]()
        for arrival, value, place in read:
            if value != last + 1:
                jump = "D" * (value in seen) + ("JF" if value > last else "JB")
                yield (partition, stream, jump, last, value, arrival, *place, self.during([(stream, value)]))
            seen.add(value)
            last = value

    def _blocks(self, partition: int, stream: int, read: Sequence[Row]) -> Iterator[Row]:
        first, open_ = dict[int, int](), list[int]()

        def closed() -> Iterator[Row]:
            if open_:
                value, at = read[open_[0]][1], first[read[open_[0]][1]]
                during = self.during([(stream, read[place][1]) for place in open_])
                where = (*read[open_[0]][2], *read[at][2])
                yield (partition, stream, value, len(open_), open_[0] - at, *where, during)
                open_.clear()

        for place, (_, value, _) in enumerate(read):
            again = first.setdefault(value, place) < place
            before = read[place - 1][1]
            follows = again and open_ and value == before + 1 and first[value] == first[before] + 1
            if not follows:
                yield from closed()
            if again:
                open_.append(place)
        yield from closed()

    def _is_misplaced(self, stream: int, value: int, homes: Sequence[int], resent: Sequence[int]) -> bool:
        told = zip(self.copies[stream, value], self.attempts[stream, value], strict=True)
        return stream < len(homes) and any(
            place[0] != (resent if attempt else homes)[stream] for place, attempt in told
        )

    def _ranges(self, anomaly: str) -> Iterator[Row]:
        left = sorted(self.anomalies[anomaly])
        while left:
            stream, value = left[0]
            length = 1
            while length < len(left) and left[length] == (stream, value + length):
                length += 1
            yield (anomaly, stream, value, length, self.during(left[:length]))
            del left[:length]


def _rows(folder: Path, table: str, version: int) -> Iterator[tuple[int, ...]]:
    for path in segments(folder, table):
        read = pq.read_table(path, columns=schemas(version)[table].names)
        yield from zip(*(column.to_pylist() for column in read.columns), strict=True)
