"""The order of arrival as a grid: every message is in it, copies are told, and its sums are those of the judges."""

import random
from pathlib import Path

import numpy as np
import pytest
from tests.builders import Golden, History, golden_histories, write_history
from tests.lab.finished import finish

from dedup.judgement.counts import Counts, Jump
from dedup_report import orders
from dedup_report.captions import of_order
from dedup_report.orders import Grid, grid_of


def read(folder: Path, values: list[int], planned: int = 100) -> Grid:
    received = [(place, 0, 0, place, 0, 0, value) for place, value in enumerate(values)]
    manifest = write_history(folder, History(received=received), messages=planned, segment_rows=7, row_group_rows=3)
    return grid_of(folder, manifest, columns=10, rows=10)


@pytest.mark.parametrize("golden", golden_histories(), ids=lambda golden: golden.name)
def test_the_grid_holds_what_the_judges_count(golden: Golden, tmp_path: Path) -> None:
    history, counts = golden.history, Counts(**golden.expect.get("counts", {}))
    manifest = write_history(tmp_path, history, messages=100)
    grid = grid_of(tmp_path, manifest, columns=10, rows=10)
    assert grid.first.sum() + grid.copies.sum() + grid.outside == len(history.received)
    if not counts.phantom:
        assert grid.copies.sum() == counts.extra_copies + counts.re_reads


def test_one_copy_among_many_has_its_cell(tmp_path: Path) -> None:
    grid = read(tmp_path, [*range(1, 60), 12, *range(60, 101)])
    assert np.argwhere(grid.copies).tolist() == [[1, 5]]
    assert grid.copies.sum() == 1 and grid.first.sum() == 100


def test_its_innocent_twin_has_none(tmp_path: Path) -> None:
    grid = read(tmp_path, list(range(1, 101)))
    assert not grid.copies.any() and np.array_equal(grid.first, 10 * np.eye(10))


def test_values_out_of_order_are_no_copies(tmp_path: Path) -> None:
    values = list(range(1, 101))
    random.Random(4).shuffle(values)
    assert not read(tmp_path, values).copies.any()


def test_values_that_were_never_to_be_sent_are_counted_outside(tmp_path: Path) -> None:
    grid = read(tmp_path, [1, 2, 1 << 47, 101, 3])
    assert (grid.outside, grid.first.sum(), grid.arrivals) == (2, 3, 5)
    said = list(of_order(grid, None))
    assert "2 have values that were never to be sent and lie outside the drawing." in said
    assert "No message is left out." not in said


def test_where_each_message_has_a_cell_the_caption_says_so(tmp_path: Path) -> None:
    assert "No message is left out." in of_order(read(tmp_path, [1, 2, 3]), None)


def test_each_stream_has_values_of_its_own(tmp_path: Path) -> None:
    received = [(place, place % 2, 0, place, 0, place % 2, place // 2 + 1) for place in range(10)]
    grid = grid_of(tmp_path, write_history(tmp_path, History([(0, 1), (1, 1)], (), received), messages=10), 5, 5)
    assert (grid.first.sum(), grid.copies.sum(), grid.top) == (10, 0, 5)


def test_random_orders_agree_with_a_naive_twin(tmp_path: Path) -> None:
    for seed in range(20):
        dice = random.Random(seed)
        values = [dice.randint(1, 40) for _ in range(dice.randint(0, 60))]
        grid = read(tmp_path / str(seed), values, planned=40)
        naive = np.zeros((10, 10), int)
        for place, value in enumerate(values):
            naive[(value - 1) * 10 // 40, place * 10 // len(values)] += value in values[:place]
        assert np.array_equal(grid.copies, naive)


def test_jumps_are_the_judges_own(tmp_path: Path) -> None:
    results = finish(tmp_path / "results")
    names = [("kafka-control-001", 1), ("kafka-dedup-001", 1)]
    found = orders.jumps_of(results.root, names)
    assert found is not None
    jumps = found[names[0]]
    assert (jumps.total, jumps.arrivals.tolist(), jumps.lasts.tolist(), jumps.values.tolist()) == (
        1,
        [300],
        [300],
        [201],
    )
    assert not found[names[1]].total
    assert len(jumps.of(Jump.DUPLICATE_BACKWARD).arrivals) == 1 and not len(jumps.of(Jump.FORWARD).arrivals)


def test_without_a_whole_table_of_findings_there_is_none(tmp_path: Path) -> None:
    results = finish(tmp_path / "results")
    (results.root / "verification" / "findings" / "findings.json").unlink()
    assert orders.jumps_of(results.root, [("kafka-control-001", 1)]) is None


def test_a_history_that_was_not_the_judged_one_is_told(tmp_path: Path) -> None:
    grid = read(tmp_path, [*range(1, 60), 12, *range(60, 101)])
    said = Counts(extra_copies=int(grid.copies.sum()))
    assert orders.differs(grid, None, said) is None
    words = orders.differs(grid, None, Counts(extra_copies=1 + said.extra_copies))
    assert words is not None and words.startswith(f"{said.extra_copies:,} copies are drawn, and the judges count ")
