"""The configuration that was in force: the clients' own settings as the manifests recorded them, variant by variant.

A setting that has one value in all runs of a variant is shown; one that differs from run to run (addresses, names) is
said to differ. A row whose values are not the same in all variants is marked: the switch under test is one, and there
should be no other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dedup.wire.manifests import Manifest


class Setting(NamedTuple):
    """One setting of a client: a value a variant, in the order of the variants."""

    name: str
    values: tuple[str, ...]
    differs: bool


class Client(NamedTuple):
    """The settings of the producer or the consumer on one system."""

    title: str
    variants: tuple[str, ...]
    settings: tuple[Setting, ...]


def clients(manifests: Iterable[Manifest]) -> Iterator[Client]:
    """The settings of both clients on each system."""
    by_system: dict[str, dict[str, list[Manifest]]] = {}
    for each in manifests:
        by_system.setdefault(each.system, {}).setdefault(each.variant, []).append(each)
    for system, by_variant in by_system.items():
        variants = tuple(sorted(by_variant))
        for client in ("producer", "consumer"):
            found = [[_of(each, client) for each in by_variant[name]] for name in variants]
            yield Client(f"{system}: {client}", variants, tuple(_settings(found)))


def _of(manifest: Manifest, client: str) -> Mapping[str, str]:
    report = manifest.producer if client == "producer" else manifest.consumer
    return {"library": report.library_version} | report.effective_config


def _settings(found: Sequence[Sequence[Mapping[str, str]]]) -> Iterator[Setting]:
    names = sorted(
        {name for runs in found for settings in runs for name in settings}, key=lambda name: (name != "library", name)
    )
    for name in names:
        values = tuple(_value([settings.get(name, "not set") for settings in runs]) for runs in found)
        yield Setting(name, values, len(set(values)) > 1)


def _value(values: Sequence[str]) -> str:
    different = set(values)
    return values[0] if len(different) == 1 else f"{len(different):,} different values in {len(values):,} runs"
