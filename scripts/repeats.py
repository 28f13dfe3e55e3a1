"""Blocks of ten lines whose logic stands twice in the product, the testbed or the tests; a part of `make lint`.

Lines count as the same whatever their indentation, their texts and their numbers are. Not compared are blank lines,
comments, docstrings, imports, lines of texts and numbers alone, and tables of data: assignments of more than ten lines.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("core", "report", "runners", "spark", "lab", "operator", "testbed", "tests", "scripts")
LINES: Final = 10
LITERAL: Final = re.compile(r"""[a-z]{0,2}("[^"]*"|'[^']*')|\b[0-9][0-9_.]*\b""")
WORD: Final = re.compile(r"[^#]*?[A-Za-z]")
"""What a line of logic has, and a line of data alone has not, once its texts and numbers are `_`."""
Line = tuple[int, str]


def code(source: str) -> list[Line]:
    """The lines to compare, with their numbers."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and (text or isinstance(node, ast.Import | ast.ImportFrom) or _is_table(node)):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = ((number, LITERAL.sub("_", line).strip()) for number, line in enumerate(source.splitlines(), 1))
    return [(number, line) for number, line in lines if WORD.match(line) and number not in left_out]


def _is_table(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign | ast.AnnAssign) and (node.end_lineno or 0) - node.lineno >= LINES


def repeats(sources: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Where each repeated block begins, and where it stood before, as FILE:LINE."""
    windows: dict[tuple[str, ...], tuple[str, int]] = {}
    for name, source in sources.items():
        lines, reported = code(source), -LINES
        for first in range(len(lines) - LINES + 1):
            window = tuple(line for _, line in lines[first : first + LINES])
            before = windows.setdefault(window, (name, first))
            apart = before[0] != name or first - before[1] >= LINES
            if apart and first - reported >= LINES:
                reported = first
                yield f"{name}:{lines[first][0]}", f"{before[0]}:{code(sources[before[0]])[before[1]][0]}"


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    files = [name for name in listed.stdout.splitlines() if name.endswith(".py") and (ROOT / name).is_file()]
    found = list(repeats({name: (ROOT / name).read_text(encoding="utf-8") for name in files}))
    for again, before in found:
        print(f"{again}: got {LINES} lines that stand at {before} too; no logic stands twice; make one helper of them")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
