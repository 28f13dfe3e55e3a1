"""Read a YAML document strictly.

YAML keeps the last of two equal keys, turns `on` into a boolean, lets one alias expand into millions of nodes and
raises half a dozen kinds of exception. Here a file is one document of bounded size. Its keys are text, and no key
stands twice. Each error is one line, which names the line of the file.
"""

from pathlib import Path
from typing import Any, Final

import yaml

from dedup.errors import SpecificationError

MAX_BYTES: Final = 1 << 20
MAX_PARTS: Final = 100_000
MAX_DEPTH: Final = 64
MAX_NUMBER_BITS: Final = 4096

# What PyYAML lets through when a value does not fit its tag (2020-13-45, !!bool x, !!int "") or nests too deep.
_PARSER_ERRORS: Final = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError)


def read(path: Path) -> object:
    """The one document of a YAML (or JSON) file; SpecificationError in one line if there is none."""
    text = _text(path)
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except _PARSER_ERRORS as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or (str(error).splitlines() or [""])[0] or type(error).__name__
        if isinstance(error, RecursionError):
            problem = "it nests too deep"
        raise SpecificationError(
            where=f"{path}:{mark.line + 1}" if mark else str(path),
            got=f"YAML that cannot be read ({problem.removeprefix('but ')[:120]})",
            rule="an experiment is one YAML document, and a mapping has each key only once",
            todo="indent with spaces, not tabs"
            if "'\\t'" in problem
            else f"correct the YAML{' at that line' if mark else ''}",
        ) from None


def check(document: object, source: str) -> dict[str, Any]:
    """The document as a mapping with text keys throughout, of bounded size; SpecificationError if it is not."""
    if not isinstance(document, dict):
        raise SpecificationError(
            where=source,
            got="nothing" if document is None else f"a {'list' if isinstance(document, list) else 'single value'}",
            rule="an experiment is a mapping with apiVersion, kind, metadata and spec",
            todo="start from one of examples/",
        )
    left: list[tuple[str, object, int]] = [("", document, 0)]
    parts = 0
    while left:
        where, value, depth = left.pop()
        parts += 1
        if depth > MAX_DEPTH:
            got = f"more than {MAX_DEPTH} nested lists or mappings, or an alias that contains itself"
            raise _too_large(f"{source}: {where[:MAX_DEPTH]}…", got)
        if parts > MAX_PARTS:
            raise _too_large(source, f"more than {MAX_PARTS:,} parts")
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise _not_text(f"{source}: {where or 'document'}", key)
            left.extend((f"{where}.{key}".lstrip("."), each, depth + 1) for key, each in value.items())
        elif isinstance(value, int) and value.bit_length() > MAX_NUMBER_BITS:
            raise _too_large(f"{source}: {where}", "a number of thousands of digits")
        elif isinstance(value, list):
            left.extend((f"{where}[{index}]", each, depth + 1) for index, each in enumerate(value))
    return document


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise _too_large(str(path), f"more than {MAX_BYTES >> 20} MiB")
        if b"\0" in content:
            raise UnicodeError
        return content.decode()
    except (OSError, UnicodeError) as error:
        raise SpecificationError(
            where=str(path),
            got=getattr(error, "strerror", None) or "bytes that are not UTF-8 text",
            rule="an experiment is a YAML file",
            todo="give the path of one; see examples/",
        ) from None


def _too_large(where: str, got: str) -> SpecificationError:
    return SpecificationError(
        where=where, got=got, rule="an experiment is a page or two of YAML", todo="give the path of one; see examples/"
    )


def _not_text(where: str, key: object) -> SpecificationError:
    word = str(key).lower() if isinstance(key, bool) or key is None else str(key)
    return SpecificationError(
        where=where,
        got=f"the key {word}, which YAML reads as a {type(key).__name__}",
        rule="keys are text (YAML reads on, off, yes, no, dates and numbers as other types)",
        todo=f'put the key in quotes, such as "{word}"',
    )


class _StrictLoader(yaml.SafeLoader):
    """YAML that refuses a key given twice. Checked as the text is read, before `<<` merges keys on purpose."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    problem = f'the key "{key.value}" is given twice'
                    raise yaml.composer.ComposerError(None, None, problem, key.start_mark)
                seen.add(key.value)
        return node
