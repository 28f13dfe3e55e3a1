"""The scenarios: the examples, each with what it shows and what to expect, as its own comment says.

A scenario is an experiment file that opens with a comment: a first sentence that says what happens, and a paragraph
that begins with "Expect:". What else is listed (systems, faults, runs) is read from the experiment, and the seed
documents that it comes from are those that the comment names (S0, S1, …). So there is no second list to keep.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict

from dedup.errors import EnvironmentError_
from dedup.experiment.spec import parse

KIND: Final = "DedupExperiment"
SEED: Final = re.compile(r"\bS\d\b")
SENTENCE: Final = re.compile(r"(?<=[.?])\s")
COLUMNS: Final = ("file", "seeds", "systems", "faults", "runs", "what it shows", "expect")


class Scenario(BaseModel):
    """One example."""

    model_config = ConfigDict(frozen=True)

    file: str
    """Below the folder of the examples."""
    seeds: tuple[str, ...]
    """The seed documents that its comment names."""
    systems: tuple[str, ...]
    faults: tuple[str, ...]
    """The kinds of faults, in order."""
    runs: int
    """Of each variant on each system."""
    shows: str
    expect: str

    @property
    def cells(self) -> tuple[str, ...]:
        """What COLUMNS name."""
        said = (", ".join(each) or "-" for each in (self.seeds, self.systems, self.faults))
        return self.file, *said, str(self.runs), self.shows, self.expect or "-"


def here() -> Path:
    """The examples of this repository; else those below the working folder."""
    beside = Path(__file__).parents[2] / "examples"
    return beside if beside.is_dir() else Path("examples")


def scenarios(folder: Path) -> list[Scenario]:
    """All of a folder and the folders below it, by file; EnvironmentError if there is none."""
    found = [each for path in sorted(folder.rglob("*.yaml")) for each in _scenario(path, folder)]
    if not found:
        raise EnvironmentError_(
            where=str(folder),
            got="no experiment" if folder.is_dir() else "no such folder",
            rule="scenarios are the experiment files (*.yaml) of a folder",
            todo="name the folder examples/ of a clone of this repository: dedup list scenarios FOLDER",
        )
    return sorted(found, key=lambda each: (each.file.count("/"), each.file))


def _scenario(path: Path, folder: Path) -> Iterator[Scenario]:
    text = path.read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    if not isinstance(document, dict) or document.get("kind") != KIND:
        return
    spec = parse(document, source=str(path)).spec
    paragraphs = list(_paragraphs(text))
    expect = next((each for each in paragraphs if each.startswith("Expect:")), "")
    yield Scenario(
        file=str(path.relative_to(folder)),
        seeds=tuple(sorted(set(SEED.findall(" ".join(paragraphs))))),
        systems=tuple(dict.fromkeys(system.kind for system in spec.systems)),
        faults=tuple(dict.fromkeys(fault.kind for fault in spec.faults)),
        runs=spec.runs,
        shows=SENTENCE.split(next((each for each in paragraphs if not each.startswith("dedup ")), ""))[0],
        expect=expect.removeprefix("Expect:").strip(),
    )


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of the comment that a file opens with, each as one line; commands are left out."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append("" if line.startswith("#   ") else line.removeprefix("#").strip())
    for paragraph in "\n".join(lines).split("\n\n"):
        if paragraph.strip():
            yield " ".join(paragraph.split())


def markdown(found: Sequence[Scenario]) -> str:
    """A table for a page."""
    rows = [COLUMNS, tuple("---" for _ in COLUMNS), *(each.cells for each in found)]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
