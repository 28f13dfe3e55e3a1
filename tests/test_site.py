"""The site of `make docs`: every link leads somewhere, every page is listed, and nothing is loaded from elsewhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
LOADS: Final = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=["'](https?:)?//[^"']*["']""")

pytestmark = pytest.mark.long


def build(root: Path, to: Path, builder: str = "html") -> "subprocess.CompletedProcess[str]":
    """As the Makefile does; the builder `dummy` reads and checks the same, and writes nothing."""
    options = ["--quiet", "--fail-on-warning", "--keep-going", "-c", "docs", "-b", builder, "-d", str(to / "trees")]
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *options, ".", str(to / "site")],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_every_link_leads_somewhere_and_a_reader_needs_no_network(tmp_path: Path) -> None:
    built = build(ROOT, tmp_path)
    assert (built.returncode, built.stderr) == (0, "")
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 60 and (tmp_path / "site" / "index.html").is_file()
    assert not [(page.name, found[0]) for page in pages for found in LOADS.finditer(page.read_text(encoding="utf-8"))]
    sheets = [path.read_text(encoding="utf-8") for path in (tmp_path / "site" / "_static").rglob("*.css")]
    assert sheets and not [sheet for sheet in sheets if re.search(r"@import|url\(\s*['\"]?(https?:)?//", sheet)]


def test_a_link_to_a_page_a_heading_or_a_file_that_is_not_there_is_an_error_and_so_is_a_page_in_no_list(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".*", "build", "results", "__pycache__"))
    with (root / "docs" / "glossary.md").open("a", encoding="utf-8") as page:
        page.write("\n[a](nowhere.md) [b](faults.md#no-such-heading) [c](../core/nothing.py)\n")
    (root / "docs" / "stray.md").write_text("# A stray page\n", encoding="utf-8")
    built = build(root, tmp_path, "dummy")
    assert built.returncode != 0
    for named in ("nowhere.md", "no-such-heading", "nothing.py", "stray.md"):
        assert named in built.stderr
