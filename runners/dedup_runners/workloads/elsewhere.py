"""A producer whose messages are read in another cluster (`replication`): acknowledgements count, their places do not.

Where the first cluster stored a message says nothing of where it lies in the second. So its outcomes name no position,
and nothing is said of a message that is read at another one than its client was told.
"""

import numpy as np

from dedup_runners.clients import Outcomes
from dedup_runners.production import Production
from dedup_runners.recording.recorders import Columns


class ReadElsewhere(Production):
    """Sends each message once."""

    def _rows(self, outcomes: Outcomes) -> Columns:
        return outcomes._replace(
            ledgers=np.zeros_like(outcomes.ledgers),
            entries=np.full_like(outcomes.entries, -1),
            batches=np.zeros_like(outcomes.batches),
        )
