"""Quantities as people write them in an experiment: `20ms`, `10s`, `15m`.

A duration is a bounded string in the file (Kubernetes' convention) and a float of seconds in the program, in fields
that end in `_s`. A number without a unit is refused: `10` could mean seconds or milliseconds.
"""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
PATTERN: Final = r"^[0-9]{1,9}(ms|s|m|h)$"
_DURATION: Final = re.compile(PATTERN)


def parse_duration(text: object) -> float:
    """The seconds of a duration such as `20ms` or `10s`; ValueError if it is not one."""
    if isinstance(text, str) and _DURATION.fullmatch(text):
        number, unit = re.split(r"(?<=[0-9])(?=[a-z])", text)
        return int(number) * _UNITS[unit]
    if isinstance(text, int | float) and not isinstance(text, bool) and text >= 0:
        raise ValueError(f'a duration needs a unit; write "{text}s" or "{text}ms"')
    raise ValueError("a duration is a whole number and a unit of ms, s, m or h, not negative; write it like 10s")


def format_duration(seconds: float) -> str:
    """The string with the largest unit that parses to the same number of milliseconds."""
    milliseconds = round(seconds * 1000)
    if not milliseconds:
        return "0s"
    for unit in ("h", "m", "s"):
        if milliseconds % (size := round(_UNITS[unit] * 1000)) == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": PATTERN, "maxLength": 11}),
]
