"""The query that we race against finds what we find in golden histories: else its speed means nothing."""

from pathlib import Path

import duckdb
import pytest
from tests.builders import Golden, golden_histories, write_history

from dedup.judgement.counts import Counts

VERDICT = Path(__file__).parents[2] / "bench" / "verify" / "duckdb" / "verdict.sql"


TABLES = ("sent", "outcomes", "received")
WITH_ROWS = [
    each
    for each in golden_histories()
    if all(getattr(each.history, table) for table in TABLES)
    and not each.history.sessions
    and each.history.processed is None
    and each.history.transactions is None
]
"""DuckDB reads no table that has no file. What is measured has no sessions, no application and no transactions: the
query knows none."""


@pytest.mark.long
@pytest.mark.parametrize("golden", WITH_ROWS, ids=lambda golden: golden.name)
def test_the_query_counts_what_we_count(golden: Golden, tmp_path: Path) -> None:
    write_history(tmp_path, golden.history)
    with duckdb.connect() as database:
        database.execute(f"SET VARIABLE folder = '{tmp_path}'")
        answer = database.execute(VERDICT.read_text())
        found = dict(zip((name for name, *_ in answer.description), answer.fetchall()[0], strict=True))
    assert found.keys() == Counts.model_fields.keys(), "bench/verify compares all counts"
    counts = Counts(**found)
    assert counts == Counts(**golden.expect["counts"])
