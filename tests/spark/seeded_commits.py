"""Seeded anomalies of commits: an application is given again what it had committed, or is not given what it had not."""

from tests.spark.seeded import Clean, Found


def committed(it: Clean, at: int, begins: int, doubt: int | None = None, outcome: int = 0) -> int:
    """A partition's first life commits its first `at` messages, and maybe others too; the next one begins with message
    `begins`, from 0. Every entry has `it.batch` of them. The partition."""
    partition = it.dice.randrange(len(it.logs))
    places = [(partition, 0, number // it.batch, number % it.batch) for number in range(len(it.logs[partition]))]
    it.lives = [[message for log in it.logs for message in log]]
    it.commits = [(0, 0, places[0], 0), (0, 1, places[at // 2], 0), (0, 1, places[at - 1], 0)]
    it.commits += [] if doubt is None else [(0, 1, places[doubt - 1], outcome)]
    it.commits += [(1, 0, places[begins], 0), (1, 1, places[-1], 0)]
    return partition


def goes_on_where_it_committed(it: Clean) -> Found:
    it.batch = it.dice.choice([1, 3])
    at = it.dice.randrange(2, 10)
    committed(it, at, at)
    return {}


def is_given_again(it: Clean) -> Found:
    it.batch = it.dice.choice([1, 3])
    at, many = it.dice.randrange(5, 10), it.dice.randrange(1, 5)
    committed(it, at, at - many)
    return {"reread_below_commit": many}


def is_passed_over(it: Clean) -> Found:
    it.batch = it.dice.choice([1, 3])
    at, many = it.dice.randrange(2, 6), it.dice.randrange(1, 5)
    committed(it, at, at + many)
    return {"skipped_above_commit": many}


def may_begin_behind_either(it: Clean) -> Found:
    at = it.dice.randrange(2, 6)
    committed(it, at, it.dice.choice([at, at + 1, at + 3]), at + 3, 2)
    return {}


def begins_below_both(it: Clean) -> Found:
    at = it.dice.randrange(3, 6)
    committed(it, at, at - 2, at + 3, 2)
    return {"reread_below_commit": 2}


def begins_above_both(it: Clean) -> Found:
    at = it.dice.randrange(2, 6)
    committed(it, at, at + 5, at + 3, 2)
    return {"skipped_above_commit": 2}


def begins_behind_a_commit_that_failed(it: Clean) -> Found:
    at = it.dice.randrange(2, 6)
    committed(it, at, at + 3, at + 3, 1)
    return {"skipped_above_commit": 3}


def a_copy_lies_where_it_is_passed_over(it: Clean) -> Found:
    """Of the value it does not matter that its first copy lies below."""
    partition = committed(it, 5, 8)
    log = it.logs[partition]
    log.insert(6, log[1])
    return {
        "skipped_above_commit": 3,
        "received": 1,
        "values_with_duplicates": 1,
        "extra_copies": 1,
        "duplicate_jump_backward": 1,
        "jump_forward": 1,
        "block 1": 1,
    }


OF_COMMITS = (
    *(goes_on_where_it_committed, is_given_again, is_passed_over, may_begin_behind_either, begins_below_both),
    *(begins_above_both, begins_behind_a_commit_that_failed, a_copy_lies_where_it_is_passed_over),
)
