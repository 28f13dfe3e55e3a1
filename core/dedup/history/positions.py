"""Whether acknowledgements named positions: Kafka's and Pulsar's clients are told them, other programs need not be.

No CSV pair has them. Where none is known, that every message lies where it was acknowledged is not for anyone to say.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dedup.history.latencies import ACKNOWLEDGED
from dedup.history.stores import Place, is_away, parquet, reached
from dedup.wire.manifests import Manifest

OUTCOMES: Final = "outcomes/"


def names_positions(folder: Place, manifest: Manifest) -> bool:
    """Whether any acknowledgement names a position; so it is taken, too, if the tables cannot be read.

    Rows are read until one does: of most runs, the first few.
    """
    tables = [each.path for each in manifest.files if each.path.startswith(OUTCOMES)]
    with reached(folder):
        try:
            return not tables or any(_names_one(folder / path) for path in tables)
        except (FileNotFoundError, NotADirectoryError, LookupError, pa.ArrowException, ValueError):
            return True
        except OSError as error:
            if is_away(folder, error):
                raise
            return True


def _names_one(path: Place) -> bool:
    with parquet(path) as file:
        return any(
            pc.any(pc.and_(pc.equal(rows["outcome"], ACKNOWLEDGED), pc.greater_equal(rows["entry"], 0))).as_py()
            for rows in file.iter_batches(columns=["outcome", "entry"])
        )
