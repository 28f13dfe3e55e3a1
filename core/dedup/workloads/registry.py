"""All parts and kinds of workloads, and the two parts of an experiment file that hold them.

A new kind is one module beside this one, one entry in `KINDS`, and one module of `dedup_runners.workloads`, which does
it. What may stand beside every kind, and beside each other, is in `OTHERS`. `Changes` is what a variant may change: of
each kind the settings that it says may vary.
"""

from typing import TYPE_CHECKING, Any, Final

from pydantic import Field, create_model

from dedup.parts import Part
from dedup.workloads.consumer import Consumer
from dedup.workloads.keys import Keys
from dedup.workloads.kinds import WorkloadKind, WorkloadPart
from dedup.workloads.payload import Payload
from dedup.workloads.producers import Producers
from dedup.workloads.replication import Replication
from dedup.workloads.resend import Resend
from dedup.workloads.restart import Restart
from dedup.workloads.transactions import Transactions

KINDS: Final[tuple[type[WorkloadKind], ...]] = (
    Restart,
    Resend,
    Producers,
    Consumer,
    Transactions,
    Replication,
)
OTHERS: Final[tuple[type[WorkloadPart], ...]] = (Payload, Keys)
PARTS: Final[tuple[type[WorkloadPart], ...]] = (*OTHERS, *KINDS)


def _changes(kind: type[WorkloadKind]) -> type[Part]:
    """A part with the kind's settings that may vary, each of which may be left out."""
    fields: dict[str, Any] = {
        name: (kind.model_fields[name].annotation | None, Field(None, description=kind.model_fields[name].description))  # type: ignore[operator]
        for name in kind.varies
    }
    return create_model(
        f"{kind.__name__}Changes",
        __base__=Part,
        __module__=__name__,
        __doc__=f"What a variant changes of the workload's {kind.key}.",
        **fields,
    )


class _Changes(Part):
    pass


if TYPE_CHECKING:
    Changes = _Changes
else:
    Changes = create_model(
        "WorkloadChanges",
        __base__=_Changes,
        __module__=__name__,
        __doc__="What a variant changes of the workload.",
        **{
            kind.key: (_changes(kind) | None, Field(None, description=f"what it changes of workload.{kind.key}"))
            for kind in KINDS
            if kind.varies
        },
    )


def leave_unset_out(changes: dict[str, Any]) -> None:
    """Take out of a variant's changes, as a digest has them, each kind that it leaves alone and that is newer.

    And of the others each newer setting that it leaves alone.
    """
    for kind in KINDS:
        if not kind.in_every_digest and changes.get(kind.key, ...) is None:
            del changes[kind.key]
        for name in set(kind.newer) & set(kind.varies) if changes.get(kind.key) else ():
            _leave_out(changes[kind.key], name, None)


def leave_defaults_out(workload: dict[str, Any]) -> None:
    """Take out of a workload, as a digest has it, each newer setting of its kind that has its default."""
    for kind in KINDS:
        for name in kind.newer if workload.get(kind.key) else ():
            _leave_out(workload[kind.key], name, kind.model_fields[name].default)


def _leave_out(settings: dict[str, Any], name: str, default: object) -> None:
    if settings[name] == default:
        del settings[name]


def fields() -> dict[str, Any]:
    """The fields of a workload that may have these parts, for `create_model`."""
    return {part.key: (part | None, Field(None, description=part.summary)) for part in PARTS}


def changed(kind: WorkloadKind, changes: Part | None) -> WorkloadKind:
    """The kind with what a variant changes of it."""
    own = getattr(changes, kind.key, None)
    if own is None:
        return kind
    return kind.model_copy(update={name: value for name, value in own if value is not None})
