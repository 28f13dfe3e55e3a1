"""A hostile experiment: what it tries, and what stops it or makes it harmless.

Whoever may create a DedupExperiment may do no more by it than by creating pods: reach no other namespace, no other
Secret, no shell, no flag of Helm, and no setting of a client that runs code. Each hostile experiment is the smallest
change to a good one (testbed/specs.py). What it meets is said here, and tried by tests/operator/test_hostile.py
without any cluster, since an operator must not trust that the resource's definition was there; what the API server
itself says is tried by tests/kubernetes/test_hostile.py.
"""

from enum import StrEnum
from typing import Any, Final, NamedTuple

from testbed.specs import changed

KAFKA: Final = "spec/systems/0"
PULSAR: Final = "spec/systems/1"
FAULT: Final = "spec/faults/0"
SECRET: Final = "hunter2"
"""What no message may repeat."""


class Gate(StrEnum):
    """What the operator does with it, whatever the API server has let through."""

    REFUSED = "the models refuse it, and nothing is made"
    STALLED = "the operator looks at what it names, and makes nothing"
    HARMLESS = "it is run, and all that is made keeps its bounds"


class AtApply(StrEnum):
    """What the API server does with it."""

    REFUSED = "refused"
    ACCEPTED = "accepted"
    NOT_SENT = "no client can write it down"


class Hostile(NamedTuple):
    """`tries` says what for. What is harmless says why, in `because`."""

    name: str
    tries: str
    changes: tuple[tuple[str, object], ...]
    gate: Gate = Gate.REFUSED
    at_apply: AtApply = AtApply.REFUSED
    because: str = ""

    @property
    def document(self) -> dict[str, Any]:
        return changed(*self.changes)


def harmless(name: str, tries: str, because: str, *changes: tuple[str, object]) -> Hostile:
    """One that is taken as it is."""
    return Hostile(name, tries, changes, Gate.HARMLESS, AtApply.ACCEPTED, because)
