"""The drawings of the counts: up to date, one a count, and marked by what a judge says."""

import pytest
from tests import drawings
from tests.builders import GOLDEN, parse_golden

from dedup.judgement.counts import COUNTS


@pytest.mark.long
def test_they_are_what_the_golden_histories_say_today() -> None:
    stale = [path.name for path, text in drawings.made().items() if not path.is_file() or path.read_text() != text]
    assert not stale, f"make drawings: {', '.join(stale)}"
    assert {path.stem for path in drawings.FOLDER.glob("*")} == set(COUNTS)


def test_the_copies_are_marked_and_the_words_say_so() -> None:
    copied = drawings.lanes("values_with_duplicates", parse_golden(GOLDEN / "duplicate.yaml"))
    assert drawings.words(copied) == (
        "Sent: 1 to 6. Read from partition 0: 1 to 6, 4 to 6. Marked: 4 to 6, 4 to 6 in the row partition 0."
    )
    assert drawings.drawing("values_with_duplicates", copied).count('class="copy marked"') == 3


def test_in_the_innocent_twin_nothing_is_a_copy_and_nothing_is_marked() -> None:
    twin = drawings.lanes("values_with_duplicates", parse_golden(GOLDEN / "duplicate-twin-re-read.yaml"))
    assert "Marked" not in drawings.words(twin)
    assert 'class="copy' not in drawings.drawing("values_with_duplicates", twin)


@pytest.mark.parametrize("count", [name for name, record in COUNTS.items() if record.forbidden_by])
def test_of_each_count_that_accuses_something_is_marked(count: str) -> None:
    found = drawings.lanes(count, drawings.chosen(count))
    assert any("marked" in box.kinds for boxes in found.values() for box in boxes)
