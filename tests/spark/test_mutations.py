"""Seeded anomalies: one thing is put into a clean history of random shape, at a random place, and just that is found.

Each mutation says by itself what a judge must count more or less than in the clean history, worked out from its own
story and from no judge. So a judge that misses one, or sees a second one in it, is wrong whatever the others say.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.builders import write_history
from tests.spark.conftest import Judge
from tests.spark.seeded import Clean, Found, clean
from tests.spark.seeded_commits import OF_COMMITS
from tests.spark.seeded_transactions import OF_TRANSACTIONS

from dedup.judgement.anomalies import Verification
from dedup_spark import local, oracle

pytestmark = pytest.mark.long

EACH: Final = 12


def copies(values: int, rows: int, **jumps: int) -> Found:
    return {"received": rows, "values_with_duplicates": values, "extra_copies": rows} | jumps


def stored_twice(it: Clean) -> Found:
    log, i = it.pick()
    log.insert(i, log[i])
    return copies(1, 1, duplicate_jump_backward=1) | {"block 1": 1}


def block_again(it: Clean) -> Found:
    log, i = it.pick(5)
    length = it.dice.randint(2, 5)
    log[i:i] = log[i - length : i]
    return copies(length, length, duplicate_jump_backward=1) | {f"block {length}": 1}


def block_twice_again(it: Clean) -> Found:
    log, i = it.pick(5)
    length = it.dice.randint(2, 5)
    log[i:i] = log[i - length : i] * 2
    return copies(length, 2 * length, duplicate_jump_backward=2) | {f"block {length}": 2}


def old_block_at_the_end(it: Clean) -> Found:
    log, i = it.pick(5)
    log += log[i - 4 : i]
    return copies(4, 4, duplicate_jump_backward=1) | {"block 4": 1}


def two_old_ones_at_the_end(it: Clean) -> Found:
    """The second one lies above the first and was read before: a duplicate jump forward."""
    log, i = it.pick(5)
    log += [log[i - 4], log[i]]
    return copies(2, 2, duplicate_jump_backward=1, duplicate_jump_forward=1) | {"block 1": 2}


def copy_in_another_partition(it: Clean) -> Found:
    """There it is the first of its stream: no order was kept or broken but that values are missing before it."""
    log, i = it.pick()
    it.logs.append([log[i]])
    return copies(1, 1, jump_forward=1, misplaced=1)


def lost(it: Clean) -> Found:
    log, i = it.pick(5)
    del log[i : i + 3]
    return {"received": -3, "not_received": 3, "jump_forward": 1}


def lost_at_the_end(it: Clean) -> Found:
    log, _ = it.pick()
    log.pop()
    return {"received": -1, "not_received": 1}


def unknown_and_not_stored(it: Clean) -> Found:
    log, i = it.pick()
    it.outcomes[log.pop(i)] = 2
    return {"received": -1, "unknown": 1, "ack": -1, "positive_ack": -1, "jump_forward": 1}


def unknown_and_stored(it: Clean) -> Found:
    log, i = it.pick()
    it.outcomes[log[i]] = 2
    return {"unknown": 1, "ack": -1, "positive_ack": -1, "received_no_ack": 1}


def swapped(it: Clean) -> Found:
    log, i = it.pick()
    log[i], log[i + 1] = log[i + 1], log[i]
    return {"jump_forward": 1 + (i + 2 < len(log)), "jump_backward": 1, "send_backwards": 1}


def overtaken(it: Clean) -> Found:
    """One jump back, however many were overtaken."""
    log, i = it.pick(5)
    many = it.dice.randint(1, 3)
    log[i : i + 5] = log[i + many : i + 5] + log[i : i + many]
    return {"jump_forward": 2, "jump_backward": 1, "send_backwards": many}


def never_sent(it: Clean) -> Found:
    log, _ = it.pick()
    log.append((log[-1][0], log[-1][1] + 7))
    return {"received": 1, "phantom": 1, "received_no_ack": 1, "jump_forward": 1}


def failed_and_stored(it: Clean) -> Found:
    log, i = it.pick()
    it.outcomes[log[i]] = 1
    return {"negative_ack": 1, "positive_ack": -1, "failed_but_received": 1, "received_no_ack": 1}


def half_in_another_partition(it: Clean) -> Found:
    """All are there once, acknowledged where they lie; the end of a stream is not where it was sent to."""
    log, i = it.pick()
    it.logs.append(log[i:])
    moved = len(log) - i
    del log[i:]
    return {"misplaced": moved, "jump_forward": 1}


def beginning_in_another_partition(it: Clean) -> Found:
    """Its two parts lie in order, each in a partition; the first is not where it was sent to."""
    log, i = it.pick()
    it.logs.append(log[:i])
    del log[:i]
    return {"misplaced": i, "jump_forward": 1}


def stored_elsewhere(it: Clean) -> Found:
    log, i = it.pick()
    it.displaced.add(log[i])
    return {"ack_mismatch": 1}


def read_again(it: Clean) -> Found:
    it.re_read = it.dice.randrange(sum(map(len, it.logs)))
    return {"re_reads": 1}


def not_read(it: Clean) -> Found:
    log, i = it.pick()
    it.unread.add(log[i])
    return {"received": -1, "not_received": 1, "jump_forward": 1, "gaps": 1}


def delivered_late(it: Clean) -> Found:
    """In the values it is two swapped messages; their positions say that it was the reader who swapped them."""
    log, i = it.pick()
    it.late = log[i]
    return {"position_falls": 1, "jump_forward": 1 + (i + 2 < len(log)), "jump_backward": 1, "send_backwards": 1}


def tail_not_read(it: Clean) -> Found:
    """The last messages of a batch; the reader had read the first two of it."""
    log, _ = it.pick()
    it.batch = it.dice.randint(3, 6)
    batch = it.dice.randrange(len(log) // it.batch) * it.batch
    tail = log[batch + 2 : batch + it.batch]
    it.unread.update(tail)
    more = batch + it.batch < len(log)
    return {"received": -len(tail), "not_received": len(tail), "jump_forward": int(more), "gaps": 1}


def two_at_one_position(it: Clean) -> Found:
    """The second one's own position stays empty, and is not where it was acknowledged."""
    log, i = it.pick()
    it.moved = (log[i], log[i - 1])
    return {"position_conflicts": 1, "ack_mismatch": 1, "gaps": 1}


def outcome_not_recorded(it: Clean) -> Found:
    log, i = it.pick()
    del it.outcomes[log[i]]
    return {"outcomes_missing": 1, "unknown": 1, "ack": -1, "positive_ack": -1, "received_no_ack": 1}


def outcome_of_nothing(it: Clean) -> Found:
    log, _ = it.pick()
    it.outcomes[log[-1][0], log[-1][1] + 7] = 0
    return {"outcomes_unsent": 1, "ack": 1, "positive_ack": 1, "not_received": 1}


def send_not_recorded(it: Clean) -> Found:
    log, i = it.pick()
    it.sent.remove(log[i])
    return {"send": -1, "phantom": 1, "outcomes_unsent": 1}


def stored_twice_by_retry(it: Clean) -> Found:
    it.sessions = 1
    return stored_twice(it) | {"copied_by_retry": 1}


def resent_and_stored_twice(it: Clean) -> Found:
    log, i = it.pick()
    log.insert(i, log[i])
    it.sessions, it.sends[log[i]] = 1, [(0, 0), (0, 1)]
    it.again.append((log[i], (0, 1), 0))
    return copies(1, 1, duplicate_jump_backward=1, copied_by_resend=1) | {"block 1": 1}


def resent_and_stored_once(it: Clean) -> Found:
    log, i = it.pick()
    it.sessions = 1
    it.again.append((log[i], (0, 1), it.dice.choice([0, 1, 2, None])))
    return {}


def resumed_too_early(it: Clean) -> Found:
    log, _ = it.pick(5)
    length = it.dice.randint(2, 5)
    log += log[-length:]
    it.sessions = 2
    for message in log[-length:]:
        it.sends[message] = [(0, 0), (1, 0)]
        it.again.append((message, (1, 0), 0))
    return copies(length, length, duplicate_jump_backward=1, copied_by_session=length) | {f"block {length}": 1}


def copy_of_a_send_that_never_was(it: Clean) -> Found:
    log, i = it.pick()
    it.sessions, it.sends[log[i]] = 2, [it.dice.choice([(1, 0), (0, 1)])]
    return {"unsent_copies": 1}


def failed_once_and_stored(it: Clean) -> Found:
    """The other send of it has no outcome, or an unknown one: it may be the one that was stored."""
    log, i = it.pick()
    it.outcomes[log[i]] = 1
    it.sessions = 1
    it.again.append((log[i], (0, 1), it.dice.choice([2, None])))
    return {"unknown": 1, "ack": -1, "positive_ack": -1, "received_no_ack": 1}


def processed_in_order(it: Clean) -> Found:
    """A restart that did no harm, between any two messages."""
    everything = [message for log in it.logs for message in log]
    middle = it.dice.randrange(1, len(everything))
    it.lives = [everything[:middle], everything[middle:]]
    return {}


def killed_before_its_commit(it: Clean) -> Found:
    processed_in_order(it)
    assert it.lives is not None
    many = min(it.dice.randint(1, 9), len(it.lives[0]))
    it.lives[1][:0] = it.lives[0][len(it.lives[0]) - many :]
    return {"processed_twice": many}


def killed_after_its_commit(it: Clean) -> Found:
    processed_in_order(it)
    assert it.lives is not None
    many = min(it.dice.randint(1, 9), len(it.lives[1]))
    del it.lives[1][:many]
    return {"never_processed": many}


def copies_processed_once_each(it: Clean) -> Found:
    found = block_again(it)
    return found | processed_in_order(it)


def a_copy_processed_a_third_time(it: Clean) -> Found:
    found = stored_twice(it)
    processed_in_order(it)
    assert it.lives is not None
    (twice,) = {message for log in it.logs for message in log if log.count(message) == 2}
    it.lives.append([twice])
    return found | {"processed_twice": 1}


def processed_and_not_in_the_log(it: Clean) -> Found:
    processed_in_order(it)
    assert it.lives is not None
    it.lives[0].append((0, 1 << 20))
    return {"processed_unread": 1}


def nothing_at_all(it: Clean) -> Found:
    return {}


MUTATIONS: Final[tuple[Callable[[Clean], Found], ...]] = (
    *(nothing_at_all, stored_twice, block_again, block_twice_again, old_block_at_the_end, two_old_ones_at_the_end),
    *(copy_in_another_partition, lost, lost_at_the_end, unknown_and_not_stored, unknown_and_stored, swapped),
    *(never_sent, failed_and_stored, stored_elsewhere, read_again, not_read, two_at_one_position),
    *(delivered_late, tail_not_read, half_in_another_partition, beginning_in_another_partition),
    *(outcome_not_recorded, outcome_of_nothing, send_not_recorded, overtaken),
    *(stored_twice_by_retry, resent_and_stored_twice, resent_and_stored_once, resumed_too_early),
    *(copy_of_a_send_that_never_was, failed_once_and_stored),
    *(processed_in_order, killed_before_its_commit, killed_after_its_commit),
    *(copies_processed_once_each, a_copy_processed_a_third_time, processed_and_not_in_the_log),
    *OF_TRANSACTIONS,
    *OF_COMMITS,
)


def found_by(said: Verification) -> Found:
    found = {name: number for name, number in said.counts if number}
    found |= {f"block {length}": number for length, number in said.block_lengths.items()}
    return found | ({"gaps": len(said.gaps)} if said.gaps else {})


def mutated(mutate: Callable[[Clean], Found], home: Path) -> dict[Path, Found]:
    """Histories with that mutation, each with what must be found in it."""
    made: dict[Path, Found] = {}
    for seed in range(EACH):
        it = clean(seed)
        wanted = dict.fromkeys(("send", "ack", "positive_ack", "received"), len(it.sent))
        for name, number in mutate(it).items():
            wanted[name] = wanted.get(name, 0) + number
        folder = home / mutate.__name__ / str(seed)
        write_history(folder, it.history(), row_group_rows=it.dice.choice([2, 7, 1000]))
        made[folder] = wanted
    return made


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_exactly_what_was_put_in_is_found(mutate: Callable[[Clean], Found], tmp_path: Path) -> None:
    expected = mutated(mutate, tmp_path)
    report = local.verify(list(expected), chunk_rows=1)
    assert report.problems == ()
    for (folder, wanted), said in zip(expected.items(), report.runs, strict=True):
        assert found_by(said) == wanted, f"seed {folder.name}"
        assert found_by(oracle.judge(folder)) == wanted, f"the oracle, seed {folder.name}"


@pytest.mark.spark
@pytest.mark.smoke
def test_spark_finds_exactly_that_too(spark_judges: Judge, tmp_path: Path, tell: Callable[[str], None]) -> None:
    expected = {folder: wanted for mutate in MUTATIONS for folder, wanted in mutated(mutate, tmp_path).items()}
    runs, problems = spark_judges(list(expected), chunk_rows=1)
    assert problems == []
    for (folder, wanted), said in zip(expected.items(), runs, strict=True):
        assert found_by(said) == wanted, f"{folder.parent.name}, seed {folder.name}"
    tell(f"{len(expected)} histories, {EACH} of each of {len(MUTATIONS)} mutations: none missed, no false alarm")
