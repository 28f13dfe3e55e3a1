"""One experiment that nobody would write, from a number: a published example, changed in one to six places.

A change takes a part away, puts a hostile value or another example's part in its place, moves a number to the edge of
a range, or writes a key wrongly. One in ten is a file whose bytes were changed. Whatever comes out is accepted, or
refused in one line. What is accepted can be planned, is the same when it is written down and read again, and no editor
marks it.
"""

import json
import random
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import jsonschema
import yaml

from dedup.errors import SpecificationError
from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, json_schema, load, parse

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
SECRET: Final = "hunter2-is-a-secret"
"""Put where it does not belong; no refusal may show it below a key that is known to hold secrets."""
LONGEST: Final = 2_000
"""Characters of a refusal."""
SCHEMA_EVERY: Final = 25
"""How many of those accepted are held against the JSON schema, which takes longer than all else: one in so many."""
TEXTS: Final = (
    *(
        "",
        " ",
        "\n",
        "\0",
        "x" * 300,
        "x" * 70_000,
        "é" * 20,
        "\u202e",
        "🦆",
        "null",
        "~",
        "true",
        "on",
        "0",
        "-1",
        "1e9",
        "NaN",
    ),
    *(
        "../../etc/passwd",
        "a b",
        "A",
        "-",
        "a/b",
        "${HOME}",
        "{{ x }}",
        "%s",
        "'; drop",
        "http://[::1",
        "localhost:99999",
    ),
    *("1s", "0s", "-1s", "1ms", "1000000h", "1.5s", "1h30m", "s", "50%", "100%", "4.3.1", "99.99.99", "4", SECRET),
)
NUMBERS: Final = (
    0,
    1,
    -1,
    2,
    3,
    7,
    63,
    64,
    1000,
    10**6,
    2**31 - 1,
    2**31,
    2**53,
    2**63,
    10**30,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
)
OTHERS: Final[tuple[object, ...]] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"a": {"a": 1}}},
    [{}],
    ["x", "x"],
)

Document = dict[str, Any]


class Case(NamedTuple):
    """What is offered: a document, or the bytes of a file."""

    document: object
    content: bytes | None = None


class Outcome(NamedTuple):
    """`accepted`, or refused; `problem`: what is wrong with that, None as it should be."""

    accepted: bool
    problem: str | None = None


@cache
def originals() -> tuple[Document, ...]:
    """Every published experiment, as it is written."""
    found = [yaml.safe_load(path.read_text()) for path in sorted(EXAMPLES.rglob("*.yaml"))]
    return tuple(each for each in found if isinstance(each, dict) and each.get("kind") == "DedupExperiment")


@cache
def parts() -> dict[str, tuple[object, ...]]:
    """For each key, every value that some example has below it."""
    found: dict[str, list[object]] = {}
    for document in originals():
        for where, value in places(document):
            found.setdefault(str(where[-1]), []).append(value)
    return {key: tuple(values) for key, values in found.items()}


def places(value: object, where: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], object]]:
    """Every part of a document and its place; the whole is none."""
    if where:
        yield where, value
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in below:
        yield from places(each, (*where, key))


def case(number: int) -> Case:
    """The case of that number, always the same."""
    dice = random.Random(number)
    document = json.loads(json.dumps(dice.choice(originals()), default=str))
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        change(document, dice)
    if dice.random() < 0.9:
        return Case(document)
    content = bytearray(yaml.safe_dump(document, allow_unicode=True).encode(errors="surrogatepass"))
    for _ in range(dice.choice((1, 1, 3, 10))):
        at = dice.randrange(len(content) + 1)
        content[at : at + dice.choice((0, 1, 1, 5))] = dice.choice(
            (b"", b"\t", b"\xff", b"- ", b": ", b"&a ", b"*a", b"!!int ", b'"')
        )
    return Case(None, bytes(content))


def change(document: Document, dice: random.Random) -> None:
    """One change, at a random place."""
    found = list(places(document))
    if not found:
        return
    where, value = dice.choice(found)
    *before, last = where
    above: Any = document
    for key in before:
        above = above[key]
    match dice.randrange(8):
        case 0:
            del above[last]
        case 1:
            above[last] = dice.choice(TEXTS)
        case 2:
            above[last] = dice.choice(NUMBERS)
        case 3:
            above[last] = json.loads(json.dumps(dice.choice(OTHERS)))
        case 4 if isinstance(value, int) and not isinstance(value, bool):
            above[last] = value + dice.choice((-1, 1, -value, value, 10**9))
        case 5 if isinstance(above, dict):
            above[dice.choice((f"{last}s", str(last).upper(), dice.choice(sorted(parts()))))] = above.pop(last)
        case 6 if isinstance(above, list):
            above.insert(dice.randrange(len(above) + 1), json.loads(json.dumps(value, default=str)))
        case _:
            above[last] = json.loads(json.dumps(dice.choice(parts().get(str(last), TEXTS)), default=str))


def check(number: int) -> Outcome:
    """Offer the case of that number, and look at what comes."""
    offered = case(number)
    try:
        experiment = _read(offered)
    except SpecificationError as error:
        return Outcome(False, _of_refusal(str(error)))
    except Exception as error:
        return Outcome(False, f"{type(error).__name__}: {error}"[:300])
    try:
        return Outcome(True, _of_accepted(experiment, in_schema=number % SCHEMA_EVERY == 0))
    except Exception as error:
        return Outcome(True, f"accepted, then {type(error).__name__}: {error}"[:300])


def _read(offered: Case) -> Experiment:
    if offered.content is None:
        return parse(offered.document, source="e.yaml")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "e.yaml"
        file.write_bytes(offered.content)
        return load(file)


def _of_refusal(words: str) -> str | None:
    if "\n" in words or not words.isprintable():
        return f"a refusal of several lines: {words!r}"[:300]
    if len(words) > LONGEST:
        return f"a refusal of {len(words)} characters: {words[:200]}"
    if not words.partition(": got ")[2] or words.count("; ") < 2:
        return f"not `where: got X; rule; what to do`: {words[:250]}"
    return None


def _of_accepted(experiment: Experiment, *, in_schema: bool) -> str | None:
    written = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    again = parse(json.loads(json.dumps(written)), source="again.yaml")
    if (
        again.model_dump(mode="json", by_alias=True, exclude_none=True) != written
        or again.digest() != experiment.digest()
    ):
        return "it is another one when it is written down and read again"
    if len({run.run_id for run in plan(experiment)}) != len(plan(experiment)):
        return "two of its runs have one name"
    if in_schema and (wrong := next(_validator().iter_errors(written), None)) is not None:
        return f"an editor marks it: {wrong.message}"[:300]
    return None


@cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(json_schema())
