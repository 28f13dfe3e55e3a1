"""The style, held by a machine: what can be counted is counted here, so that reviews can speak of ideas.

Every rule is a function from a file to its breaches, and each rule is first shown a breach made up for it: a check that
cannot fail proves nothing.
"""

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from scripts import repeats

Rule = Callable[[str], Iterator[str]]

ROOT: Final = Path(__file__).parent.parent
ROOMS: Final = ("core", "operator", "report", "runners", "spark", "lab")
MAX_FUNCTION_LINES: Final = 60
MAX_FILE_LINES: Final = 500
TABLE_LINES: Final = 10

# Written so that this file does not contain what it looks for.
UNFINISHED: Final = re.compile(r"\b(TO" + r"DO|FIX" + r"ME)\b")
# Some places below /opt are images' own.
MACHINE_PATHS: Final = re.compile(
    r"(?<![\w.$}])/(root|home|Users|work|opt(?!/(kafka|spark|cni|entrypoint\.sh)\b))" + r"/[\w.-]+"
)
REGISTRIES: Final = re.compile(
    r"\b("
    + "|".join(
        re.escape(name) + r"\." + re.escape(domain)
        for name, domain in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("maven", "org"),
            ("repo.maven.apache", "org"),
            ("proxy.golang", "org"),
            ("sum.golang", "org"),
            ("docker", "io"),
            ("ghcr", "io"),
            ("quay", "io"),
            ("npmjs", "org"),
        )
    )
    + r")\b"
)


def project_files() -> list[Path]:
    """Every file that is, or would be, committed."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]


def text_files() -> list[Path]:
    return [path for path in project_files() if b"\0" not in path.read_bytes()[:8000]]


def python_files() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py"]


parsed: Final = cache(ast.parse)
"""Each file once, however many rules look at it."""


def missing_docstring(source: str) -> Iterator[str]:
    if not (ast.get_docstring(parsed(source)) or "").strip():
        yield "1: opens without a docstring that tells the idea"


def long_functions(source: str) -> Iterator[str]:
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{node.lineno}: {node.name} has {lines} lines, at most {MAX_FUNCTION_LINES} fit a screen"


def long_file(source: str) -> Iterator[str]:
    """A table of data may be as long as it is: a constant of a module that takes more than TABLE_LINES lines."""
    constants = [node for node in parsed(source).body if isinstance(node, ast.Assign | ast.AnnAssign)]
    sizes = [(node.end_lineno or node.lineno) - node.lineno + 1 for node in constants]
    lines = source.count("\n") - sum(size for size in sizes if size > TABLE_LINES)
    if lines > MAX_FILE_LINES:
        yield f"{lines}: more than {MAX_FILE_LINES} lines beside tables; it holds more than one idea"


def sleeps(source: str) -> Iterator[str]:
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "sleep":
            yield f"{node.lineno}: a sleep; poll a condition with a bound instead"


def matches(pattern: re.Pattern[str], what: str, source: str) -> Iterator[str]:
    for number, line in enumerate(source.splitlines(), 1):
        if found := pattern.search(line):
            yield f"{number}: {what}: {found[0]}"


def unfinished(source: str) -> Iterator[str]:
    return matches(UNFINISHED, "unfinished work belongs in an issue", source)


def machine_paths(source: str) -> Iterator[str]:
    return matches(MACHINE_PATHS, "a path of one machine", source)


def registries(source: str) -> Iterator[str]:
    return matches(REGISTRIES, "a registry by name; mirrors must work", source)


PYTHON_RULES: Final[tuple[Rule, ...]] = (missing_docstring, long_functions, long_file)
TEXT_RULES: Final[tuple[Rule, ...]] = (unfinished, machine_paths, registries)

BREACHES: Final[dict[Rule, str]] = {
    missing_docstring: "import os\n",
    long_functions: "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES,
    long_file: "x = 1\n" * (MAX_FILE_LINES + 1),
    sleeps: "import time\ntime.sleep(1)\n",
    unfinished: "# TO" + "DO later\n",
    machine_paths: "see /root" + "/notes.txt\n",
    registries: "https://repo1.maven" + ".org/maven2\n",
}
INNOCENTS: Final[dict[Rule, str]] = {
    missing_docstring: '"""The idea."""\n',
    long_functions: "def f():\n" + "    x = 1\n" * (MAX_FUNCTION_LINES - 1),
    long_file: "x = 1\n" * (MAX_FILE_LINES) + "X = [\n" + "1,\n" * TABLE_LINES + "]\n",
    sleeps: "sleep_s = 1\nwait(sleep_s)\n",
    unfinished: 'raise DedupError(todo="mend it")\n',
    machine_paths: "/usr/bin/env, {root}/work/x, folder/opt/x, /opt/kafka/bin in an image\n",
    registries: "xmlns=http://maven.apache.org/POM/4.0.0\n",
}


@pytest.mark.parametrize("rule", BREACHES, ids=lambda rule: rule.__name__)
def test_each_rule_sees_a_breach_and_spares_its_innocent_twin(rule: Rule) -> None:
    assert list(rule(BREACHES[rule]))
    assert not list(rule(INNOCENTS[rule]))


@pytest.mark.parametrize("rule", PYTHON_RULES, ids=lambda rule: rule.__name__)
def test_python_files(rule: Rule) -> None:
    assert not breaches(rule, python_files())


@pytest.mark.parametrize("rule", TEXT_RULES, ids=lambda rule: rule.__name__)
def test_all_files(rule: Rule) -> None:
    assert not breaches(rule, text_files())


def test_tests_wait_for_conditions() -> None:
    polling = ("tests", "testbed")
    assert not breaches(sleeps, [path for path in python_files() if path.relative_to(ROOT).parts[0] in polling])


def test_a_section_of_the_design_that_is_cited_is_there() -> None:
    numbers = set(re.findall(r"^## (\d+)\.", (ROOT / "docs" / "design.md").read_text(encoding="utf-8"), re.MULTILINE))
    cited = {
        (str(path.relative_to(ROOT)), said)
        for path in project_files()
        if path.suffix == ".py"
        for said in re.findall(r"docs/design\.md §(\d+)", path.read_text(encoding="utf-8"))
    }
    assert cited, "nobody cites it"
    assert not [(path, said) for path, said in cited if said not in numbers]


def test_no_room_is_itself_a_package() -> None:
    """`operator/__init__.py` would shadow the standard library's `operator` (design: rooms)."""
    assert not [room for room in ROOMS if (ROOT / room / "__init__.py").exists()]


READS_FOR_IT: Final = "plain_histories"


def test_the_oracle_shares_no_code_with_the_job() -> None:
    """Two judges that share code agree on its mistakes too."""
    package = ROOT / "spark" / "dedup_spark"
    oracle = (package / "oracle.py").read_text()
    others = {path.stem: set(imports(path.read_text())) for path in package.rglob("*.py") if path.name != "oracle.py"}
    own = {name for name in imports(oracle) if name.startswith("dedup_spark")}
    assert {name.rpartition(".")[0] for name in own} == {f"dedup_spark.{READS_FOR_IT}"}
    assert not [name for name in others[READS_FOR_IT] if name.startswith("dedup_spark")]
    assert not [stem for stem, names in others.items() if any(READS_FOR_IT in name for name in names)]
    assert {stem for stem, names in others.items() if any("oracle" in name for name in names)} == {"opinions"}
    assert {stem for stem, names in others.items() if any("opinions" in name for name in names)} == {
        "report",
        "opinion_job",
    }


def test_a_block_that_stands_twice_is_seen_whatever_its_texts_are() -> None:
    block = "\n".join(f"    found.append(ask_{number}({{text}}, 7))" for number in range(repeats.LINES))
    ours, theirs = f"def f():\n{block.format(text=chr(34) * 2)}\n", f"def g():\n{block.format(text=repr('other'))}\n"
    assert list(repeats.repeats({"a": ours, "b": theirs})) == [("b:2", "a:2")]
    assert not list(repeats.repeats({"a": ours, "b": theirs.replace("ask_4", "tell")})), "nine lines at most"
    table = "X = [\n" + "    f(1),\n" * 2 * repeats.LINES + "]\n"
    assert not list(repeats.repeats({"a": table, "b": table})), "a table of data"


def imports(source: str) -> Iterator[str]:
    """The full name of everything that a file imports."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def breaches(rule: Rule, paths: list[Path]) -> list[str]:
    assert paths
    return [f"{path.relative_to(ROOT)}:{breach}" for path in paths for breach in rule(path.read_text())]
