"""The tables of docs/verdicts.md, made from the records of counts: `make tables` writes them into the page."""

import sys
from collections.abc import Callable, Mapping
from typing import Final

from dedup.judgement.counts import COUNTS, FORBIDDEN
from dedup.pages import filled


def definitions() -> str:
    """The table of all counts, in Markdown."""
    rows = (
        f"| `{name}` | {each.definition} | {'; '.join(basis.value for basis in each.rests_on)} |"
        for name, each in COUNTS.items()
    )
    return "\n".join(("| count | meaning | it accuses only if |", "| --- | --- | --- |", *rows))


def expectations() -> str:
    """The table of what each expectation forbids, in Markdown."""
    listed = {each: ", ".join(f"`{name}`" for name in names) for each, names in FORBIDDEN.items()}
    rows = (f"| `{each}` | {names or 'nothing: the runs are counted, not judged'} |" for each, names in listed.items())
    return "\n".join(("| `expect` | must be 0 in every run |", "| --- | --- |", *rows))


TABLES: Final[Mapping[str, Callable[[], str]]] = {"counts": definitions, "expectations": expectations}


def with_tables(page: str) -> str:
    """The page with each table, made from the records, between its marks `<!-- NAME -->` and `<!-- end -->`."""
    return filled(page, {name: table() for name, table in TABLES.items()})


if __name__ == "__main__":
    print(with_tables(sys.stdin.read()), end="")
