"""What a history says nothing of: counts of an application, of commits or of transactions, where there are none.

And of positions that were acknowledged, where the topic was read in another cluster.

Such a count is 0 because nobody could have counted it, so a run without it has kept no promise.
"""

from typing import Final

from dedup.judgement.counts import OF_APPLICATIONS, OF_COMMITS, OF_TRANSACTIONS
from dedup.wire.manifests import Manifest

OF_SOME: Final = (*OF_APPLICATIONS, *OF_COMMITS, *OF_TRANSACTIONS)
"""The counts of which some histories say nothing."""


def untold(manifest: Manifest) -> set[str]:
    """The names of the counts of which this one says nothing."""
    application = manifest.consumer.application
    return {
        *(OF_APPLICATIONS if application is None else ()),
        *(OF_COMMITS if application is None or application.commits is None else ()),
        *(OF_TRANSACTIONS if manifest.producer.transactions is None else ()),
        *(("ack_mismatch",) if manifest.consumer.replicated is not None else ()),
    }
