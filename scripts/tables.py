"""Writes the tables of docs/ that are made from records: of faults, clients, counts and expectations; `make tables`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from dedup.experiment.clients import table
from dedup.faults.tables import markdown
from dedup.judgement.count_tables import TABLES
from dedup.pages import filled

DOCS: Final = Path(__file__).parent.parent / "docs"
PAGES: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "experiment.md": {"clients": lambda: "\n".join(table())},
    "faults.md": {"kinds": markdown},
    "verdicts.md": TABLES,
}
"""Of each page its tables, by the names of their marks."""

if __name__ == "__main__":
    for name, tables in PAGES.items():
        page = DOCS / name
        page.write_text(filled(page.read_text(), {mark: made() for mark, made in tables.items()}))
