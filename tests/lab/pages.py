"""A page of `dedup report`, read by a program: its text, its tables, its images and what it would load."""

from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Final

VOID: Final = frozenset({"meta", "link", "br", "img"})


class Page(HTMLParser):
    """What is in a document; `problems` names elements that are not closed as they were opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.images, self.problems = "", list[str](), list[str]()
        self.tags, self.ids, self.links = list[str](), list[str](), list[str]()
        self.tables: list[list[list[str]]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given[name] or "" for name in ("src", "href") if name in given]
        if tag == "img":
            self.images.append(given.get("alt") or "")
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.words += data
        if "td" in self._open or "th" in self._open:
            self.tables[-1][-1][-1] += data.strip()

    def table(self, heading: str) -> dict[str, list[str]]:
        """The rows, by their first cells, of the first table that has a row that begins with `heading`."""
        found = next(rows for rows in self.tables if any(row[0] == heading for row in rows))
        return {first: rest for first, *rest in found}
