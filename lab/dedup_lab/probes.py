"""`dedup probe`: every rule of deduplication, asked of a system that is running already.

What a rule is and how it is tried is in `dedup_runners.probes`. Here the system is found, each rule is tried, and the
result is printed: the table is the answer, and goes to standard output.
"""

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from rich.console import Console

from dedup.experiment.endpoints import Endpoints, Security
from dedup.experiment.systems import Protocol
from dedup.judgement.probes import Probed, Row
from dedup_lab.targets import found, target
from dedup_lab.terminal.consoles import console
from dedup_lab.terminal.probes import show
from dedup_runners.probes import Brokers, Probe, asked

COMMAND: Final = "dedup probe"
Note = Callable[[str], None]


class Kind(NamedTuple):
    """A protocol's probes, and where its brokers' class is; imported only when needed, with its client library."""

    probes: str
    brokers: tuple[str, str]
    product: str


KINDS: Final[Mapping[Protocol, Kind]] = {
    "kafka": Kind("dedup_runners.probes.kafka", ("dedup_runners.probes.kafka_topics", "KafkaBrokers"), "Kafka"),
    "pulsar": Kind("dedup_runners.probes.pulsar", ("dedup_runners.probes.pulsar_topics", "PulsarBrokers"), "Pulsar"),
}


def probe(url: str, access: Security, *, admin: str | None, as_json: bool, log: Console) -> int:
    """Try each rule on the brokers at `url`, print what was seen, and return the exit code.

    A DedupError says in one line what made it impossible. `log` shows progress.
    """
    given = target(url, COMMAND, tuple(KINDS))
    with log.status("looking for the brokers") as status:
        endpoints = found(given, access, admin)
        result = probed(endpoints, given.url, status.update)
    if as_json:
        print(result.model_dump_json())
    else:
        show(result, console(stderr=False))
    return result.exit_code


def probes_of(protocol: Protocol) -> Sequence[Probe[Any]]:
    """The rules of a protocol with how they are tried, in the order of the table."""
    found: Sequence[Probe[Any]] = importlib.import_module(KINDS[protocol].probes).PROBES
    return found


def probed(endpoints: Endpoints, url: str, note: Note = lambda _: None) -> Probed:
    """Try each rule on these brokers. Whatever was made for it is removed at the end."""
    kind, probes, began = KINDS[endpoints.system], probes_of(endpoints.system), time.monotonic()
    module, name = kind.brokers
    now = datetime.now(UTC).isoformat(timespec="seconds")
    rows: list[Row] = []
    with getattr(importlib.import_module(module), name)(endpoints) as brokers:
        typed: Brokers[Any] = brokers
        version, words = typed.version()
        note(f"{len(probes)} rules, on {kind.product} {words}")
        for row in asked(typed, probes, version):
            rows.append(row)
            note(f"{len(rows)} of {len(probes)}: {row.name}")
    return Probed(
        url=url,
        asked=now,
        product=kind.product,
        version=words,
        rows=tuple(rows),
        seconds=round(time.monotonic() - began, 1),
    )
