"""Experiments of Chaos Toolkit that an experiment file names: their texts are read with it, and become a part of it.

So results tell what was run, and a digest of two experiments is equal only if the texts are.
"""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from dedup import documents
from dedup.errors import SpecificationError
from dedup.faults.chaos import MOST_BYTES, Chaos


def filled_in(document: object, folder: Path) -> object:
    """The document with the text of each experiment that it names; paths are from `folder`. What has one, keeps it.

    SpecificationError if a file cannot be read, or is no experiment of Chaos Toolkit.
    """
    if not any(True for _ in _named(document)):
        return document
    filled = deepcopy(document)
    for where, given in _named(filled):
        given["document"] = _text(folder / given["experiment"], f"{where}.{Chaos.key}.experiment")
    return filled


def _named(document: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where an experiment is named, and the settings that name it. What else is wrong is found when it is parsed."""
    spec = document.get("spec") if isinstance(document, dict) else None
    if not isinstance(spec, dict):
        return
    drawn = spec.get("random")
    operations = drawn.get("operations") if isinstance(drawn, dict) else None
    for where, listed in (("spec.faults", spec.get("faults")), ("spec.random.operations", operations)):
        for index, fault in enumerate(listed if isinstance(listed, list) else ()):
            given = fault.get(Chaos.key) if isinstance(fault, dict) else None
            if isinstance(given, dict) and isinstance(given.get("experiment"), str) and given.get("document") is None:
                yield f"{where}[{index}]", given


def _text(path: Path, where: str) -> str:
    found = documents.read(path)
    if not isinstance(found, dict) or not isinstance(found.get("method"), list):
        raise SpecificationError(
            where=f"{where}: {path}",
            got="no method",
            rule="an experiment of Chaos Toolkit is a mapping with a title, a description and a method",
            todo="try it with `chaos validate`",
        )
    if path.stat().st_size > MOST_BYTES:
        raise SpecificationError(
            where=f"{where}: {path}",
            got=f"more than {MOST_BYTES >> 10} KiB",
            rule="its text becomes a part of the results",
            todo="make it smaller",
        )
    return path.read_text(encoding="utf-8")
