"""The drawings of a report: SVG by matplotlib, each an address `data:image/svg+xml` that a page holds in itself.

A drawing is as wide as a phone, so that its letters can be read there and several stand side by side on a laptop. Its
colours are Okabe and Ito's, which the colour-blind can tell apart; what colours tell, lines and marks tell too, for a
printer without colours. Letters are outlines, so that no font is needed. A drawing shows what its caption says in
words (captions.py); neither is made from the other.
"""

import base64
import io
import warnings
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from dedup.errors import shown
from dedup.judgement.counts import Jump
from dedup.judgement.summaries import Bin
from dedup.judgement.tables import bin_of
from dedup_report.latencies import Latencies
from dedup_report.orders import MOST_JUMPS, Grid, Jumps
from dedup_report.rates import Rates

BLUE, SKY, GREEN, ORANGE = "#0072B2", "#56B4E9", "#009E73", "#E69F00"
RED, PURPLE, YELLOW, GREY = "#D55E00", "#CC79A7", "#F0E442", "#666666"

WIDTH_IN: Final = 4.0
ROW_IN: Final = 0.17
LATENCIES_IN: Final = 1.35
COLUMNS, ROWS = 220, 150
SMALL_COLUMNS, SMALL_ROWS = 60, 30
LONGEST_NAME: Final = 13
SHARP_DPI: Final = 240
STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "dedup",
    "text.parse_math": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
}


class Drawing(NamedTuple):
    """An image and its size in CSS pixels."""

    address: str
    width: int
    height: int


def timeline(rates: Rates, latencies: Latencies | None) -> Drawing:
    """Sends and acknowledgements a second; above them when each fault was in force and what the client noticed.

    Below them how long acknowledgements took, if that was recorded.
    """
    rows = [span.name for span in rates.spans] + sorted(rates.noticed)
    low = LATENCIES_IN if latencies else 0.0
    height = 2.2 + low + ROW_IN * len(rows)
    with matplotlib.rc_context(STYLE):
        figure = Figure((WIDTH_IN, height))
        middle = figure.add_axes((0.17, (0.42 + low) / height, 0.78, 1.45 / height))
        until = max([float(rates.edges_s[-1]), *(span.end_s for span in rates.spans if not span.whole)])
        _rates(middle, rates, until)
        if latencies:
            below = figure.add_axes((0.17, 0.42 / height, 0.78, (LATENCIES_IN - 0.35) / height), sharex=middle)
            _latencies(below, rates, latencies, until)
            middle.set_xlabel("")
            middle.tick_params(labelbottom=False)
        if rows:
            above = figure.add_axes((0.17, (2.15 + low) / height, 0.78, ROW_IN * len(rows) / height), sharex=middle)
            _strips(above, rates, rows, until)
        return _drawn(figure)


def _shade(axes: Axes, rates: Rates, until: float) -> None:
    for span in (span for span in rates.spans if not span.whole):
        axes.axvspan(span.begin_s, min(span.end_s, until), color=YELLOW, alpha=0.3, linewidth=0)


def _latencies(axes: Axes, rates: Rates, latencies: Latencies, until: float) -> None:
    """Steps a second wide, on a logarithmic scale; where nothing was acknowledged there is no line."""
    _shade(axes, rates, until)
    edges = np.minimum(np.arange(len(latencies.p50_ms) + 1), until)
    for values, name, colour, style in (
        (latencies.p99_ms, "p99", "black", (0, (3, 1))),
        (latencies.p50_ms, "p50", GREEN, "-"),
    ):
        axes.stairs(values, edges, baseline=None, color=colour, linewidth=1.2, linestyle=style, label=name)
    axes.set_yscale("log")
    found = np.concatenate([latencies.p50_ms, latencies.p99_ms])
    axes.set_ylim(np.nanmin(found) / 1.6, np.nanmax(found) * 1.6)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if np.nanmax(found) < 50 * np.nanmin(found) else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.set_xlabel("seconds from the first send", labelpad=1)
    axes.set_ylabel("latency, ms", labelpad=2)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.95), ncols=2, frameon=False, fontsize=7, handlelength=2)


def _rates(axes: Axes, rates: Rates, until: float) -> None:
    _shade(axes, rates, until)
    axes.stairs(rates.sent, rates.edges_s, color=BLUE, linewidth=1.0, label="sent")
    axes.stairs(
        rates.acknowledged, rates.edges_s, color=RED, linewidth=1.0, linestyle=(0, (3, 1)), label="acknowledged"
    )
    if rates.errors.any():
        axes.stairs(rates.errors, rates.edges_s, color="black", linewidth=1.0, linestyle=":", label="fail or unknown")
    axes.set_xlim(0, until)
    axes.set_ylim(0, None)
    axes.set_xlabel("seconds from the first send", labelpad=1)
    axes.set_ylabel("messages a second", labelpad=2)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(_short))
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.98), ncols=3, frameon=False, fontsize=7, handlelength=2)


def _strips(axes: Axes, rates: Rates, rows: Sequence[str], until: float) -> None:
    count = len(rates.spans)
    for row, span in enumerate(rates.spans):
        end = min(span.end_s, until)
        axes.barh(row, end - span.begin_s, left=span.begin_s, height=0.7, color=YELLOW, edgecolor=GREY, linewidth=0.5)
    for row, name in enumerate(rows[count:], count):
        edges = np.linspace(0, until, 4 * len(rates.edges_s))
        found, _ = np.histogram(rates.noticed[name], edges)
        axes.vlines(edges[:-1][found > 0], row - 0.35, row + 0.35, color=BLUE, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [_cut(name) for name in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(length=0, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def order(grid: Grid, jumps: Jumps | None) -> Drawing:
    """Places of arrival against values: first readings, copies over them, and the jumps; below, where copies are."""
    with matplotlib.rc_context(STYLE):
        figure = Figure((WIDTH_IN, 2.8))
        axes = figure.add_axes((0.17, 0.15, 0.78, 0.7))
        axes.imshow(_image(grid), origin="lower", aspect="auto", interpolation="nearest", extent=_extent(grid))
        if jumps is not None:
            _jumps(axes, grid, jumps)
        axes.set_xlim(0, max(grid.arrivals, 1))
        axes.set_ylim(0, grid.top * 1.02)
        axes.set_xlabel("place in the order of arrival", labelpad=1)
        axes.set_ylabel("value", labelpad=2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(5))
            axis.set_major_formatter(FuncFormatter(_short))
        shown_kinds = [("read for the first time", SKY, "s"), ("copy", RED, "s")]
        shown_kinds += [("jump back", "black", "v"), ("jump forward", PURPLE, "^")]
        for name, colour, mark in shown_kinds:
            axes.plot([], [], mark, color=colour, markersize=4, label=name)
        axes.legend(
            loc="lower left", bbox_to_anchor=(-0.2, 1.06), ncols=4, frameon=False, fontsize=6.5, handletextpad=0.1,
            columnspacing=0.8,
        )  # fmt: skip
        _marginal(figure.add_axes((0.17, 0.87, 0.78, 0.018), sharex=axes), grid)
        return _drawn(figure)


def _extent(grid: Grid) -> tuple[float, float, float, float]:
    return 0, max(grid.arrivals, 1), 0, grid.top


def _image(grid: Grid) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """A cell with a copy in it has the copy's colour, however many first readings are there too."""
    image = np.zeros((*grid.first.shape, 4), np.uint8)
    for cells, colour in ((grid.first, SKY), (grid.copies, RED)):
        image[cells > 0] = (*bytes.fromhex(colour[1:]), 255)
    return image


def _marginal(axes: Axes, grid: Grid) -> None:
    """A line of the columns that have a copy: one among 10^8 messages is seen here."""
    image = np.zeros((1, grid.copies.shape[1], 4), np.uint8)
    image[0, grid.copies.sum(axis=0) > 0] = (*bytes.fromhex(RED[1:]), 255)
    axes.imshow(image, origin="lower", aspect="auto", interpolation="nearest", extent=(*_extent(grid)[:2], 0, 1))
    axes.axis("off")


def _jumps(axes: Axes, grid: Grid, jumps: Jumps) -> None:
    backward = jumps.of(Jump.BACKWARD, Jump.DUPLICATE_BACKWARD)
    forward = jumps.of(Jump.FORWARD, Jump.DUPLICATE_FORWARD)
    for found, colour, mark in ((backward, "black", "v"), (forward, PURPLE, "^")):
        if not len(found.arrivals):
            continue
        at, low, high = found.arrivals, np.minimum(found.lasts, found.values), np.maximum(found.lasts, found.values)
        ends = found.values
        if len(at) > MOST_JUMPS:
            at, low, high = _by_columns(at, low, high, grid.arrivals)
            ends = low if mark == "v" else high
        inside = np.clip(np.stack([low, high, ends]), 0, grid.top)
        axes.vlines(at, inside[0], inside[1], color=colour, linewidth=0.5)
        axes.plot(at, inside[2], mark, color=colour, markersize=2.5, linestyle="none")


def _by_columns(at: Any, low: Any, high: Any, arrivals: int) -> tuple[Any, Any, Any]:
    """From the lowest to the highest value of the jumps in each column of the drawing that has some."""
    column = np.minimum(at * COLUMNS // max(arrivals, 1), COLUMNS - 1)
    used, starts = np.unique(column, return_index=True)
    centres = (used + 0.5) * max(arrivals, 1) / COLUMNS
    return centres, np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)


def blocks(lengths: Sequence[Bin], distances: Sequence[Bin]) -> Drawing:
    """How many duplicate blocks have which length, and which distance from their first copies."""
    kinds = [
        (title, bins) for title, bins in (("length", lengths), ("distance from the first copy", distances)) if bins
    ]
    rows = sum(len(bins) for _, bins in kinds)
    height = 0.42 * len(kinds) + ROW_IN * rows + 0.08
    with matplotlib.rc_context(STYLE):
        figure = Figure((WIDTH_IN, height))
        top = height
        for title, bins in kinds:
            top -= 0.34 + ROW_IN * len(bins)
            axes = figure.add_axes((0.36, top / height, 0.54, ROW_IN * len(bins) / height))
            bars = axes.barh(
                range(len(bins)), [each.blocks for each in bins], color=ORANGE, edgecolor=GREY, linewidth=0.5
            )
            axes.bar_label(bars, [f"{each.blocks:,}" for each in bins], padding=2, fontsize=7)
            axes.set_yticks(range(len(bins)), [bin_of(each) for each in bins])
            axes.set_ylim(len(bins) - 0.4, -0.6)
            axes.set_title(f"blocks by {title}, in messages", loc="left", x=-0.62, pad=3)
            axes.tick_params(length=0, labelbottom=False)
            axes.spines["bottom"].set_visible(False)
            top -= 0.08
        return _drawn(figure)


def small(grid: Grid, rates: Rates | None) -> Drawing:
    """The order and the acknowledgements of one run, without numbers: to be compared with its neighbours.

    There may be hundreds of these, and a browser opens an SVG like a page of its own: this one is a PNG.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure((1.5, 0.5))
        left, right = figure.add_axes((0.01, 0.04, 0.47, 0.92)), figure.add_axes((0.52, 0.04, 0.47, 0.92))
        left.imshow(_image(grid), origin="lower", aspect="auto", interpolation="nearest")
        if rates is not None:
            for span in (span for span in rates.spans if not span.whole):
                right.axvspan(span.begin_s, min(span.end_s, rates.edges_s[-1]), color=YELLOW, alpha=0.4, linewidth=0)
            merged = rates.acknowledged.reshape(-1, 3).mean(axis=1)
            right.stairs(merged, rates.edges_s[::3], color=RED, linewidth=0.7)
            right.set_xlim(0, rates.edges_s[-1])
        for axes in (left, right):
            axes.set_xticks([])
            axes.set_yticks([])
        return _drawn(figure, "png")


def _drawn(figure: Figure, kind: str = "svg+xml") -> Drawing:
    held = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is drawn as a box
        if kind == "png":
            figure.savefig(held, format=kind, dpi=SHARP_DPI, metadata={"Software": None})
        else:
            figure.savefig(held, format="svg", metadata={"Date": None, "Creator": None})
    address = f"data:image/{kind};base64,{base64.b64encode(held.getvalue()).decode()}"
    width, height = figure.get_size_inches()
    return Drawing(address, round(width * 96), round(height * 96))


def _short(number: float, _position: object = None) -> str:
    """A number of an axis: 2,000,000 is 2 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _cut(name: str) -> str:
    name = shown(name)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
