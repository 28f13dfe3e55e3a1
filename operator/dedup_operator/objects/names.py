"""What the objects of an experiment are called, and by which labels people find them.

A name has to fit many places: a Helm release has 53 characters, a Service 63, and controllers add suffixes of their
own. Names of experiments, systems and variants together would not fit. So an object's name is a short digest of whose
it is and which part of it, the same whenever it is computed; and the full identity stands in labels and annotations.
"""

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from dedup.experiment.plans import Run
from dedup_operator.schema.crd import GROUP, KIND, VERSION

LABEL: Final = f"{GROUP}/experiment"
COMPONENT: Final = f"{GROUP}/component"
EXECUTION: Final = f"{GROUP}/execution"
UID: Final = f"{GROUP}/uid"
PREFIX: Final = "d-"
DIGITS: Final = 10


class Owner(NamedTuple):
    """The experiment to which objects belong. Without a `uid` nobody has applied it as a resource: a person drives.

    Each `token` (spec.runToken) is an execution with objects of its own.
    """

    namespace: str
    name: str
    uid: str | None = None
    token: str = ""

    @property
    def identity(self) -> str:
        """What its objects' names are made from. A token is no part of an experiment, whatever word it is."""
        whose = self.uid or f"{self.namespace}/{self.name}"
        return f"{whose}#{self.token}" if self.token else whose

    @property
    def folder(self) -> str:
        """Its place in a store. An execution never finds another's attempts there, not even after a deletion."""
        return self.name if self.uid is None else f"{self.namespace}/{self.name}/{execution_of(self)}"

    @property
    def reference(self) -> dict[str, Any]:
        """By which Kubernetes knows that an object goes when the experiment goes."""
        return {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "name": self.name, "uid": self.uid}


def name_of(owner: Owner, *part: str) -> str:
    """The name of one part of an experiment: `d-` and ten characters of a to z and 2 to 7."""
    whose = "/".join([owner.identity, *part]).encode(errors="backslashreplace")  # a token may be no Unicode at all
    digest = hashlib.sha256(whose).digest()
    return PREFIX + base64.b32encode(digest).decode().lower()[:DIGITS]


def execution_of(owner: Owner) -> str:
    """What an execution is called: its folder in the store, and the label of everything that was made for it."""
    return name_of(owner, "folder")


def metadata(owner: Owner, name: str, component: str, **of_which: str) -> dict[str, Any]:
    """The metadata of an object: its name, its labels, and its owner if that is a resource.

    `of_which` are further labels below dedup.dev/, such as system="kafka".
    """
    made: dict[str, Any] = {"name": name, "namespace": owner.namespace, "labels": labels(owner, component, **of_which)}
    if owner.uid is not None:
        made["ownerReferences"] = [owner.reference]
    return made


def labels(owner: Owner, component: str, **of_which: str) -> dict[str, str]:
    """By what an object is found: `kubectl get pods -l dedup.dev/experiment=NAME,dedup.dev/component=run`."""
    return {
        "app.kubernetes.io/name": "dedup",
        "app.kubernetes.io/part-of": "dedup",
        LABEL: owner.name,
        COMPONENT: component,
        EXECUTION: execution_of(owner),
        **{f"{GROUP}/{key}": value for key, value in of_which.items()},
    }


def labels_of(run: Run, attempt: int) -> Mapping[str, str]:
    """Which run it is, in labels. The run's id may be longer than a label, and is told in an annotation."""
    return {"system": run.system, "variant": run.variant, "run": str(run.number), "attempt": str(attempt)}
