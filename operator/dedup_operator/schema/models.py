"""From pydantic's models to a structural schema, the kind that Kubernetes demands of a custom resource.

Pydantic's own JSON schema says the same with other means: `$ref`, `anyOf` with null, `const`, and no further keys by
`additionalProperties: false`. A structural schema spells every part out where it stands, lists every choice in `enum`,
and knows no other keys anyway. Null needs no words in it: the API server takes a key without a value for a key that was
left out. What pydantic keeps in validators (the bounds of a duration) or in keywords that Kubernetes lacks (the length
of a map's keys) becomes a rule in CEL; see `rules`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dedup import quantities
from dedup.parts import PATTERNS
from dedup_operator.schema.rules import LIMITS, Rule, duration, keys_within, matching, rules_of, written

Schema = dict[str, Any]

_KEPT: Final = (
    *("type", "format", "enum", "pattern", "maxLength", "minLength"),
    *("minimum", "maximum", "minItems", "maxItems", "minProperties", "maxProperties", "additionalProperties"),
)
_SAID_OTHERWISE: Final = (
    *("title", "description", "default", "const", "propertyNames"),
    *("exclusiveMinimum", "exclusiveMaximum"),
)


def structural(model: type[BaseModel], definitions: Mapping[str, Schema]) -> Schema:
    """The structural schema of a model; `definitions` are pydantic's own schemas by the names of the models."""
    own = definitions[model.__name__]
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    schema: Schema = {
        "description": own["description"],
        "type": "object",
        "properties": {key: _field(field, own["properties"][key], definitions) for key, field in fields.items()},
    }
    if "required" in own:
        schema["required"] = own["required"]
    return schema | written(rules_of(model))


def _field(field: FieldInfo, own: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """One key of a model. What it holds is described first here, for this place, and then by its own model."""
    part = _model_in(field.annotation)
    told = _sentence(own["description"])
    if part is None:
        schema = _value(field, own, definitions)
    elif own.get("type") == "array":
        schema = _list_of(part, own, definitions)
    else:
        schema = structural(part, definitions)
        told = f"{told} {schema['description']}"
    around: Schema = {"description": told, "type": schema.pop("type")}
    if not field.is_required() and field.get_default(call_default_factory=True) is not None:
        around["default"] = default = _default(around["type"], own)
        if default not in ({}, []):  # kubectl explain does not show it otherwise
            around["description"] = f"{told} Default: {_written(default)}."
    return around | {key: each for key, each in schema.items() if key != "description"}


def _written(default: object) -> str:
    """A default as it stands in the file."""
    return str(default).lower() if isinstance(default, bool) else str(default)


def _default(kind: str, own: Schema) -> object:
    """What Kubernetes fills in. It fills in the keys of a default as well, so each default stands in one place only."""
    if kind == "object":
        return {}
    return [] if kind == "array" else own["default"]


def _list_of(part: type[BaseModel], own: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """A list of named things: a map to Kubernetes, so that two people can each own an item. The first key names it."""
    items = structural(part, definitions)
    return {
        **{key: own[key] for key in _KEPT if key in own},
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [next(iter(items["properties"]))],
    }


def _value(field: FieldInfo, own: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """A scalar, a map of scalars, or a list of scalars, which one person owns as a whole."""
    chosen = next((choice for choice in own.get("anyOf", []) if choice != {"type": "null"}), own)
    if "$ref" in chosen:
        chosen = definitions[chosen["$ref"].rpartition("/")[2]]
    items = chosen.get("items", {})
    if unknown := (chosen.keys() - {"items", *_KEPT, *_SAID_OTHERWISE}) | (items.keys() - {*_KEPT}):
        raise ValueError(f"{', '.join(sorted(unknown))}: no way is known to say this to Kubernetes; add one here")
    schema = {key: chosen[key] for key in _KEPT if key in chosen}
    if items:
        schema |= {"items": items, "x-kubernetes-list-type": "atomic"}
    if "const" in chosen:
        schema["enum"] = [chosen["const"]]
    for limit in ("Minimum", "Maximum"):
        if (bound := chosen.get(f"exclusive{limit}")) is not None:
            schema |= {limit.lower(): bound, f"exclusive{limit}": True}
    return schema | written(_rules_of_value(field, chosen))


def _rules_of_value(field: FieldInfo, own: Schema) -> Iterator[Rule]:
    if own.get("pattern") == quantities.PATTERN:
        limits = [each for each in _metadata(field) if not isinstance(each, FieldInfo)]
        yield duration({name: getattr(each, name) for each in limits for name in LIMITS if hasattr(each, name)})
    elif own.get("pattern") in PATTERNS:
        yield matching(own["pattern"])
    if "propertyNames" in own:
        yield keys_within(own["propertyNames"]["maxLength"])


def _metadata(field: FieldInfo) -> Iterator[object]:
    """What is said of a field's value, also where it may be left out: then it stands at the value's own type."""
    yield from field.metadata
    for each in get_args(field.annotation):
        for said in getattr(each, "__metadata__", ()):
            yield from (said, *(said.metadata if isinstance(said, FieldInfo) else ()))


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model that a key holds: itself, a list of it, or it or nothing."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model_in(each))), None)


def _sentence(text: str) -> str:
    """The models describe their keys in phrases; `kubectl explain` prints sentences."""
    first = text.split()[0].rstrip(",;:")
    capital = text[0].upper() if first.isalpha() and first.islower() else text[0]
    return f"{capital}{text[1:]}."
