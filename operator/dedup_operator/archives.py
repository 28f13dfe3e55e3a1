"""Charts of the administrator's list as files: fetched, compared with their digest, and what was rendered of them.

A chart comes from an OCI registry, a repository, or a file of the operator's pod. Wherever it comes from, it is
compared with the entry's digest before Helm reads it, each time: what a registry gives out today need not be what it
gave out yesterday. An archive that was the right one is kept, so that a registry that is away holds nothing up.

What is installed is a chart that consists of the rendered objects and has no template: Helm only carries them.
"""

import hashlib
import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

from dedup.errors import PlatformError
from dedup_operator.clusters import Object, Refused, Unreachable
from dedup_operator.objects.listed import LIST, ListedSystem
from dedup_operator.sights import short

_OBJECTS: Final = "objects.yaml"
_TEMPLATE: Final = f'{{{{ .Files.Get "{_OBJECTS}" }}}}\n'


class NotFetched(PlatformError):
    """An archive cannot be had now. What of it people have to correct, its words say; the rest passes."""


class Archives:
    """Those that were fetched and had the digest that their entry says, in a folder of this process."""

    @cached_property
    def _folder(self) -> Path:
        """Made when the first is fetched, and gone with us."""
        made = tempfile.mkdtemp(prefix="dedup-charts-")
        weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        return Path(made)

    def of(self, entry: ListedSystem, pull: Callable[[list[str]], object]) -> Path:
        """The archive; `pull` runs Helm with these words. PlatformError if there is none of that digest."""
        kept = self._folder / f"{entry.digest.removeprefix('sha256:')}.tgz"
        if kept.exists() and _digest(kept) == entry.digest:
            return kept
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            fetch = _copied if entry.chart.startswith("/") else _pulled
            archive = fetch(entry, Path(folder), pull)
            if (found := _digest(archive)) != entry.digest:
                raise PlatformError(
                    where=f"chart {entry.name} {entry.version}: digest",
                    got=found,
                    rule=f"the administrator's list says {entry.digest}, and nothing is read of any other archive",
                    todo="have the administrator find out which of them is the chart that he has read",
                )
            return archive.replace(kept)


def _copied(entry: ListedSystem, folder: Path, _pull: object) -> Path:
    """Nobody can change a copy of ours after it was compared."""
    try:
        return Path(shutil.copyfile(entry.chart, folder / "chart.tgz"))
    except OSError as error:
        raise _not_fetched(entry, str(error)) from None


def _pulled(entry: ListedSystem, folder: Path, pull: Callable[[list[str]], object]) -> Path:
    where = ["--repo", entry.repository] if entry.repository else []
    try:
        pull(["pull", entry.chart, *where, "--version", entry.version, "--destination", str(folder)])
    except (Refused, Unreachable) as error:
        raise _not_fetched(entry, str(error)) from None
    found = sorted(folder.glob("*.tgz"))
    if len(found) != 1:
        raise _not_fetched(entry, f"{len(found)} archives")
    return found[0]


def _not_fetched(entry: ListedSystem, words: str) -> NotFetched:
    return NotFetched(
        where=f"chart {entry.name} {entry.version}",
        got=short(words),
        rule=f"it is fetched from {entry.repository or entry.chart} before anything of it is installed",
        todo=f"see whether it is there, and have the administrator correct {LIST}; it is asked for again",
    )


def _digest(archive: Path) -> str:
    with archive.open("rb") as opened:
        return f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}"


def rendered(entry: ListedSystem, render: Callable[[], Iterable[Any]]) -> list[Any]:
    """The objects that Helm renders of a chart; PlatformError in Helm's words if it does not."""
    try:
        return [each for each in render() if each is not None]
    except (Refused, yaml.YAMLError) as error:
        raise PlatformError(
            where=f"chart {entry.name} {entry.version}",
            got=short(str(error)),
            rule="Helm renders it with the values of its entry",
            todo=f"have the administrator correct the values in {LIST}",
        ) from None


@contextmanager
def written(entry: ListedSystem, objects: Sequence[Object], kubeconfig: Object) -> Iterator[tuple[Path, Path]]:
    """A chart of these objects, and the kubeconfig with which to install it, for as long as that takes."""
    with tempfile.TemporaryDirectory(prefix="dedup-release-") as folder:
        chart, config = Path(folder) / "chart", Path(folder) / "kubeconfig"
        (chart / "templates").mkdir(parents=True)
        said = {"apiVersion": "v2", "name": entry.name, "version": entry.version.removeprefix("v")}
        (chart / "Chart.yaml").write_text(json.dumps(said), encoding="utf-8")
        (chart / _OBJECTS).write_text("\n---\n".join(map(json.dumps, objects)), encoding="utf-8")
        (chart / "templates" / _OBJECTS).write_text(_TEMPLATE, encoding="utf-8")
        config.write_text(json.dumps(kubeconfig), encoding="utf-8")  # nobody else may enter the folder
        yield chart, config
