"""What files that came without a manifest prove, and what they do not.

A CSV pair says what was sent and what was read, and nothing says that either file is whole: one that was cut between
two lines looks like any other. A row that is there is there, so copies and order accuse. A row that is not there may
have been cut off. So what rests on absent rows accuses only if the files are trusted: a loss (the value may have been
read in a row that is missing), a phantom, and a failed send that was read (in a row that is missing, the value may have
been sent, or sent again).

Positions may be missing in a history that is whole: transactions and compaction leave gaps, and after retention the
first position is not 0. So they are no contradiction here as they are in a history of ours. But a lost value may have
been at one of them, so that no loss is proven beside them.
"""

from collections.abc import Sequence
from typing import Final

NO_MANIFEST: Final = (
    "it came without a manifest: nothing shows that the files are whole, that the topic was read to its end or "
    "what the broker was set to; --trust-csv takes them at their word"
)


def why_unproven(trusted: bool, gaps: Sequence[str]) -> str:
    """Why a count that rests on absent rows accuses nobody."""
    if not trusted:
        return "this proves nothing unless both files are whole, and nothing shows it; --trust-csv says that they are"
    return f"no loss is proven where {_missing(gaps)}; if they hold no message, number the positions anew from 0"


def why_trusted(gaps: Sequence[str]) -> str:
    """What a pass of trusted files rests on."""
    taken = "it came without a manifest, and was taken at its word as asked"
    return f"{taken}, though {_missing(gaps)}: they are taken to hold no message" if gaps else taken


def _missing(gaps: Sequence[str]) -> str:
    return f"positions are missing in received.csv ({'; '.join(gaps[:3])}{'; …' if len(gaps) > 3 else ''})"
