"""The kinds of faults for readers: the rows of `dedup list faults`, and the generated part of docs/faults.md."""

import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from pydantic import BaseModel

from dedup.faults.kinds import EVERYWHERE, FaultKind, Need, Platform
from dedup.faults.registry import KINDS
from dedup.quantities import format_duration
from dedup.wire.clients import Noticed

NEEDS: Final = {
    Need.KAFKA: "a Kafka",
    Need.PULSAR: "a Pulsar",
    Need.BOOKIES: "a Pulsar",
    Need.OWN_BOOKIES: "no Pulsar that is there already",
    Need.POLICIES: "a network that enforces policies, and systems of our charts",
    Need.PRIVILEGE: "allowPrivilegedFaults",
    Need.PROCESSES: "dedup run",
    Need.TRANSACTIONS: "workload.transactions",
}
NOTICED: Final = {
    Noticed.DISCONNECT: "disconnects",
    Noticed.RETRY: "retries",
    Noticed.LEADER: "leader changes",
    Noticed.ERROR: "errors",
}
"""What producers notice, in words."""
FROM: Final = {Platform.PROCESSES: "dedup run", Platform.PODS: "a cluster"}
"""From where they are reached."""
EXISTING: Final = "systems that are there already"
CONSENTING: Final = "pods of brokers that are there already, if their owner allows it"


class Setting(BaseModel):
    """One setting of a kind; without a default it must be given, and with an empty one it may be left out."""

    key: str
    default: str | None
    meaning: str

    def __str__(self) -> str:
        return self.key if self.default is None else f"{self.key} ({self.default or 'optional'})"


class Row(BaseModel):
    """One kind, in words."""

    kind: str
    does: str
    settings: tuple[Setting, ...]
    where: tuple[str, ...]
    needs: tuple[str, ...]
    strikes: str


def rows() -> list[Row]:
    """All kinds, in the order of the registry."""
    return [
        Row(
            kind=kind.key,
            does=_docstring(kind),
            settings=tuple(_settings(kind)),
            where=(*(place.value for place in kind.platforms), *_on_existing(kind)),
            needs=tuple(_needs(kind)),
            strikes=_strikes(kind),
        )
        for kind in KINDS
    ]


def markdown() -> str:
    """A table of all kinds, and a section for each."""
    lines = ["| kind | settings (default) | strikes | where | needs |", "| --- | --- | --- | --- | --- |"]
    for row in rows():
        settings, needs = "; ".join(map(str, row.settings)), "; ".join(row.needs)
        lines.append(f"| `{row.kind}` | {settings} | {row.strikes} | {', '.join(row.where)} | {needs} |")
    return "\n".join([*lines, *(_wrapped(line) for kind in KINDS for line in _section(kind))])


def _section(kind: type[FaultKind]) -> Iterator[str]:
    docs = kind.docs
    yield from ("", f"### {kind.key}", "", _docstring(kind), "")
    for setting in _settings(kind):
        default = f" Default: `{setting.default}`." if setting.default else ""
        yield f"- Setting `{setting.key}`: {setting.meaning}.{default}"
    yield f"- Action: {docs.action}."
    yield f"- Ends: {docs.ends}."
    yield f"- Target's witness: {docs.target_witness}."
    words = ", ".join(NOTICED[each] for each in Noticed if each in kind.notices and each in NOTICED)
    yield f"- Client's witness: {words}{docs.client_witness and f'; {docs.client_witness}'}."
    yield f"- If its injector dies, it is undone by: {docs.undone_by}."
    if docs.details:
        yield from ("", docs.details)


def _wrapped(line: str) -> str:
    hanging = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, 120, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def _docstring(kind: type[FaultKind]) -> str:
    assert kind.__doc__ is not None
    return kind.__doc__


def _settings(kind: type[FaultKind]) -> Iterator[Setting]:
    for name, field in kind.model_fields.items():
        default = None if field.is_required() else "" if field.default is None else field.default
        written = format_duration(default) if isinstance(default, float) else default
        yield Setting(
            key=kind.alias(name), default=None if written is None else str(written), meaning=str(field.description)
        )


def _on_existing(kind: type[FaultKind]) -> Iterator[str]:
    """Whether it strikes systems that are there already, and from where if not from everywhere."""
    if kind.on_existing:
        only = (
            "" if kind.on_existing == EVERYWHERE else f" ({' and '.join(FROM[each] for each in kind.on_existing)} only)"
        )
        yield f"{EXISTING}{only}"
    if kind.on_consent:
        yield CONSENTING


def _strikes(kind: type[FaultKind]) -> str:
    if kind.on_frames:
        return "one request or reply"
    one_by_one = "all brokers, one after the other" if kind.every_strike else "all connections"
    whom = "one broker" if kind.of_one_broker else one_by_one
    return f"{whom}, shown until its end" if kind.must_last else whom


def _needs(kind: type[FaultKind]) -> Iterator[str]:
    if kind.on_frames:
        yield "an interposer in the producer's path"
    if kind.through_proxy:
        yield "a proxy in the clients' path"
    for (field, need), found in groupby(kind.choices, lambda each: (each.field, each.need)):
        yield f"{kind.alias(field)} {', '.join(choice.value for choice in found)}: {NEEDS[need]}"
    rights = [*kind.rights, *(right for choice in kind.choices for right in choice.rights)]
    if rights:
        yield f"rights: {', '.join(f'{right.resource} ({chr(32).join(right.verbs)})' for right in rights)}"
