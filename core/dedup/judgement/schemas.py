"""The JSON schemas of what other programs read: an experiment file, `summary.json`, and `findings.json`.

They are derived from the models that write these files, so that they cannot say anything else. A key with a default may
be absent: an older dedup may not have written it. An unknown key is refused, as the models refuse it. The folder
`schemas/` of the repository holds them, for readers without dedup; `make schemas` writes them again.
"""

import json
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from dedup.experiment.spec import json_schema
from dedup.judgement.counts import COUNTS, Counts
from dedup.judgement.findings import Index
from dedup.judgement.summaries import Summary

DIALECT: Final = GenerateJsonSchema.schema_dialect


class Document(StrEnum):
    """What has a schema."""

    EXPERIMENT = "experiment"
    SUMMARY = "summary"
    FINDINGS = "findings"


class _Untitled(GenerateJsonSchema):
    """Without the titles that pydantic makes of the names of fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _of(model: type[BaseModel]) -> dict[str, Any]:
    found = model.model_json_schema(schema_generator=_Untitled)
    for name, prop in found["$defs"].get(Counts.__name__, {}).get("properties", {}).items():
        prop["description"] = COUNTS[name].definition
    return {"$schema": DIALECT, **found}


SCHEMAS: Final[Mapping[Document, Callable[[], dict[str, Any]]]] = {
    Document.EXPERIMENT: json_schema,
    Document.SUMMARY: lambda: _of(Summary),
    Document.FINDINGS: lambda: _of(Index),
}


def text(document: Document) -> str:
    """The schema of a document, as `dedup schema` prints it."""
    return json.dumps(SCHEMAS[document](), indent=2)


if __name__ == "__main__":
    for each in Document:
        Path(sys.argv[1], f"{each}.json").write_text(f"{text(each)}\n", encoding="utf-8")
