"""Pages whose tables are made from records: each stands between `<!-- NAME -->` and `<!-- end -->`, and is filled in.

So what is written by hand and what is made are on one page, and a test can say whether it is as the records are.
"""

from collections.abc import Mapping


def filled(page: str, tables: Mapping[str, str]) -> str:
    """The page with each table, by its name, between its marks."""
    for name, table in tables.items():
        head, mark, rest = page.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition("<!-- end -->")
        assert mark and end, f"the page has no place for the table of {name}"
        page = f"{head}{mark}{table}\n{end}{tail}"
    return page
