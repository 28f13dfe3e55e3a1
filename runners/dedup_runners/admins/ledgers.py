"""What a Pulsar topic's internal statistics tell of its ledgers, and of what a subscription has acknowledged."""

import re
from typing import Any

from dedup_runners.admins import Ensemble


def extents(stats: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    """(ledger, entries) of each ledger that holds any, from a topic's internal statistics.

    Closed ledgers tell their entries. The open one does not: its last confirmed entry does, and it is the last to read.
    """
    last_ledger, last_entry = (int(part) for part in stats["lastConfirmedEntry"].split(":"))
    found = {int(ledger["ledgerId"]): int(ledger["entries"]) for ledger in stats["ledgers"]}
    if last_entry >= 0:
        found[last_ledger] = last_entry + 1
    return tuple(
        (ledger, entries) for ledger, entries in sorted(found.items()) if entries > 0 and ledger <= last_ledger
    )


def last_ensemble(stats: dict[str, Any]) -> Ensemble:
    """The bookies of the newest ledger, from internal statistics with BookKeeper's metadata (a text, not JSON).

    An ensemble whose bookie was replaced is followed by another, from the entry that its number tells.
    """
    if not stats["ledgers"]:
        return Ensemble()
    newest = stats["ledgers"][-1]
    metadata = str(newest.get("metadata", ""))
    _, _, ensembles = metadata.partition("ensembles={")
    found = re.findall(r"\d+=\[([^\]]*)\]", ensembles.partition("}")[0])
    return Ensemble(int(newest["ledgerId"]), tuple(found[-1].split(", ")) if found else ())


def mark_deleted(stats: dict[str, Any], subscription: str) -> tuple[int, int]:
    """Up to which ledger and entry a durable subscription has acknowledged all."""
    ledger, entry = stats["cursors"][subscription]["markDeletePosition"].split(":")
    return int(ledger), int(entry)


def offered(stats: dict[str, Any], subscription: str) -> tuple[int, int] | None:
    """Which (ledger, entry) a broker takes next for a subscription, if what lies before it was sent; None: not known.

    A dispatcher waits for entries to come (`waitingReadOp`) when it has written what it had read to the connection.
    """
    cursor = stats["cursors"].get(subscription)
    if cursor is None or not cursor["waitingReadOp"]:
        return None
    ledger, entry = cursor["readPosition"].split(":")
    return int(ledger), int(entry)
