"""How `make docs` makes a site of the pages: Sphinx with MyST, which reads the Markdown as it is (docs/decisions/072).

The root of the sources is the repository, so that a link means the same there and on the site. A link to a file that
is no page, such as an example, leads to a copy of it; one to a folder is its name only. Every page, heading and file
that a link names must be there: Sphinx warns, and `make docs` makes an error of a warning.
"""

import re
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
LINK: Final = re.compile(r"\[([^\[\]]+)\]\(([^)\s:#]+)\)")
START: Final = "docs/index"
SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Learn": ("README", "docs/first-verdict", "docs/read-a-result", "docs/counts", "docs/restarts", "docs/glossary"),
    "Test": (
        *("docs/experiment", "docs/faults", "docs/verdicts", "docs/report", "docs/compare", "docs/known-bugs"),
        *("docs/known-bugs-figures", "docs/reports/*"),
    ),
    "Ask a broker": ("docs/probes", "docs/explore", "docs/interposer"),
    "In Kubernetes": (
        *("docs/install", "docs/operations", "docs/operator-chart", "docs/resource", "docs/charts", "docs/gitops"),
        *("docs/compare-clusters", "docs/images", "docs/run-by-hand"),
    ),
    "Build on it": (
        *("docs/design", "docs/history", "docs/write-a-client", "docs/kubernetes", "docs/campaign"),
        *("docs/cycles", "docs/discovered", "docs/fuzz", "docs/s0", "docs/exactly-once", "docs/kafka-and-pulsar"),
        "CONTRIBUTING",
        *("CHANGELOG", "bench/*/README"),
    ),
    "Decisions": ("docs/decisions/README", "docs/decisions/[01]*"),
}
"""What the pages are listed under; a page that stands in no section is a warning, and so an error."""

project = "dedup"
author = "the authors of dedup"
root_doc = START
extensions = ["myst_parser"]
include_patterns = ["*.md", "bench/**.md", "docs/**.md"]
exclude_patterns = [".*", "build", "results"]
myst_heading_anchors = 4
highlight_language = "text"
html_theme = "furo"
html_title = "dedup"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "a11y-high-contrast-light"


def _without_folders(page: Path, text: str) -> str:
    """The page's text; a link to a folder leads to the README in it, or is its words alone."""

    def instead(found: re.Match[str]) -> str:
        target = page.parent / found[2]
        if not target.is_dir():
            return found[0]
        return f"[{found[1]}]({found[2].rstrip('/')}/README.md)" if (target / "README.md").is_file() else found[1]

    return LINK.sub(instead, text)


def _lists() -> str:
    """The lists of pages, for the site's margin; in the repository the first page does without."""
    return "".join(
        "\n\n```{toctree}\n:hidden:\n:glob:\n"
        + f":caption: {title}\n"
        + "".join(f"/{page}\n" for page in pages)
        + "```\n"
        for title, pages in SECTIONS.items()
    )


def _read(app: Any, name: str, text: list[str]) -> None:
    text[0] = _without_folders(Path(app.env.doc2path(name)), text[0])
    if name == START:
        text[0] += _lists()


def _door(app: Any, exception: Exception | None) -> None:
    """The site's own index.html leads to the first page."""
    if exception is None:
        head = '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>dedup</title>\n'
        body = f'<meta http-equiv="refresh" content="0; url={START}.html">\n<a href="{START}.html">dedup</a>\n'
        (Path(app.outdir) / "index.html").write_text(head + body, encoding="utf-8")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _read)
    app.connect("build-finished", _door)
