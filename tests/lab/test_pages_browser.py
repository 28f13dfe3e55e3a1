"""The page of `dedup report` in a browser: loaded at once, read by all, at a phone's width, at a laptop's and on paper.

200 runs make the page of a large experiment: 24 in full, the others in small, four columns of sums, and a conversation.
The same looks find defects that are made on purpose. Half a minute of a processor.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from testbed.browser import axe, chromium
from testbed.browser.chromium import PAPER_PX, Page
from tests.lab.finished import BROKEN, finish
from tests.lab.test_exchanges import BEFORE, row, write

import dedup_report
from dedup_lab import reporting

pytestmark = pytest.mark.browser

LOOK: Final = Path(chromium.__file__).with_name("layout.js").read_text(encoding="utf-8")
SYSTEMS: Final = [{"name": "kafka", "kafka": {}}, {"name": "kafka-of-the-other-team", "kafka": {}}]
PHONE, LAPTOP = 390, 1280
MOST_S: Final = 3.0
LOADS: Final = 5
"""A busy machine may be in the way of some."""
GRAVE: Final = ("critical", "serious")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = finish(tmp_path_factory.mktemp("browser") / "results", BROKEN, systems=SYSTEMS, runs=50)
    write(results.attempt("kafka-control-001", 1), [*BEFORE, row(33, "reply Produce 2 2", offset=15, error_code=0)])
    reporting.write(results)
    return results.root / reporting.PAGE


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium.opened() as found:
        yield found


def test_it_is_there_in_three_seconds_and_the_console_is_silent(report: Path, page: Page) -> None:
    loads: list[float] = []
    while not loads or (min(loads) >= MOST_S and len(loads) < LOADS):
        loads.append(page.load(report, LAPTOP))
        assert page.complaints() == []
    assert min(loads) < MOST_S, loads
    assert page.ask("document.images.length") > 200


@pytest.mark.parametrize(
    ("width", "printed"), [(PHONE, False), (LAPTOP, False), (PAPER_PX, True)], ids=["phone", "laptop", "paper"]
)
def test_nothing_is_cut_off_and_nothing_overlaps(width: int, printed: bool, report: Path, page: Page) -> None:
    page.load(report, width, printed=printed)
    assert page.ask(LOOK) == []


@pytest.mark.parametrize("width", [PHONE, LAPTOP])
def test_axe_finds_nothing_serious(width: int, report: Path, page: Page) -> None:
    page.load(report, width)
    assert [found for found in axe.violations(page) if found.startswith(GRAVE)] == []


def flawed(tmp_path: Path, flaw: str) -> Path:
    """A page with the report's style and rules, and this in it."""
    made = tmp_path / "flawed.html"
    style = (Path(dedup_report.__file__).parent / "report.css").read_text()
    rules = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    made.write_text(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>t</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{rules}"><style>{style}</style></head>'
        f"<body><main><h1>A page</h1><p>Words.</p>{flaw}</main></body></html>"
    )
    return made


WIDE: Final = '<div class="wide" tabindex="0" role="region" aria-label="a"><table><tr><th>{}</th></tr></table></div>'


@pytest.mark.parametrize(
    ("flaw", "printed", "said"),
    [
        ("", False, []),
        (WIDE.format("word&nbsp;" * 200), False, []),
        (WIDE.format("word&nbsp;" * 200), True, ["is cut off", "px wide"]),
        ('<div style="width: 3000px">wide</div>', False, ["<div> “wide” is cut off", "px wide"]),
        ("<p>one line</p><p style='margin-top: -22px'>another</p>", False, ["“one line” and <p> “another” overlap"]),
        ("<p style='line-height: .5'>" + "word " * 200 + "</p>", True, ["overlap"]),
        ("<p style='overflow-x: hidden; width: 60px; white-space: nowrap'>" + "word " * 20 + "</p>", False, ["hides"]),
        ('<img alt="order" src="data:image/png;base64,AAAA">', False, ["<img> “order” is not shown"]),
    ],
    ids=["none", "scrolls", "printed", "wide", "over", "lines", "hidden", "image"],
)
def test_a_defect_made_on_purpose_is_seen(
    flaw: str, printed: bool, said: list[str], tmp_path: Path, page: Page
) -> None:
    page.load(flawed(tmp_path, flaw), PAPER_PX if printed else LAPTOP, printed=printed)
    found = page.ask(LOOK)
    assert bool(found) == bool(said) and all(any(words in line for line in found) for words in said), found


@pytest.mark.parametrize(
    ("flaw", "said"),
    [
        ("", []),
        ("<p style='color: #ccc'>pale</p>", ["serious color-contrast"]),
        ("<button></button>", ["critical button-name"]),
    ],
    ids=["none", "pale", "nameless"],
)
def test_what_some_cannot_read_is_seen(flaw: str, said: list[str], tmp_path: Path, page: Page) -> None:
    page.load(flawed(tmp_path, flaw), LAPTOP)
    assert [" ".join(found.split(":")[0].split()) for found in axe.violations(page)] == said


def test_what_a_page_may_not_do_is_heard(tmp_path: Path, page: Page) -> None:
    page.load(flawed(tmp_path, "<script>1</script>"), LAPTOP)
    assert any("Content Security Policy" in line for line in page.complaints())
    page.load(flawed(tmp_path, ""), LAPTOP)
    assert page.complaints() == []
