"""The query that we race against finds what we find in golden histories: else its speed means nothing."""

from pathlib import Path

import duckdb
import pytest
from tests.builders import Golden, golden_histories, write_history

from dedup.anomalies import Counts
from dedup.histories import TABLES

VERDICT = Path(__file__).parents[2] / "bench" / "verify" / "duckdb" / "verdict.sql"


@pytest.mark.parametrize("golden", golden_histories(), ids=lambda golden: golden.name)
def test_the_query_counts_what_we_count(golden: Golden, tmp_path: Path) -> None:
    write_history(tmp_path, golden.history)
    if not all(any((tmp_path / table).iterdir()) for table in TABLES):
        pytest.skip("DuckDB reads no table without a file")
    with duckdb.connect() as database:
        database.execute(f"SET VARIABLE folder = '{tmp_path}'")
        answer = database.execute(VERDICT.read_text())
        counts = Counts(**dict(zip((name for name, *_ in answer.description), answer.fetchall()[0], strict=True)))
    assert counts == Counts(**golden.expect["counts"])
