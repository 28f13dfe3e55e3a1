"""Seeded anomalies of transactions, and what is innocent (test_mutations.py)."""

from tests.spark.seeded import Clean, Found, Message

from dedup.wire.manifests import OpenTransaction


def committed_in_order(it: Clean) -> Found:
    """Every transaction takes some messages of each stream, and all were committed."""
    size = it.dice.randint(2, 5)
    it.transactions = []
    for at in range(0, max(map(len, it.logs)), size):
        it.transactions.append(("committed", [message for log in it.logs for message in log[at : at + size]]))
    return {}


def one_that_ends(it: Clean, end: str) -> list[Message]:
    """Some transaction with neighbours on both sides ends that way; its messages."""
    committed_in_order(it)
    assert it.transactions is not None
    at = it.dice.randrange(1, min(map(len, it.logs)) // 5)
    messages = it.transactions[at][1]
    it.transactions[at] = (end, messages)
    return messages


def hide(it: Clean, messages: list[Message]) -> Found:
    """They are not read; what is read after them in their streams is a jump."""
    it.hidden |= set(messages)
    jumps = sum(any(message in it.hidden for message in log) and log[-1] not in it.hidden for log in it.logs)
    return {"received": -len(messages), "jump_forward": jumps}


def aborted(it: Clean) -> Found:
    messages = one_that_ends(it, "aborted")
    return hide(it, messages) | {"in_aborted": len(messages)}


def refused(it: Clean) -> Found:
    """Its commit was asked for, and then it was aborted."""
    messages = one_that_ends(it, "refused")
    return hide(it, messages) | {"in_aborted": len(messages)}


def aborted_and_the_first_half_read(it: Clean) -> Found:
    """KAFKA-17754."""
    messages = one_that_ends(it, it.dice.choice(["aborted", "abort-in-doubt", "open", "refused"]))
    seen = max(1, len(messages) // 2)
    return hide(it, messages[seen:]) | {"in_aborted": len(messages), "aborted_read": seen}


def in_doubt_and_read(it: Clean) -> Found:
    return {"in_unresolved": len(one_that_ends(it, "in-doubt"))}


def in_doubt_and_not_read(it: Clean) -> Found:
    messages = one_that_ends(it, "in-doubt")
    return hide(it, messages) | {"in_unresolved": len(messages)}


def in_doubt_and_torn(it: Clean) -> Found:
    messages = one_that_ends(it, "in-doubt")
    missing = messages[it.dice.randrange(1, len(messages)) :]
    return hide(it, missing) | {"in_unresolved": len(messages), "torn_transaction": len(missing)}


def committed_and_torn(it: Clean) -> Found:
    messages = one_that_ends(it, "committed")
    missing = messages[it.dice.randrange(1, len(messages)) :]
    return hide(it, missing) | {"not_received": len(missing), "torn_transaction": len(missing)}


def committed_and_lost(it: Clean) -> Found:
    messages = one_that_ends(it, "committed")
    return hide(it, messages) | {"not_received": len(messages)}


def sent_in_no_transaction(it: Clean) -> Found:
    committed_in_order(it)
    assert it.transactions is not None
    return {"sent_outside": len(it.transactions.pop(1)[1])}


def not_read_and_no_marker(it: Clean) -> Found:
    """A hole that nobody has proven, among those that somebody has."""
    found = aborted(it)
    log, i = it.pick()
    message = next(each for each in log if each not in it.hidden)
    assert i and it.transactions is not None
    it.unread.add(message)
    whole = next(part for _, part in it.transactions if message in part)
    return found | {
        "received": found["received"] - 1,
        "not_received": 1,
        "torn_transaction": 1 if len(whole) > 1 else 0,
        "jump_forward": found["jump_forward"] + 1,
        "gaps": 1,
    }


def replaced(it: Clean) -> tuple[list[Message], list[Message]]:
    """A zombie: what it had sent before it was replaced, and what both instances have sent; that is committed."""
    messages = one_that_ends(it, "committed")
    assert it.transactions is not None
    at = next(at for at, (_, part) in enumerate(it.transactions) if part is messages)
    early, late = messages[: len(messages) // 2], messages[len(messages) // 2 :]
    it.transactions[at : at + 1] = [("taken-over", early), ("committed", late)]
    it.sessions = 2
    return early, late


def a_zombie_is_refused(it: Clean) -> Found:
    early, late = replaced(it)
    it.again += [(message, (1, 0), None) for message in late]
    return hide(it, early) | {"in_aborted": len(early)}


def a_zombie_is_refused_and_its_half_is_read(it: Clean) -> Found:
    early, late = replaced(it)
    it.again += [(message, (1, 0), None) for message in late]
    return {"in_aborted": len(early), "aborted_read": len(early)}


def a_zombie_is_let_in(it: Clean) -> Found:
    """Its second half is stored again, behind all else; its first half is committed, too."""
    early, late = replaced(it)
    assert it.transactions is not None
    it.transactions = [("committed", part) if part is early else (end, part) for end, part in it.transactions]
    found = {"received": len(late), "values_with_duplicates": len(late), "extra_copies": len(late)}
    found |= {"copied_by_session": len(late), "duplicate_jump_backward": 0}
    for log in it.logs:
        again = [message for message in late if message in log]
        for message in again:
            it.sends[message] = [(0, 0), (1, 0)]
            it.again.append((message, (1, 0), 0))
        if again:
            log += again
            found["duplicate_jump_backward"] += 1
            found[f"block {len(again)}"] = found.get(f"block {len(again)}", 0) + 1
    return found


def kept_back(it: Clean, seen_s: float, due_s: float) -> Found:
    """The last messages of a partition are of a transaction in doubt, which is open there."""
    committed_in_order(it)
    assert it.transactions is not None
    log, i = it.pick(5)
    open_ = OpenTransaction(producer_id=7, epoch=it.dice.randrange(9), first=i, seen_s=seen_s, due_s=due_s)
    it.open[it.logs.index(log)] = [open_]
    behind = set(log[i:])
    kept = [(end, [each for each in part if each not in behind]) for end, part in it.transactions]
    it.transactions = [*((end, part) for end, part in kept if part), ("in-doubt", log[i:])]
    it.hidden |= behind
    return {"received": -len(behind), "in_unresolved": len(behind)}


def hangs_and_nobody_knows_it(it: Clean) -> Found:
    return kept_back(it, it.dice.choice([0.5, 30.0, 90.0]), 0.0) | {"hanging_transaction": 1}


def hangs_and_is_not_aborted_in_time(it: Clean) -> Found:
    return kept_back(it, 70.5, 70.0) | {"hanging_transaction": 1}


def open_and_known_and_not_due_yet(it: Clean) -> Found:
    return kept_back(it, it.dice.choice([0.0, 30.0, 70.0]), 70.0)


def open_and_seen_once(it: Clean) -> Found:
    return kept_back(it, 0.0, 0.0)


OF_TRANSACTIONS = (
    *(committed_in_order, aborted, refused, aborted_and_the_first_half_read, in_doubt_and_read, in_doubt_and_not_read),
    *(in_doubt_and_torn, committed_and_torn, committed_and_lost, sent_in_no_transaction, not_read_and_no_marker),
    *(hangs_and_nobody_knows_it, hangs_and_is_not_aborted_in_time, open_and_known_and_not_due_yet, open_and_seen_once),
    *(a_zombie_is_refused, a_zombie_is_refused_and_its_half_is_read, a_zombie_is_let_in),
)
