"""A small valid experiment, and ways to change it, for the tests of the experiment file."""

from typing import Any, Final

import yaml

from testbed import copies

GOOD: Final = """
apiVersion: dedup.dev/v1alpha1
kind: DedupExperiment
metadata: {name: cut}
spec:
  systems:
    - {name: kafka, kafka: {}}
    - {name: pulsar, pulsar: {}}
  workload: {messages: 1000}
  variants:
    - {name: control, deduplication: Disabled, expect: Duplicates}
    - {name: dedup, deduplication: Enabled, expect: ExactlyOnce}
  faults:
    - {name: cut, at: {message: 500}, killTCP: {duration: 10s}}
"""
READ: Final[dict[str, Any]] = yaml.safe_load(GOOD)
ABSENT: Final = object()


def changed(*changes: tuple[str, object]) -> dict[str, Any]:
    """GOOD with values put at places such as `spec.systems.0.name`; ABSENT takes the key out."""
    document = copies.deepcopy(READ)
    for place, value in changes:
        *above, last = place.split("/")
        at: Any = document
        for part in above:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
        if isinstance(at, list):
            at.append(value)
        elif value is ABSENT:
            del at[last]
        else:
            at[last] = value
    return document
