"""Pydantic's validation errors in plain words: `where: got X; rule; what to do`.

A validation error names a type of error, a place and the limits that were broken. One table turns each type into a
rule and advice. For a misspelt key the advice names the key that was probably meant. An error type that is not in the
table keeps pydantic's words.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from dedup.errors import SpecificationError
from dedup.quantities import format_duration

Words = tuple[str, str]
"""A rule, and what to do about it."""

MAX_GOT: Final = 60
_SECRET: Final = re.compile("password|secret|token|credential|accesskey|sasl", re.IGNORECASE)
"""Keys whose value may be a secret, written by mistake in place of a Secret's name."""
_PASSWORD: Final = re.compile("//[^/@]*@")
"""Where a secret stands in an address."""
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def refusal(where: str, got: str, rule: str, todo: str) -> PydanticCustomError:
    """The error for a rule that spans several keys; a validator raises it. `where`: the key below that breaks it."""
    return PydanticCustomError("refusal", "{rule}; {todo}", {"where": where, "got": got, "rule": rule, "todo": todo})


def readable(
    error: ValidationError,
    *,
    source: str,
    document: object,
    schema: Mapping[str, Any],
    patterns: Mapping[str, Words],
) -> SpecificationError:
    """The first problem in one line, and how many more there are; a key that is clearly misspelt comes first.

    `document` is what was validated, `schema` its JSON schema (for the known keys), `patterns` the words for the
    regular expressions of the schema.
    """
    problems = error.errors(include_url=False)
    known = [_keys_at(schema, problem["loc"][:-1]) for problem in problems]
    misspelt = [
        index
        for index, problem in enumerate(problems)
        if problem["type"] == "extra_forbidden" and _meant(problem["loc"][-1], known[index])
    ]
    chosen = misspelt[0] if misspelt else 0
    problem = problems[chosen]
    place = [part for part in problem["loc"] if part != "[key]"]
    raw = _value_at(document, place)
    where, got = location(place), _got(problem, raw)
    if problem["type"] == "refusal":
        below, got = problem["ctx"]["where"], problem["ctx"]["got"]
        where = f"{where}.{below}" if where else below
    rule, todo = _words(problem, raw, known[chosen], _keys_at(schema, place), patterns)
    more = f" (and {len(problems) - 1} more to correct)" if len(problems) > 1 else ""
    return SpecificationError(where=f"{source}: {where or 'document'}", got=got, rule=rule, todo=todo + more)


def location(parts: Sequence[int | str]) -> str:
    """A place in a document, such as `spec.systems[0].client.properties["linger.ms"]`."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if _PLAIN_KEY.fullmatch(part) and len(part) <= MAX_GOT else f"[{short(part)}]"
    return text.lstrip(".")


def short(value: object) -> str:
    """A value as in the file, cut to at most MAX_GOT characters."""
    text = "{" + ", ".join(map(str, value)) + "}" if isinstance(value, dict) else json.dumps(value, default=str)
    return text if len(text) <= MAX_GOT else text[: MAX_GOT - 3] + "..."


def meant(word: str, known: Sequence[str]) -> str | None:
    """The known word that `word` was probably meant to be; case is ignored."""
    folded = {each.casefold(): each for each in known}
    close = get_close_matches(word.replace("_", "").casefold(), folded, n=1, cutoff=0.7)
    return folded[close[0]] if close else None


def _meant(key: int | str, known: Sequence[str]) -> str | None:
    return meant(str(key), known)


def _words(
    problem: ErrorDetails, raw: object, siblings: Sequence[str], keys: Sequence[str], patterns: Mapping[str, Words]
) -> Words:
    kind, limits = problem["type"], problem.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(str(problem["loc"][-1]), siblings)
    if kind in ("enum", "literal_error"):
        return _one_of(limits["expected"], raw)
    if kind == "string_pattern_mismatch" and limits["pattern"] in patterns:
        return patterns[limits["pattern"]]
    if kind in ("model_type", "dict_type") and raw is not None:
        return "this must be a mapping", f"write keys and values below it{_listed(', of ', keys)}"
    if raw is None and kind.endswith("_type"):
        return f"this key has no value, and {_EMPTY.get(kind, 'one is required')}", "write a value or take the key out"
    if kind in _RULES:
        return _RULES[kind](limits, raw)
    rule, _, todo = problem["msg"].removeprefix("Value error, ").partition("; ")
    return rule, todo or "change it (dedup schema shows the rules)"


def _bound(rule: str, advice: str) -> Callable[[Mapping[str, Any], object], Words]:
    def words(limits: Mapping[str, Any], raw: object) -> Words:
        bound = next(limits[name] for name in ("gt", "ge", "lt", "le") if name in limits)
        text = format_duration(bound) if isinstance(raw, str) else f"{bound:,}".removesuffix(".0")
        return f"this must be {rule.format(text)}", f"write {advice.format(text)}"

    return words


def _fixed(rule: str, todo: str) -> Callable[[Mapping[str, Any], object], Words]:
    return lambda _limits, _raw: (rule, todo)


def _quoted(_limits: Mapping[str, Any], raw: object) -> Words:
    if isinstance(raw, dict | list):
        return "this must be text", "write a single value"
    return "this must be text", f'put it in quotes: "{str(raw).lower() if isinstance(raw, bool) else raw}"'


_EMPTY: Final = {
    "list_type": "a list is required",
    "model_type": "a mapping is required",
    "dict_type": "a mapping is required",
}

_RULES: Final[dict[str, Callable[[Mapping[str, Any], object], Words]]] = {
    "missing": _fixed("this key is required", "add it"),
    "greater_than": _bound("more than {}", "more than {}"),
    "greater_than_equal": _bound("at least {}", "{} or more"),
    "less_than": _bound("less than {}", "less than {}"),
    "less_than_equal": _bound("at most {}", "{} or less"),
    "int_type": _fixed("this must be a whole number", "write digits only, without quotes or a unit"),
    "int_from_float": _fixed("this must be a whole number", "write digits only"),
    "int_parsing_size": _fixed("this number is too large", "write a smaller one"),
    "float_type": _fixed("this must be a number", "write digits, without quotes or a unit"),
    "finite_number": _fixed("this must be a finite number", "write digits"),
    "bool_type": _fixed("this must be true or false", "write one of them, without quotes"),
    "list_type": _fixed("this must be a list", "begin each item with a dash"),
    "string_type": _quoted,
    "string_too_long": lambda limits, _: (f"at most {limits['max_length']} characters are allowed", "shorten it"),
    "too_long": lambda limits, _: (f"at most {limits['max_length']} items are allowed", "take some out"),
    "too_short": _fixed("the list is empty, and one item is required", "add one"),
    "json_invalid": _fixed("the text holds characters that are not valid Unicode", "take them out"),
}


def _unknown_key(key: str, known: Sequence[str]) -> Words:
    rule = f"no such key is known here{_listed(', only ', known)}"
    if guess := meant(key, known):
        return rule, f'did you mean "{guess}"?'
    return rule, "take it out (dedup schema lists every key)"


def _one_of(expected: str, raw: object) -> Words:
    choices = re.findall(r"'([^']*)'", expected) or [expected]
    if len(choices) == 1:
        return f"only {choices[0]} is known here", f"write {choices[0]}"
    guess = meant(raw, choices) if isinstance(raw, str) else None
    return f"this must be one of {', '.join(choices)}", f"did you mean {guess}?" if guess else "write one of them"


def _got(problem: ErrorDetails, raw: object) -> str:
    key = problem["loc"][-1] if problem["loc"] else ""
    if problem["type"] == "missing":
        return "nothing"
    if problem["type"] == "json_invalid":
        return "text that is not valid Unicode"
    if isinstance(raw, str) and problem["type"] in ("model_type", "extra_forbidden") and _SECRET.search(str(key)):
        return "text, which may be a secret and is not shown"
    return "no value" if raw is None else _PASSWORD.sub("//***@", short(raw))


def _listed(introduction: str, words: Sequence[str]) -> str:
    return introduction + ", ".join(words) if words else ""


def _value_at(document: object, place: Sequence[int | str]) -> object:
    for part in place:
        if isinstance(document, list) and isinstance(part, int) and part < len(document):
            document = document[part]
        elif isinstance(document, dict):
            document = document.get(part)
    return document


def _keys_at(schema: Mapping[str, Any], place: Sequence[int | str]) -> list[str]:
    """The keys that the schema has at a place; empty where any key is allowed."""
    node = _resolved(schema, schema)
    for part in place:
        node = node.get("items", {}) if isinstance(part, int) else node.get("properties", {}).get(part, {})
        node = _resolved(schema, node)
    return list(node.get("properties", {}))


def _resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    for choice in node.get("anyOf", []):
        if choice.get("type") != "null":
            node = choice
    reference = node.get("$ref")
    return schema["$defs"][reference.rpartition("/")[2]] if reference else node
