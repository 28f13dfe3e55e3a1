"""The table of counts: each field has a record, records agree with themselves, and the page says what they say."""

from pathlib import Path

import pytest

from dedup.judgement.count_tables import TABLES, definitions, with_tables
from dedup.judgement.counts import COUNTS, FORBIDDEN, JUMP_COUNTS, Counts, Jump

PAGE = Path(__file__).parent.parent.parent / "docs" / "verdicts.md"


def test_every_count_has_one_record() -> None:
    assert [*COUNTS] == [*Counts.model_fields]
    assert all(each.definition for each in COUNTS.values())


def test_every_kind_of_jump_has_one_count() -> None:
    assert [*JUMP_COUNTS.values()] == [*Jump]


@pytest.mark.parametrize("name", sorted({name for names in FORBIDDEN.values() for name in names}))
def test_what_an_expectation_forbids_can_be_said_in_words(name: str) -> None:
    assert COUNTS[name].words
    assert not COUNTS[name].contradiction, "a system cannot be accused of what is the tester's error"


def test_the_page_of_verdicts_has_the_tables_as_the_records_make_them() -> None:
    """If not: `make tables`."""
    page = PAGE.read_text()
    assert with_tables(page) == page


def test_a_table_that_was_edited_by_hand_is_made_again() -> None:
    page = PAGE.read_text()
    assert with_tables(page.replace("read and never sent", "a ghost")) == page
    assert with_tables("".join(f"<!-- {name} -->\n<!-- end -->\n" for name in TABLES)).count(definitions()) == 1
