"""What files without a manifest prove, and what they do not.

A CSV pair shows what was sent and what was read, but not that either file is whole: a file that was cut between two
lines looks like any other. Rows that are present prove copies and order. An absent row may have been cut off. So counts
that rest on absent rows accuse only if the files are trusted: a loss (a missing row may show that the value was read),
a phantom, and a failed send that was read (a missing row may show that the value was sent, or sent again).

Positions may be missing in a whole history: transactions and compaction leave gaps, and after retention the first
position is not 0. So they are no contradiction here, as they are in a history of ours. But a lost value may have been
at one of them, so such a history proves no loss.
"""

from collections.abc import Sequence
from typing import Final

NO_MANIFEST: Final = (
    "it came without a manifest: nothing shows that the files are whole, that the topic was read to its end or "
    "what the broker was set to; --trust-csv takes them at their word"
)


def why_unproven(trusted: bool, gaps: Sequence[str]) -> str:
    """Why a count that rests on absent rows proves nothing."""
    if not trusted:
        return "this proves nothing unless both files are whole, and nothing shows it; --trust-csv says that they are"
    return f"no loss is proven where {_missing(gaps)}; if they hold no message, number the positions anew from 0"


def why_trusted(gaps: Sequence[str]) -> str:
    """What a pass of trusted files rests on."""
    taken = "it came without a manifest, and was taken at its word as asked"
    return f"{taken}, though {_missing(gaps)}: they are taken to hold no message" if gaps else taken


def _missing(gaps: Sequence[str]) -> str:
    return f"positions are missing in received.csv ({'; '.join(gaps[:3])}{'; …' if len(gaps) > 3 else ''})"
