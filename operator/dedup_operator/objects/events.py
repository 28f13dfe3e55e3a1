"""An Event about an experiment, which `kubectl describe` and `kubectl events` show.

It is of the old kind (core v1): the new one (events.k8s.io/v1) is the same object behind another door, and kubectl
looks behind the old one.
"""

from datetime import UTC, datetime
from typing import Final

from dedup_operator.objects.names import Owner, name_of
from dedup_operator.objects.pods import Object

MAX_MESSAGE: Final = 1024
"""What the API server takes."""


def event(owner: Owner, part: tuple[str, ...], reason: str, message: str, *, warns: bool, now: datetime) -> Object:
    """The Event. Its name follows from `part`: of one execution there is one Event of each."""
    when = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name_of(owner, "event", *part), "namespace": owner.namespace},
        "involvedObject": {**owner.reference, "namespace": owner.namespace},
        "type": "Warning" if warns else "Normal",
        "reason": reason,
        "message": message[:MAX_MESSAGE],
        "source": {"component": "dedup-operator"},
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
    }
