"""The resource DedupComparison, as Kubernetes is told of it; `make crd` writes it to crds/ beside the experiment's."""

from typing import Any, Final

from dedup.experiment.comparisons import ComparisonSpec, json_schema
from dedup_operator.comparison_statuses import ComparisonStatus
from dedup_operator.schema import crd
from dedup_operator.schema.models import structural

KIND: Final = "DedupComparison"
PLURAL: Final = "dedupcomparisons"

_DESCRIPTION: Final = (
    "Has the same experiment carried out in several clusters, and compares what came of it: a table with bounds on "
    "every rate and a test of every difference, kept in a ConfigMap. Each cluster has an operator of its own, and gets "
    "an ordinary DedupExperiment."
)


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition."""
    made = crd.definition()
    made["metadata"] = {"name": f"{PLURAL}.{crd.GROUP}"}
    names = {"kind": KIND, "listKind": f"{KIND}List", "plural": PLURAL, "singular": KIND.lower()}
    made["spec"]["names"] = {**names, "shortNames": ["dedupcmp"], "categories": ["all"]}
    (version,) = made["spec"]["versions"]
    version |= {"additionalPrinterColumns": _COLUMNS, "schema": {"openAPIV3Schema": schema()}}
    return made


def schema() -> dict[str, Any]:
    """The structural schema of the whole resource."""
    definitions = json_schema()["$defs"]
    return crd.resource(_DESCRIPTION, definitions, structural(ComparisonSpec, definitions), ComparisonStatus)


def _column(name: str, path: str, description: str, kind: str = "string") -> dict[str, str]:
    return {"name": name, "type": kind, "jsonPath": path, "description": description}


_COLUMNS: Final = [
    _column("Progress", ".status.progress", "how many clusters have finished"),
    _column("Outcome", ".status.outcome", "NothingWorse, Worse or Inconclusive; empty until it is finished"),
    _column("Age", ".metadata.creationTimestamp", "since it was created", "date"),
]


if __name__ == "__main__":
    print(crd.text(definition()), end="")
