"""What every part of an experiment has in common: how it is checked, what a name is, and unions.

A part is frozen, camelCase in the file, and strict: unknown keys are refused and nothing is coerced. Kubernetes has no
type for "one of these", so a union is a mapping with several keys of which exactly one is given.
"""

from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from dedup.refusals import refusal

_NAME: Final = r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$"
_VERSION: Final = r"^[0-9]+(\.[0-9]+){1,3}(-[A-Za-z0-9.]+)?$"
TOKEN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
OBJECT: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
BUCKET: Final = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
PREFIX: Final = r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*$"
ENDPOINT: Final = r"^https?://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?$"
REGION: Final = r"^[a-z0-9-]{1,32}$"
_ADDRESS: Final = r"[A-Za-z0-9][A-Za-z0-9.-]*:[0-9]{1,5}"
ADDRESSES: Final = rf"^{_ADDRESS}(,{_ADDRESS})*$"
SERVICE_URL: Final = rf"^pulsar(\+ssl)?://{_ADDRESS}(,{_ADDRESS})*$"
PATTERNS: Final = {
    _NAME: (
        "a name is lower-case letters, digits and dashes, begins with a letter and ends with a letter or digit",
        "rename it, such as kafka-1",
    ),
    OBJECT: (
        "the name of an object in Kubernetes is lower-case letters, digits, dashes and dots",
        "write its name as kubectl shows it",
    ),
    BUCKET: ("a bucket's name is 3 to 63 lower-case letters, digits, dots and dashes", "write it like dedup-results"),
    PREFIX: ("a prefix is names with / between them, none beginning with a dot", "write it like team/experiments"),
    ENDPOINT: ("an endpoint is http:// or https:// and a host, maybe with a port", "write it like http://minio:9000"),
    REGION: ("a region is lower-case letters, digits and dashes", "write it like eu-central-1"),
    ADDRESSES: (
        "brokers are host:port, with commas between them and no spaces",
        "write them like kafka-0.kafka:9092,kafka-1.kafka:9092",
    ),
    SERVICE_URL: (
        "a service URL is pulsar:// or pulsar+ssl:// and host:port, or several with commas between them",
        "write it like pulsar://broker:6650",
    ),
    TOKEN: ("a token is letters, digits, dots, dashes and underlines, at most 63", "write it like 2 or 2026-11-21"),
    _VERSION: ("a version is numbers with dots between them", "write it like 4.3.1"),
}
"""What a regular expression asks for, in words: the rule, and what to do."""

Name = Annotated[str, Field(pattern=_NAME, max_length=40)]
Version = Annotated[str, Field(pattern=_VERSION, max_length=32)]


class Part(BaseModel):
    """A part of an experiment: frozen, camelCase in the file, unknown keys refused, nothing coerced."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        strict=True,
    )


_Key = TypeVar("_Key", bound=str)


def check_one_of(part: Part, kinds: Mapping[_Key, Part | str | None], what: str) -> None:
    """Raise unless exactly one of `kinds` is given. A key without a value does not count as given."""
    given = [key for key, kind in kinds.items() if kind is not None]
    fields = type(part).model_fields
    named = {fields[name].alias for name in part.model_fields_set}
    empty = [key for key in kinds if key in named and key not in given]
    if not given and len(empty) == 1:
        raise refusal(empty[0], "no value", f"{what} needs a mapping here", "write one ({} takes every default)")
    if len(given) != 1:
        *most, last = kinds
        rule = f"{what} is exactly one of {', '.join(most)} and {last}"
        raise ValueError(f"{rule}; give one of these keys" if not given else f"{rule}; keep one of them")
