"""What a history says nothing of: counts of an application, of commits or of transactions, where there are none.

And of positions that were acknowledged, where none was named, or the topic was read in another cluster; and of
partitions that messages were sent to, where no stream has one of its own.

Such a count is 0 because nobody could have counted it, so a run without it has kept no promise.
"""

from typing import Final

from dedup.judgement.counts import OF_APPLICATIONS, OF_COMMITS, OF_TRANSACTIONS
from dedup.wire.manifests import Manifest

OF_SOME: Final = (*OF_APPLICATIONS, *OF_COMMITS, *OF_TRANSACTIONS)
"""The counts of which some histories say nothing."""


def untold(manifest: Manifest, placed: bool = True) -> set[str]:
    """The names of the counts of which this one says nothing; `placed`: acknowledgements name positions."""
    application = manifest.consumer.application
    return {
        *(OF_APPLICATIONS if application is None else ()),
        *(OF_COMMITS if application is None or application.commits is None else ()),
        *(OF_TRANSACTIONS if manifest.producer.transactions is None else ()),
        *(("ack_mismatch",) if not placed or manifest.consumer.replicated is not None else ()),
        *(("misplaced",) if manifest.stream_partitions is None else ()),
    }
