"""One version for all that is released: said in pyproject.toml, and written wherever else a file must say it.

The package of the domain says it too, since images hold our code as plain files; so does each chart, since Helm reads
charts and nothing else. `set_to` writes them all, `disagreements` finds one that says something else.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dedup.errors import SpecificationError

VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")
"""Semantic versioning without build metadata, which no tag of an image may have."""
CHANGELOG: Final = "CHANGELOG.md"
UNRELEASED: Final = " (unreleased)"


@dataclass(frozen=True)
class Place:
    """A line of a file that says the version: what stands before it, and after it."""

    file: str
    before: str
    after: str = ""

    @property
    def _line(self) -> re.Pattern[str]:
        return re.compile(rf"^{re.escape(self.before)}(?P<version>\S+?){re.escape(self.after)}$", re.MULTILINE)

    def read(self, root: Path) -> str:
        """What the line says. SpecificationError unless there is exactly one such line."""
        found: list[str] = [each["version"] for each in self._line.finditer((root / self.file).read_text())]
        if len(found) != 1:
            raise SpecificationError(
                where=self.file,
                got=f"{len(found)} lines {self.before}VERSION{self.after}",
                rule="one line says the version",
                todo="put that line right, or the list of places in testbed/release/versions.py",
            )
        return found[0]

    def write(self, root: Path, version: str) -> None:
        """Have the line say this version."""
        self.read(root)
        path = root / self.file
        said = self._line.sub(lambda _: f"{self.before}{version}{self.after}", path.read_text())
        path.write_text(said, encoding="utf-8")


FIRST: Final = Place("pyproject.toml", 'version = "', '"')
DERIVED: Final = (
    Place("runners/pyproject.toml", 'version = "', '"'),
    Place("core/dedup/__init__.py", '__version__ = "', '"'),
    Place("charts/dedup-operator/Chart.yaml", "version: "),
    Place("charts/dedup-operator/Chart.yaml", "appVersion: "),
    Place("charts/kafka/Chart.yaml", "version: "),
    Place("charts/pulsar/Chart.yaml", "version: "),
    Place("charts/strimzi-kafka/Chart.yaml", "version: "),
)
"""Of systems' charts the appVersion is the system's own."""


def current(root: Path) -> str:
    """The version that this checkout is, or becomes with its next release."""
    return FIRST.read(root)


def disagreements(root: Path) -> Iterator[str]:
    """Each place that says another version, in words."""
    version = current(root)
    for place in DERIVED:
        if (said := place.read(root)) != version:
            yield (
                f"{place.file}: got {place.before}{said}{place.after}; {FIRST.file} says {version}; "
                f"run `python -m testbed.release set {version}`"
            )


def set_to(root: Path, version: str) -> None:
    """Have every place say this version. SpecificationError unless it is one."""
    if not VERSION.fullmatch(version):
        raise SpecificationError(
            where="the version",
            got=version,
            rule="MAJOR.MINOR.PATCH, as semantic versioning has it, perhaps with -SOMETHING behind it",
            todo="write such a version, without a v",
        )
    for place in (FIRST, *DERIVED):
        place.write(root, version)


def obstacles(root: Path, tag: str) -> Iterator[str]:
    """What speaks against a release by this tag, in words: nothing, when all is ready."""
    yield from disagreements(root)
    version = current(root)
    if tag != f"v{version}":
        yield f"the tag: got {tag}; {FIRST.file} says {version}, so the tag is v{version}; set the version, or tag anew"
    headings = re.findall(r"^## (.+)$", (root / CHANGELOG).read_text(), re.MULTILINE)
    if headings[:1] != [version]:
        yield (
            f"{CHANGELOG}: got {headings[0] if headings else 'no section'} at the top; "
            f"a release has a section of its own; write `## {version}` there, without{UNRELEASED}"
        )
