"""The sequence diagram of a struck frame: producer, interposer and broker, and the decisive frames between them.

Time goes down. A frame that was passed on is an arrow from one end to the other; one that was lost ends at the
interposer with a cross; one that was held ends there with a bar, and goes on as a broken line. The struck frame is
red, what was sent again is orange and thick. The same is said in words beside it (exchanges.words).
"""

from typing import Any, Final

import matplotlib
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dedup.errors import DedupError, EvidenceError, one_line
from dedup.history.stores import Place
from dedup_report import drawings, exchanges
from dedup_report.drawings import BLUE, GREY, ORANGE, RED, Drawing
from dedup_report.exchanges import Exchanges, Frame

ROW_IN: Final = 0.27
PRODUCER, INTERPOSER, BROKER = 0.17, 0.585, 0.985
LABEL: Final = 6.5


def of_run(folder: Place) -> list[tuple[Drawing | None, tuple[str, ...]]]:
    """For each conversation of a run its diagram and its words; without a diagram the words say why."""
    return [_told(fault, path) for fault, path in exchanges.conversations(folder)]


def _told(fault: str, path: Place) -> tuple[Drawing | None, tuple[str, ...]]:
    try:
        found = exchanges.decisive(fault, path)
    except (DedupError, OSError, pa.ArrowException, ValueError, TypeError) as error:
        why = error.got if isinstance(error, EvidenceError) else str(error).partition("\n")[0] or type(error).__name__
        return None, (one_line(f"the conversation of fault {fault} cannot be read: {why}."),)
    if found is None:
        return None, (one_line(f"fault {fault} struck no frame."),)
    return diagram(found), exchanges.words(found)


def diagram(found: Exchanges) -> Drawing:
    """The diagram; as wide as the other drawings."""
    rows = len(found.frames) + sum(1 for each in found.left_out[1:] if each)
    height = 0.42 + ROW_IN * rows
    with matplotlib.rc_context(drawings.STYLE):
        figure = Figure((drawings.WIDTH_IN, height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, 1)
        axes.set_ylim(height, 0)
        axes.axis("off")
        _participants(axes, height)
        y = 0.42
        begin = found.frames[0].monotonic_ns
        for place, frame in enumerate(found.frames):
            if place and found.left_out[place]:
                between = found.left_out[place]
                words = f"… {between:,} other {'frame' if between == 1 else 'frames'}"
                axes.text(INTERPOSER + 0.02, y + 0.08, words, fontsize=LABEL, color=GREY, va="center")
                y += ROW_IN
            _arrow(axes, found, frame, y + 0.14)
            passed = exchanges.time(frame.monotonic_ns - begin)
            axes.text(PRODUCER - 0.02, y + 0.14, passed, fontsize=LABEL, color=GREY, ha="right", va="center")
            y += ROW_IN
        return drawings._drawn(figure)


def _participants(axes: Axes, height: float) -> None:
    for x, name, side in (
        (PRODUCER, "producer", "left"),
        (INTERPOSER, "interposer", "center"),
        (BROKER, "broker", "right"),
    ):
        axes.text(x if side != "left" else x - 0.04, 0.12, name, fontsize=8, ha=side, va="center")
        axes.plot([x, x], [0.24, height], color=GREY, linewidth=0.7, linestyle=":" if side == "center" else "-")


def _arrow(axes: Axes, found: Exchanges, frame: Frame, y: float) -> None:
    begin, end = (PRODUCER, BROKER) if frame.is_request else (BROKER, PRODUCER)
    colour, width = _look(found, frame)
    line = {"color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
    fate = exchanges.fate(frame)
    if not fate:
        axes.annotate("", (end, y), (begin, y), arrowprops={"arrowstyle": "-|>", **line})
    else:
        axes.annotate("", (INTERPOSER, y), (begin, y), arrowprops={"arrowstyle": "-", **line})
        gone = frame.done in (exchanges.LOST, exchanges.UNANSWERED)
        axes.plot(
            [INTERPOSER], [y], marker="x" if gone else "|", color=colour, markersize=7, markeredgewidth=2, zorder=4
        )
        if not gone:
            axes.annotate("", (end, y), (INTERPOSER, y), arrowprops={"arrowstyle": "-|>", "linestyle": "--", **line})
    words = exchanges.said(frame) + (f": {fate}" if fate else "")
    inked: dict[str, Any] = {
        "fontsize": LABEL,
        "va": "center",
        "bbox": {"facecolor": "white", "linewidth": 0, "pad": 0.5},
    }
    axes.text(PRODUCER + 0.015, y - 0.08, words, color=colour if colour == RED else "black", **inked)
    if len(found.brokers) > 1:
        axes.text(BROKER - 0.015, y - 0.08, found.broker(frame), color=GREY, ha="right", **inked)


def _look(found: Exchanges, frame: Frame) -> tuple[str, float]:
    if frame == found.struck:
        return RED, 1.4
    if (frame.attempt or 1) > 1 and frame.messages is not None:
        return ORANGE, 1.4
    return (BLUE if frame.batch == found.struck.batch else GREY), 0.9
