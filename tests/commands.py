"""The commands that README.md and the pages of docs/ show: found in their fenced blocks, and taken apart.

A block shows commands if its first word is a program that we know; all others show what programs print. A synopsis
(`dedup run FILE [--runs N]`) is taken apart as well: its brackets fall away, words in capitals are values, and of
alternatives (`table|json`) each is tried.
"""

import itertools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
FENCE: Final = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN: Final = re.compile(r"(?<!`)`((?:dedup|make) [^`\n]+(?:\n[^`\n]+)?)`(?!`)")
SHELLS: Final = ("", "sh", "bash", "console")
PROGRAMS: Final = frozenset(
    {"dedup", "make", "python", "kubectl", "helm", "docker", "kind", "duckdb", "sed", "mkdir", "printf", "export", "rm"}
    | {"cd", ".", "objects", "pip"}
)
"""What a block of commands begins with."""
WORDS: Final = frozenset({"do", "done", "then", "fi", "else", "{", "}", "!"})
ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
HEREDOC: Final = re.compile(r"<<-?'?(\w+)'?")


@dataclass(frozen=True)
class Block:
    """A fenced block: the page, the line of its fence, and the text."""

    page: str
    line: int
    text: str


@dataclass(frozen=True)
class Shown:
    """One simple command that a page shows: its words, with no redirection, and its standard input if that is shown."""

    page: str
    line: int
    words: tuple[str, ...]
    stdin: str | None = None

    @property
    def program(self) -> str:
        return self.words[0].removeprefix(".venv/bin/")

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}: {' '.join(self.words)}"


def blocks() -> Iterator[Block]:
    """Every fenced block of the pages that may show commands."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in FENCE.finditer(text):
            if found["language"] in SHELLS:
                line = text.count("\n", 0, found.start()) + 1
                yield Block(str(page.relative_to(ROOT)), line, found["text"])


def shows_commands(block: Block) -> bool:
    """Whether its first word, after assignments, is a program."""
    first = next((line for line in block.text.splitlines() if line.strip() and not line.startswith("#")), "")
    words = list(itertools.dropwhile(ASSIGNMENT.match, first.split()))
    return bool(ASSIGNMENT.match(first)) or (bool(words) and words[0].removeprefix(".venv/bin/") in PROGRAMS)


def shown() -> list[Shown]:
    """Every command of every block of commands."""
    return [each for block in blocks() if shows_commands(block) for each in commands(block)]


def spans() -> list[Shown]:
    """Every `dedup …` and `make …` within a sentence."""
    found = []
    for page in PAGES:
        text = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), page.read_text(encoding="utf-8"))
        for span in SPAN.finditer(text):
            line = text.count("\n", 0, span.start()) + 1
            block = Block(str(page.relative_to(ROOT)), line, " ".join(span[1].split()) + "\n")
            found += list(commands(block))
    return found


def commands(block: Block) -> Iterator[Shown]:
    """The simple commands of a block, in order."""
    text = re.sub(r"\n +(?=\[--)", " ", block.text)  # the options of a synopsis go on
    lines = iter(list(enumerate(text.splitlines(), block.line + 1)))
    synopsis = False
    for number, line in lines:
        if line[:1] == " " and synopsis:
            continue  # what the command above it does; options that go on are joined below
        while line.endswith("\\"):
            line = line[:-1] + next(lines)[1].strip()
        heredoc = HEREDOC.search(line)
        stdin = None
        if heredoc:
            body = itertools.takewhile(lambda each: each[1] != heredoc[1], lines)  # noqa: B023
            stdin = "\n".join(text for _, text in body)
            line = line.replace(heredoc[0], "")
        synopsis = bool(re.search(r"\[(--|[a-z]+\|)|\bFILE\|", line))
        for words in simple(line):
            yield Shown(block.page, number, tuple(words), stdin)


def simple(line: str) -> Iterator[list[str]]:
    """The simple commands of a line of shell, with those in $(…) and without redirections."""
    if line.startswith(("dedup ", "make ")) and re.search(r"\[|\w\|\w", line):
        yield line.partition("  ")[0].split()
        return
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    skip = False
    for token in [*lexer, ";"]:
        if set(token) <= set("();|&"):
            yield from _stripped(words)
            words = []
        elif set(token) <= set("<>"):
            skip = True
        elif skip:
            skip = False
        elif token != "$":
            words.append(token)


def _stripped(words: list[str]) -> Iterator[list[str]]:
    """Without assignments and the shell's own words; nothing if nothing is left."""
    while words and (ASSIGNMENT.match(words[0]) or words[0] in WORDS):
        words = words[1:]
    if words and words[0] not in ("for", "while", "if"):
        yield words


def alternatives(words: tuple[str, ...]) -> Iterator[list[str]]:
    """The command lines that a synopsis stands for; a command that is none stands for itself."""
    text = re.sub(r"\[[A-Z]+=\]", "", " ".join("FOLDER" if word == "…" else word for word in words))
    text = re.sub(r"\[(?!-)(?![a-z]+\|)[^\]]*\]", "", text)  # [,HOST:PORT…], [TLS and log-in as above]
    plain = text.translate(str.maketrans("", "", "[]")).replace("…", "").replace("...", "").split()
    choices = [word.split("|") if "|" in word else [word] for word in plain]
    first = [choice[0] for choice in choices]
    yield first
    for place, choice in enumerate(choices):
        for other in choice[1:]:
            yield [*first[:place], other, *first[place + 1 :]]
