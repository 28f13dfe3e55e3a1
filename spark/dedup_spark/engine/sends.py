"""Sends: which life of the producer, and which attempt of the application, a message is of.

A *send* of a value is a (session, attempt). Histories of schema 1 have one send a value, and say nothing of it. What is
stored more than once was either stored again by itself, as the same send (the client's retry, or the broker's mistake);
or the application sent it again in the same session; or another session did. A value can have several of these causes.
"""

from typing import Any, Final

import numpy as np

from dedup_spark.engine.columns import Columns, Mask, firsts
from dedup_spark.engine.islands import OUTCOME, READ, SENT

CAUSES: Final = ("copied_by_retry", "copied_by_resend", "copied_by_session")


def states(pieces: Columns, reads: Columns, intervals: Columns, recorded: tuple[int, ...]) -> dict[str, Any]:
    """Of each interval: the causes of its copies, and whether sends lack what must follow them, or come before them.

    `open`: a send without an outcome. `unsent_copies`, `outcomes_unsent`: of a send that was not recorded. `recorded`:
    the runs of schema 2.
    """
    number = len(intervals["run"])
    lacking = {
        "open": _without(pieces, SENT, OUTCOME, number),
        "unsent_copies": _without(pieces, READ, SENT, number),
        "outcomes_unsent": _without(pieces, OUTCOME, SENT, number),
    }
    known = np.isin(intervals["run"], recorded)
    if not known.any():
        return dict.fromkeys(CAUSES, known) | lacking
    order = np.lexsort((reads["attempt"], reads["session"], reads["interval"]))
    interval, session, attempt = (reads[name][order] for name in ("interval", "session", "attempt"))
    copies = np.bincount(interval, minlength=number)
    of_sends = np.bincount(interval[firsts(interval, session, attempt)], minlength=number)
    of_sessions = np.bincount(interval[firsts(interval, session)], minlength=number)
    causes = (copies > of_sends, of_sends > of_sessions, of_sessions > 1)
    return {name: cause & known for name, cause in zip(CAUSES, causes, strict=True)} | lacking


def _without(pieces: Columns, kind: int, other: int, intervals: int) -> Mask:
    """The intervals in which a send has a piece of one kind, and none of the other."""
    found = np.zeros(intervals, dtype=bool)
    if not pieces["session"].any() and not pieces["attempt"].any():  # one send a value: nothing to sort
        found[pieces["interval"][pieces["kind"] == kind]] = True
        found[pieces["interval"][pieces["kind"] == other]] = False
        return found
    which = np.flatnonzero((pieces["kind"] == kind) | (pieces["kind"] == other))
    interval, session, attempt = (pieces[name][which] for name in ("interval", "session", "attempt"))
    order = np.lexsort((pieces["kind"][which] == kind, attempt, session, interval))
    first = firsts(interval[order], session[order], attempt[order])
    found[interval[order][first & (pieces["kind"][which][order] == kind)]] = True
    return found
