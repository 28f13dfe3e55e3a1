"""The protocols whose conversations can be explored, one record each; the names of their requests are nobody else's.

So what is known of a request is found by its name alone, as in a witness of last year: it names no protocol.
"""

from collections.abc import Mapping
from typing import Final

from dedup.experiment.dialects.dialect import Dialect
from dedup.experiment.dialects.kafka import KAFKA
from dedup.experiment.dialects.pulsar import PULSAR
from dedup.experiment.systems import Protocol

DIALECTS: Final[Mapping[Protocol, Dialect]] = {"kafka": KAFKA, "pulsar": PULSAR}
CARRIERS: Final[Mapping[str, Dialect]] = {each.carrier: each for each in DIALECTS.values()}
"""By the request that carries messages."""


def why_left_out(api: str, number: int) -> str | None:
    """Why the n-th request of an API may come at any time or not at all, in words; None: it comes in its place."""
    for each in DIALECTS.values():
        if (why := each.by_timers.get(api)) or (number > 1 and (why := each.later.get(api))):
            return why
    return None


def joins_transaction(end: str) -> frozenset[str]:
    """The requests by which something joins a transaction that a request of this API ends; none if it ends none."""
    return frozenset().union(*(each.joins_transaction for each in DIALECTS.values() if end == each.ends_transaction))


def ends_transaction(api: str) -> bool:
    """Whether a request of this API ends a transaction."""
    return any(api == each.ends_transaction for each in DIALECTS.values())
