"""The recorder: rows in, closed segments out, and an error that is seen when the disk is full."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dedup.errors import EnvironmentError_
from dedup.history.histories import CLOCK, CLOCK_ACKNOWLEDGED, CLOCK_SENT, SENT, segments, sha256_of
from dedup_runners.recording.recorders import CLOCK_INTERVAL_NS, Clock, Recorder


def rows(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(last - first, np.int32), np.arange(first, last, dtype=np.int64)


def values(folder: Path, table: str) -> list[int]:
    return [value for path in segments(folder, table) for value in pq.read_table(path)["value"].to_pylist()]


def test_rows_come_out_in_order_over_several_segments(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, rows_a_segment=100)
    for first in range(1, 251, 30):
        recorder.write("sent", rows(first, min(first + 30, 251)))
    closed = recorder.close()
    assert values(tmp_path, "sent") == list(range(1, 251))
    assert [segment.rows for segment in closed] == [120, 120, 10]
    assert [segment.path for segment in closed] == ["sent/00000.parquet", "sent/00001.parquet", "sent/00002.parquet"]
    assert pq.read_schema(tmp_path / "sent/00000.parquet").equals(SENT)


def test_a_segment_names_its_own_bytes(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.write("sent", rows(1, 10))
    (segment,) = recorder.close()
    path = tmp_path / segment.path
    assert (segment.bytes, segment.sha256) == (path.stat().st_size, sha256_of(path))
    assert not list(tmp_path.glob("*/*.open"))


def test_an_old_segment_is_closed_while_the_run_goes_on(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, segment_s=0.0)
    recorder.write("sent", rows(1, 10))
    recorder.write("sent", rows(10, 20))
    assert sum(segment.rows for segment in recorder.close()) == 19
    assert values(tmp_path, "sent") == list(range(1, 20))


def test_an_empty_history_has_no_segments(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.write("sent", rows(1, 1))
    assert recorder.close() == ()


def test_a_full_disk_is_an_error_in_one_line_and_keeps_what_was_closed(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, rows_a_segment=10)
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "00001.parquet.open").symlink_to("/dev/full")
    recorder.write("sent", rows(1, 11))
    recorder.write("sent", rows(11, 21))
    with pytest.raises(EnvironmentError_, match="No space left on device") as caught:
        recorder.close()
    assert "\n" not in str(caught.value)
    assert values(tmp_path, "sent") == list(range(1, 11))
    assert [path.name for path in (tmp_path / "sent").glob("*.parquet")] == ["00000.parquet"]


def test_after_a_full_disk_closing_says_so_too(tmp_path: Path) -> None:
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "00000.parquet.open").symlink_to("/dev/full")
    recorder = Recorder(tmp_path)
    recorder.write("sent", rows(1, 10))
    with pytest.raises(EnvironmentError_, match="No space left on device"):
        recorder.close()


KILLED = """
import os, sys, numpy as np
from pathlib import Path
from dedup.history.histories import segments
from dedup_runners.recording.recorders import Recorder
from dedup_runners.waiting import until
recorder = Recorder(Path(sys.argv[1]), rows_a_segment=10)
for first in range(0, 25, 5):
    recorder.write("sent", (np.zeros(5, np.int32), np.arange(first, first + 5)))
until(lambda: len(segments(Path(sys.argv[1]), "sent")) == 2, 20, "two segments")
os._exit(9)
"""


def test_a_crash_loses_at_most_the_open_segment(tmp_path: Path) -> None:
    died = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60, check=False)
    assert died.returncode == 9
    assert values(tmp_path, "sent") == list(range(20))


def test_the_clock_is_sparse_and_ends_with_the_last_row(tmp_path: Path) -> None:
    clock = Clock()
    for index in range(1, 101):
        clock.tick(CLOCK_SENT, index * 10, index * CLOCK_INTERVAL_NS // 10)
    clock.tick(CLOCK_ACKNOWLEDGED, 5, 7)
    segment = clock.save(tmp_path)
    table = pq.read_table(tmp_path / segment.path)
    assert table.schema.equals(CLOCK)
    sent = [row for row in table.to_pylist() if row["kind"] == CLOCK_SENT]
    assert 10 <= len(sent) <= 12
    assert sent[-1] == {"kind": CLOCK_SENT, "index": 1000, "monotonic_ns": 10 * CLOCK_INTERVAL_NS}
    assert clock.newest_ns(CLOCK_ACKNOWLEDGED) == 7
    assert segment.rows == table.num_rows


def test_the_clock_ticks_at_ten_thousand_rows_however_short_the_time(tmp_path: Path) -> None:
    clock = Clock()
    for index in range(0, 100_001, 2_500):
        clock.tick(CLOCK_SENT, index, 1 + index)
    assert clock.save(tmp_path).rows == 11


def test_a_run_without_a_row_has_an_empty_clock(tmp_path: Path) -> None:
    assert Clock().save(tmp_path).rows == 0
    assert pq.read_table(tmp_path / "clock.parquet").num_rows == 0


MEMORY = """
import json, sys, numpy as np
from pathlib import Path
from dedup_runners.recording.journals import usage
from dedup_runners.recording.recorders import Recorder
recorder = Recorder(Path(sys.argv[1]))
stream, at = np.zeros(100_000, np.int32), []
for first in range(0, 12_000_000, 100_000):
    recorder.write("sent", (stream, np.arange(first, first + 100_000)))
    if first == 3_000_000:
        at.append(usage().max_rss_bytes)
recorder.close()
print(json.dumps([*at, usage().max_rss_bytes]))
"""


def test_memory_stays_flat(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)], timeout=120, check=True, capture_output=True, text=True
    )
    early, late = json.loads(done.stdout)
    assert late < 1.2 * early
