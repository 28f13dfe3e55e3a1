"""Each count with a drawing, made of a golden history: `make drawings` writes docs/drawings/ and docs/counts.md.

Of the golden histories that show a count the plainest is drawn: the one with the fewest other counts, partitions,
streams and messages. What is marked in it is what the oracle names as witnesses. So a new count has its drawing as soon
as it has its golden history, and a drawing never says more than a judge. A drawing is SVG of boxes and letters, 364
pixels wide, as a phone is; what it shows is said in words beside it too.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from tests.builders import GOLDEN, OUTCOMES, Golden, golden_histories, parse_golden, write_history

from dedup.judgement.anomalies import Verification
from dedup.judgement.counts import COUNTS
from dedup.pages import filled
from dedup_spark import oracle

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "counts.md"
FOLDER: Final = ROOT / "docs" / "drawings"
PLAIN: Final = {"send", "ack", "positive_ack", "received"}
LABEL_PX, BOX_PX, STEP_PX, LINE_PX, A_LINE = 84, 25, 28, 56, 10
WIDTH_PX: Final = LABEL_PX + A_LINE * STEP_PX
WORDS: Final = {number: word for word, number in OUTCOMES.items()}
STYLE: Final = (
    "text{font:11px sans-serif;fill:#1a1a1a;text-anchor:middle}.s{font-size:8px}.l{text-anchor:start}"
    "rect{fill:#eef4f8;stroke:#4a6a80}.copy{fill:#fbe6da;stroke:#a84300}.again{fill:#fff;stroke-dasharray:3 2}"
    ".ghost{fill:#fff;stroke:#666;stroke-dasharray:3 2}.marked{stroke:#1a1a1a;stroke-width:2.5}"
)


@dataclass
class Box:
    """A message in a lane: its words, what stands above and below it, and how it is drawn."""

    text: str
    below: str = ""
    above: str = ""
    kinds: set[str] = field(default_factory=set)


Lanes = Mapping[str, list[Box]]


def chosen(count: str) -> Golden:
    """The plainest golden history that shows the count; an innocent twin is there for what it does not show."""
    found = [each for each in _golden() if each.expect.get("counts", {}).get(count)]
    assert found, f"no golden history shows {count}: write one, and its innocent twin"

    def cost(golden: Golden) -> tuple[bool, bool, bool, int, int, int, str]:
        rows, expect = golden.history.received, golden.expect
        others = {name for name, number in expect["counts"].items() if number} - PLAIN - {count}
        lanes = len({row[1] for row in rows}) + len({row[5] for row in rows})
        special = bool(golden.history.sessions) or "gaps" in expect or golden.history.transactions is not None
        unwitnessed = count not in PLAIN and count not in expect.get("witnesses", {})
        size = len(rows) + len(golden.history.sent)
        return "-twin" in golden.name, special, unwitnessed, len(others), lanes, size, golden.name

    return min(found, key=cost)


@cache
def _golden() -> list[Golden]:
    return golden_histories()


def twin(golden: Golden) -> Golden | None:
    """Its innocent twin: nearly the same history, in which nothing is wrong."""
    path = GOLDEN / f"{golden.name}-twin.yaml"
    return parse_golden(path) if path.is_file() else None


@cache
def _judged(name: str) -> Verification:
    with tempfile.TemporaryDirectory() as folder:
        write_history(Path(folder) / "run", parse_golden(GOLDEN / f"{name}.yaml").history)
        return oracle.judge(Path(folder) / "run")


def lanes(count: str, golden: Golden) -> dict[str, list[Box]]:
    """What was sent, and what was read from each partition, in order; with what the count counts marked."""
    history = golden.history
    streams = {row[0] for row in (*history.sent, *history.outcomes)} | {row[5] for row in history.received}
    drawn = _Drawn(count, golden, several=len(streams) > 1)
    return {"sent": list(drawn.sent()), **drawn.read(), **drawn.processed()}


@dataclass(frozen=True)
class _Drawn:
    count: str
    golden: Golden
    several: bool

    def sent(self) -> Iterator[Box]:
        """A box a send, with its outcome; then outcomes without a send."""
        outcomes: dict[tuple[int, ...], str] = {}
        for stream, value, outcome, *rest in self.golden.history.outcomes:
            outcomes[stream, value, *rest[4:]] = WORDS[outcome] + self._elsewhere(stream, value, rest)
        for stream, value, *send in self.golden.history.sent:
            said = outcomes.pop((stream, value, *send), "none")
            below = f"{send[0]}.{send[1]} {said}" if send else said
            yield Box(self._name(stream, value), below, kinds=self._mark_sent(stream, value, said))
        for (stream, value, *_), said in outcomes.items():
            yield Box(self._name(stream, value), said, kinds={"ghost"} | self._mark_sent(stream, value, said))

    def read(self) -> dict[str, list[Box]]:
        """A box a message, in the order of arrival."""
        made: dict[str, list[Box]] = {}
        jumps = {each.arrival: each for each in self._judged.events}
        seen, places = set[tuple[int, int]](), set[tuple[int, ...]]()
        last: dict[int, tuple[int, ...]] = {}
        for arrival, partition, ledger, entry, batch, stream, value, *send in self.golden.history.received:
            message, place = (stream, value), (partition, ledger, entry, batch, stream, value, *send)
            kinds = {"again"} if place in places else {"copy"} if message in seen else set()
            shows = {
                "extra_copies": "copy" in kinds,
                "re_reads": "again" in kinds,
                "position_falls": place[1:4] < last.get(partition, place[1:4]),
            }.get(self.count, message in self._marked and not self.count.startswith(("outcomes_", "processed_")))
            jump = jumps.get(arrival)
            if jump is not None and COUNTS[self.count].jump is jump.jump:
                shows = True
            above = "" if jump is None else f"{jump.jump} {abs(jump.value - jump.last)}"
            below = f"{send[0]}.{send[1]}" if send else self._place(ledger, entry, batch)
            box = Box(self._name(stream, value), below, above, kinds | ({"marked"} if shows else set()))
            made.setdefault(f"partition {partition}", []).append(box)
            seen.add(message)
            places.add(place)
            last[partition] = place[1:4]
        return made

    def processed(self) -> dict[str, list[Box]]:
        """A box a message that the application processed, life by life."""
        made: dict[str, list[Box]] = {}
        for life, _, ledger, entry, batch, stream, value in self.golden.history.processed or ():
            shows = (stream, value) in self._marked and self.count.startswith("processed_")
            box = Box(
                self._name(stream, value), self._place(ledger, entry, batch), kinds={"marked"} if shows else set()
            )
            made.setdefault(f"life {life}", []).append(box)
        return made

    @property
    def _judged(self) -> Verification:
        return _judged(self.golden.name)

    @property
    def _marked(self) -> set[tuple[int, int]]:
        return {(each.stream, each.value) for each in self._judged.witnesses if each.anomaly == self.count}

    def _mark_sent(self, stream: int, value: int, said: str) -> set[str]:
        words = {"unknown": ("unknown", "none"), "negative_ack": ("fail",), "outcomes_missing": ("none",)}
        if said.partition(" ")[0] in words.get(self.count, ()):
            return {"marked"}
        read = any(row[5:7] == (stream, value) for row in self.golden.history.received)
        if self.count == "hanging_transaction":  # what no committed reader is given
            return set() if read else {"marked"}
        own = self.count == "outcomes_unsent" or not read
        return {"marked"} if own and (stream, value) in self._marked else set()

    def _elsewhere(self, stream: int, value: int, rest: list[int]) -> str:
        """Where a message was acknowledged, if it was not read there."""
        read = {row[1:5] for row in self.golden.history.received if row[5:7] == (stream, value)}
        place = tuple(rest[:4])
        return "" if place[2] < 0 or not read or place in read else f" @{place[2]}"

    def _place(self, ledger: int, entry: int, batch: int) -> str:
        rows = self.golden.history.received
        if not any(row[2] or row[4] for row in rows):
            return f"@{entry}"
        return f"{ledger}:{entry}" + (f":{batch}" if any(row[4] for row in rows) else "")

    def _name(self, stream: int, value: int) -> str:
        return f"{stream}/{value}" if self.several else str(value)


def words(found: Lanes) -> str:
    """What a drawing shows, for who does not see it."""
    parts, marked = [], []
    for lane, boxes in found.items():
        begin = "Sent" if lane == "sent" else f"{'Processed in' if lane.startswith('life') else 'Read from'} {lane}"
        parts.append(f"{begin}: {_runs([each.text for each in boxes]) or 'nothing'}.")
        shown = [each.text for each in boxes if "marked" in each.kinds]
        if shown:
            marked.append(f"{_runs(shown)} in the row {lane}")
    return " ".join([*parts, f"Marked: {'; '.join(marked)}."] if marked else parts)


def _runs(texts: list[str]) -> str:
    """Values in their order, those that rise by one as a range."""
    runs: list[list[str]] = []
    for text in texts:
        follows = runs and text.isdigit() and runs[-1][-1].isdigit() and int(text) == int(runs[-1][-1]) + 1
        runs[-1].append(text) if follows else runs.append([text])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def drawing(count: str, found: Lanes) -> str:
    """The drawing as SVG."""
    body, top = [], 6
    for lane, boxes in found.items():
        body.append(f'<text class="l" x="0" y="{top + 28}">{escape(lane)}</text>')
        for number, box in enumerate(boxes):
            line, place = divmod(number, A_LINE)
            body.append(_box(box, LABEL_PX + place * STEP_PX, top + line * LINE_PX))
        top += LINE_PX * (1 + max(0, len(boxes) - 1) // A_LINE)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH_PX}" height="{top}" '
        f'viewBox="0 0 {WIDTH_PX} {top}" role="img">'
    )
    title = f"<title>{escape(count)}</title><desc>{escape(words(found))}</desc><style>{STYLE}</style>"
    paper = f'<path fill="#fff" d="M0 0h{WIDTH_PX}v{top}H0z"/>'
    return "\n".join([head, title, paper, *body, "</svg>", ""])


def _box(box: Box, x: int, y: int) -> str:
    middle = x + BOX_PX / 2
    kinds = f' class="{" ".join(sorted(box.kinds))}"' if box.kinds else ""
    shape = f'<rect{kinds} x="{x}" y="{y + 12}" width="{BOX_PX}" height="22" rx="3"/>'
    said = f'<text x="{middle:g}" y="{y + 27}">{escape(box.text)}</text>'
    above = f'<text class="s" x="{middle:g}" y="{y + 8}">{escape(box.above)}</text>' if box.above else ""
    lines = box.below.split(" ")
    below = "".join(
        f'<text class="s" x="{middle:g}" y="{y + 43 + 8 * number}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return shape + said + above + below


def sections() -> str:
    """The body of the page: a section a count."""
    return "\n\n".join(_section(count) for count in COUNTS)


def _section(count: str) -> str:
    golden = chosen(count)
    number = golden.expect["counts"][count]
    record = COUNTS[count]
    heading = f" In tables: *{record.heading}*." if record.heading else ""
    forbidden = ", ".join(f"`{each}`" for each in record.forbidden_by)
    told = [
        f"## {count}",
        f"{_sentence(record.definition)}{heading}" + (f" Must be 0 for {forbidden}." if forbidden else ""),
        f"![{words(lanes(count, golden))}](drawings/{count}.svg)",
        f"{_sentence(' '.join(golden.story.split()))} Here `{count}` is {number}.",
    ]
    innocent = twin(golden)
    if innocent is not None and not innocent.expect["counts"].get(count):
        told.append(f"*Its innocent twin, where `{count}` is 0:* {_sentence(' '.join(innocent.story.split()))}")
    return "\n\n".join(told)


def _sentence(text: str) -> str:
    text = text.replace("(#order)", "(verdicts.md#order)")
    begin = text if text.startswith("`") else text[0].upper() + text[1:]
    return begin if begin.endswith(".") else f"{begin}."


def made() -> dict[Path, str]:
    """Every file that `make drawings` writes, with its text."""
    files = {FOLDER / f"{count}.svg": drawing(count, lanes(count, chosen(count))) for count in COUNTS}
    return {**files, PAGE: filled(PAGE.read_text(encoding="utf-8"), {"each count": sections()})}


def main() -> int:
    """Write them; a drawing of a count that is no more is removed."""
    files = made()
    FOLDER.mkdir(exist_ok=True)
    for path in set(FOLDER.glob("*.svg")) - files.keys():
        path.unlink()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
