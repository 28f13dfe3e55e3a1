"""The resource DedupExperiment, as Kubernetes is told of it: the CustomResourceDefinition, made from the models.

`make crd` writes it to crds/, and a test fails when the file there is not what this module makes. Nobody edits it by
hand: what `dedup run` accepts and what `kubectl apply` accepts would drift apart.
"""

from collections.abc import Mapping
from typing import Any, Final

import yaml
from pydantic import BaseModel

from dedup.experiment.spec import Metadata, Spec, json_schema
from dedup_operator.schema.models import structural
from dedup_operator.schema.rules import matching, written
from dedup_operator.statuses import Status

GROUP: Final = "dedup.dev"
VERSION: Final = "v1alpha1"
KIND: Final = "DedupExperiment"
PLURAL: Final = "dedupexperiments"

_DESCRIPTION: Final = (
    "Asks whether Kafka or Pulsar keeps its promise not to duplicate, lose or reorder messages when something goes "
    "wrong. One workload is run on each system and in each variant (deduplication off, as the control, and on, as the "
    "treatment) while faults are injected; the answer is a verdict. `dedup run` takes the same file."
)
_SPEC: Final = (
    "Only the keys told of here exist: kubectl refuses any other, and a client that does not ask for strict validation "
    "has them dropped."
)
_HEADER: Final = "# Made by `make crd` from the models of core/dedup/experiment; change those, and not this file.\n"


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["dedup"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": _COLUMNS,
                    "schema": {"openAPIV3Schema": schema()},
                }
            ],
        },
    }


def schema() -> dict[str, Any]:
    """The structural schema of the whole resource."""
    definitions = json_schema()["$defs"]
    spec = structural(Spec, definitions)
    return resource(_DESCRIPTION, definitions, spec | {"description": f"{spec['description']} {_SPEC}"}, Status)


def resource(
    description: str, definitions: Mapping[str, Any], spec: Mapping[str, Any], status: type[BaseModel]
) -> dict[str, Any]:
    """The structural schema of a resource. `definitions`: those of its model's JSON schema; `spec`: structural."""
    name = definitions[Metadata.__name__]["properties"]["name"]
    reported = status.model_json_schema(by_alias=True)
    return {
        "description": description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            # The API server has its own schema of metadata, and takes no words about it but for the name's bounds.
            "metadata": {"type": "object", "properties": {"name": name}},
            "spec": spec,
            "status": structural(status, reported["$defs"] | {status.__name__: reported}),
        },
        **written([matching(name["pattern"], "metadata.name")]),
    }


_COLUMNS: Final = [
    {
        "name": "Phase",
        "type": "string",
        "jsonPath": ".status.phase",
        "description": "where the experiment stands",
    },
    {
        "name": "Progress",
        "type": "string",
        "jsonPath": ".status.progress",
        "description": "how far it is",
    },
    {
        "name": "Verdict",
        "type": "string",
        "jsonPath": ".status.verdict",
        "description": "Pass, Fail, Inconclusive or Error; empty until it is finished",
    },
    {
        "name": "Age",
        "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
        "description": "since it was created",
    },
]


class _Dumper(yaml.SafeDumper):
    """YAML that repeats what is used twice, instead of pointing from one to the other with `&id001`."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def text(made: dict[str, Any] | None = None) -> str:
    """The file of that definition, or of the experiment's."""
    return _HEADER + yaml.dump(made or definition(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=118)


if __name__ == "__main__":
    print(text(), end="")
