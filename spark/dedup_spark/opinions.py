"""The second opinion: the naive oracle's answer on a history that Spark judges too.

The two share no code, so an error in one shows as a disagreement. The oracle reads one message at a time, and does not
judge runs of more than a million messages.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from dedup.errors import EnvironmentError_
from dedup.history.stores import Place, fetched
from dedup.judgement.anomalies import Verification
from dedup.judgement.verdicts import ORACLE_LIMIT, Evidence
from dedup.wire.manifests import Manifest
from dedup_spark import oracle

Answers = dict[str, Verification | str]
"""The answers on a history, by judge; or its `problem`."""


def second_opinion(folder: Place, evidence: Evidence) -> Answers:
    """The oracle's answer on a history; empty if it need not judge it.

    EnvironmentError_ if the history lies in a store that cannot be reached: that proves nothing about the history.
    """
    if not needed(evidence):
        return {}
    try:
        with fetched(folder) as here, _uncollected():
            return {"oracle": oracle.judge(here).model_copy(update={"path": str(folder)})}
    except EnvironmentError_:
        raise
    except Exception as error:  # one history that the oracle cannot read must not cost the others their verdict
        return {"problem": f"the oracle crashed: {type(error).__name__}: {error}"}


def needed(evidence: Evidence) -> bool:
    """Whether the oracle judges a history: any that it is asked for alone, else those of up to a million messages."""
    manifest = evidence.manifest
    return isinstance(manifest, Manifest) and (evidence.alone is not None or manifest.messages <= ORACLE_LIMIT)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without Python's search for circles, of which the oracle makes none: it would look through each message again
    and again, which takes a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
