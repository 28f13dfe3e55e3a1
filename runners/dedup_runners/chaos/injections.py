"""How a kind of fault is done: what to connect beforehand, and which activities inject it, heal it and undo it.

A kind of fault (`dedup.faults.registry`) has a module of the same name in `dedup_runners.chaos.faults`. It holds the
functions that Chaos Toolkit calls, and names them in its `INJECTION`. The module is loaded only when a fault of its
kind is wanted, because some kinds need the cluster's client library, which takes a second to load.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from dedup.faults.kinds import FaultKind
from dedup_runners.chaos.sessions import Session

Activity = dict[str, Any]
K = TypeVar("K", bound=FaultKind)


@dataclass(frozen=True)
class Injection(Generic[K]):
    """One kind of fault as a chaos experiment needs it."""

    prepare: Callable[[Session], None]
    """Connect what the fault needs, so that it strikes without delay. It raises PlatformError if it cannot strike."""
    method: Callable[[K, float], list[Activity]]
    """The activities that inject the fault and heal it, from its settings and the link's latency in seconds."""
    rollbacks: tuple[Callable[..., Any], ...] = ()
    """Actions without arguments that heal it once more if the method was cut short; harmless if nothing is left."""


def injection_of(kind: type[FaultKind]) -> Injection[Any]:
    """How faults of that kind are done."""
    name = kind.__module__.rpartition(".")[2]
    found = importlib.import_module(f"dedup_runners.chaos.faults.{name}").INJECTION
    assert isinstance(found, Injection)
    return found


def action(done: Callable[..., Any], **arguments: float | str) -> Activity:
    """An activity of Chaos Toolkit that does something."""
    return _activity("action", done, arguments)


def probe(asked: Callable[..., Any], **arguments: float | str) -> Activity:
    """An activity of Chaos Toolkit that asks or waits."""
    return _activity("probe", asked, arguments)


def _activity(
    kind: Literal["action", "probe"], called: Callable[..., Any], arguments: dict[str, float | str]
) -> Activity:
    provider = {"type": "python", "module": called.__module__, "func": called.__name__, "arguments": arguments}
    return {"type": kind, "name": called.__name__.replace("_", "-"), "provider": provider}
