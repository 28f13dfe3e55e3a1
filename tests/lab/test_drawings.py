"""The drawings: a copy is seen whatever lies around it, no jump is left out, and a name is never markup."""

import base64
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as xml

import numpy as np
import pytest

from dedup.judgement.latencies import Latency
from dedup.judgement.summaries import Bin
from dedup_report.latencies import Latencies
from dedup_report.orders import MOST_JUMPS, Grid, Jumps
from dedup_report.rates import Rates, Span

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def drawings() -> ModuleType:
    """Imported here: who runs other tests need not wait for matplotlib."""
    from dedup_report import drawings

    return drawings


def grid(copies: int) -> Grid:
    first, again = np.full((5, 5), 1_000), np.zeros((5, 5), int)
    again[2, 3] = copies
    return Grid(first, again, arrivals=25_000 + copies, top=1_000, outside=0, told=True)


def jumps(number: int) -> Jumps:
    at = np.sort(np.random.default_rng(1).integers(0, 25_000, number))
    return Jumps(np.full(number, 3, np.int8), at, np.full(number, 900), at % 800, number)


def rates(name: str) -> Rates:
    edges, flat = np.linspace(0, 12, 121), np.ones(120)
    spans = (Span(name, 2.0, 4.0, False), Span("latency", 0.0, 12.0, True))
    return Rates(edges, flat, flat, flat, (), spans, (), {"retry": np.array([2.5])})


def latencies() -> Latencies:
    """Nothing was acknowledged in the second second."""
    p50, p99 = np.array([2.0, np.nan, 4.0]), np.array([3.0, np.nan, 900.0])
    return Latencies(p50, p99, Latency(messages=9, p50_ms=2.0, p99_ms=900.0, max_ms=901.0))


def svg(drawing: Any) -> xml.Element:
    kind, _, content = drawing.address.partition(";base64,")
    assert kind == "data:image/svg+xml"
    return xml.fromstring(base64.b64decode(content))


def test_one_copy_among_many_first_readings_colours_its_cell(drawings: ModuleType) -> None:
    red, blue = ((*bytes.fromhex(colour[1:]), 255) for colour in (drawings.RED, drawings.SKY))
    image = drawings._image(grid(copies=1))
    assert tuple(image[2, 3]) == red and tuple(image[2, 2]) == blue


def test_without_a_copy_no_cell_has_its_colour(drawings: ModuleType) -> None:
    red = (*bytes.fromhex(drawings.RED[1:]), 255)
    assert red not in {tuple(cell) for row in drawings._image(grid(copies=0)) for cell in row}


def test_jumps_that_are_too_many_are_drawn_by_columns_and_none_is_left_out(drawings: ModuleType) -> None:
    found = jumps(50 * MOST_JUMPS)
    centres, low, high = drawings._by_columns(found.arrivals, found.values, found.lasts, 25_000)
    column = found.arrivals * drawings.COLUMNS // 25_000
    assert len(centres) == len(np.unique(column)) == drawings.COLUMNS
    assert all(low[column] <= found.values) and all(high[column] >= found.lasts)


@pytest.mark.parametrize("number", [0, 1, MOST_JUMPS, MOST_JUMPS + 1])
def test_an_order_is_drawn_with_any_number_of_jumps(number: int, drawings: ModuleType) -> None:
    assert svg(drawings.order(grid(copies=3), jumps(number))).tag.endswith("svg")


@pytest.mark.parametrize("name", ["cut", "$x_1^", "<b>&amp;", "a\x00\u2028b", "\u4e2d\u6587", "n" * 200])
def test_a_name_is_text(name: str, drawings: ModuleType) -> None:
    assert svg(drawings.timeline(rates(name), None)).tag.endswith("svg")


def test_latencies_lie_below_the_rates_with_the_fault_shaded_and_a_gap_where_there_are_none(
    drawings: ModuleType,
) -> None:
    found = latencies()
    figure = drawings.Figure()
    axes = figure.add_subplot()
    drawings._latencies(axes, rates("cut"), found, 12.0)
    steps = [each for each in axes.patches if type(each).__name__ == "StepPatch"]
    assert [each.get_label() for each in steps] == ["p99", "p50"]
    assert all(np.isnan(each.get_data().values).tolist() == [False, True, False] for each in steps)
    assert list(steps[1].get_data().edges) == [0, 1, 2, 3]
    shaded = next(each for each in axes.patches if each not in steps)
    assert (shaded.get_x(), shaded.get_width()) == (2.0, 2.0)
    low, high = axes.get_ylim()
    assert low < 2 and high > 900 and axes.get_yscale() == "log"
    assert drawings.timeline(rates("cut"), found).height > drawings.timeline(rates("cut"), None).height


def test_a_drawing_loads_nothing(drawings: ModuleType) -> None:
    blocks = (Bin(first=1, last=1, blocks=3), Bin(first=2, last=3, blocks=0))
    for drawing in (
        drawings.timeline(rates("cut"), None),
        drawings.timeline(rates("cut"), latencies()),
        drawings.order(grid(1), jumps(2)),
        drawings.blocks(blocks, blocks),
    ):
        found = list(svg(drawing).iter())
        assert not [each.tag for each in found if each.tag.rpartition("}")[2] in ("script", "a", "foreignObject")]
        links = [value for each in found for key, value in each.attrib.items() if key.endswith("href")]
        assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
