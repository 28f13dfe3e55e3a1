"""The experiment as it was when an execution of it began, in a ConfigMap that nobody can change.

An edit of the resource while runs go on would make half of them answer another question. So the operator reads the
resource once for each `runToken`, and from then on this.
"""

import json
from typing import Final

from dedup.experiments import Experiment, parse
from dedup_operator.objects.names import Owner, metadata, name_of
from dedup_operator.objects.pods import Object

FILE: Final = "experiment.yaml"


def snapshot_name(owner: Owner) -> str:
    return name_of(owner, "snapshot")


def snapshot(owner: Owner, experiment: Experiment) -> Object:
    """The ConfigMap. Its annotation has the digest that tells whether the resource still says the same."""
    meta = metadata(owner, snapshot_name(owner), "snapshot")
    meta["annotations"] = {"dedup.dev/digest": experiment.digest()}
    document = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    text = json.dumps(document, indent=1)  # which is YAML too
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "immutable": True, "data": {FILE: text}}


def read(made: Object) -> Experiment:
    """The experiment in such a ConfigMap."""
    return parse(json.loads(made["data"][FILE]), source=f"ConfigMap {made['metadata']['name']}")
