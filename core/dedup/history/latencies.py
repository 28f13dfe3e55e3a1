"""The histograms of latency beside a history: `latency.parquet`, a row a second, outcome and bucket.

The file is optional. Histories of older versions, of client programs and of other harnesses have none; judges do not
read it. It counts only if the manifest names it, so that its bytes are those of the run.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dedup.history.histories import LATENCY
from dedup.history.stores import Place, is_away, parquet, reached
from dedup.wire.manifests import Manifest

NAME: Final = "latency.parquet"
ACKNOWLEDGED: Final = 0


def table_of(folder: Place, manifest: Manifest) -> pa.Table | None:
    """The rows of the file; None if there is none that the manifest names and that can be read."""
    if all(each.path != NAME for each in manifest.files):
        return None
    with reached(folder):
        try:
            with parquet(folder / NAME) as file:
                return file.read(columns=LATENCY.names).cast(LATENCY)
        except (FileNotFoundError, NotADirectoryError, pa.ArrowException, ValueError):
            return None
        except OSError as error:
            if is_away(folder, error):
                raise
            return None


def histogram_of(folder: Place, manifest: Manifest) -> dict[int, int] | None:
    """How long all acknowledgements of a run took; None if that is not known."""
    rows = table_of(folder, manifest)
    if rows is None:
        return None
    found = rows.filter(pc.equal(rows["outcome"], ACKNOWLEDGED)).group_by("upper_ns").aggregate([("count", "sum")])
    return dict(zip(found["upper_ns"].to_pylist(), found["count_sum"].to_pylist(), strict=True))
