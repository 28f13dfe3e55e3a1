"""A recorded run as an experiment of its own, in which each fault begins at the message at which it began then.

A time says little of what a fault strikes: brokers are quicker today, or the machine is busy. The producer's counter
was recorded when each fault began, so what chance or a seed has found can be struck again by message. System, variant,
workload, settings and partition are those of the recorded run; it is the only one.
"""

from itertools import chain, count
from typing import Any, Final, NamedTuple

from dedup.errors import SpecificationError
from dedup.experiment.plans import Run, run_of
from dedup.experiment.spec import Experiment, System, parse
from dedup.faults.registry import Fault
from dedup.wire.manifests import FaultRecord, Manifest

SUFFIX: Final = "-replay"
"""Ends the name of a replay, so that its results are not taken for more of the experiment's own."""
MOST_NAME: Final = 40


class Again(NamedTuple):
    """The experiment that repeats a run, its one run, and the faults that never began in the recorded one."""

    experiment: Experiment
    run: Run
    never: tuple[str, ...]


def again(experiment: Experiment, manifest: Manifest) -> Again:
    """The experiment that does once more what was done in the run of this manifest.

    SpecificationError if no fault began in it: then there is nothing to strike again.
    """
    spec, records = experiment.spec, {record.name: record for record in manifest.faults}
    messages = {fault.name: _begun(fault, records.get(fault.name), manifest) for fault in spec.all_faults}
    never = tuple(name for name, message in messages.items() if message is None)
    if len(never) == len(messages):
        raise SpecificationError(
            where=manifest.run_id,
            got=f"none of its faults ({', '.join(never)}) began" if never else "a run without faults",
            rule="a replay lets each fault begin at the message at which it began then",
            todo="name a run in which one began; dedup run does the experiment again",
        )
    system = next(each for each in spec.systems if each.name == manifest.system)
    document = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["metadata"] = {"name": _name(experiment.name)}
    told = document["spec"]
    for key in ("random", "confidencePercent", "runToken"):
        told.pop(key, None)
    told |= {
        "systems": [each for each in told["systems"] if each["name"] == manifest.system],
        "variants": [each for each in told["variants"] if each["name"] == manifest.variant],
        "runs": 1,
        "replacements": 0,
        "seed": _seed(experiment, system, manifest),
        "faults": [_at(each, message) for each in spec.all_faults if (message := messages[each.name]) is not None],
    }
    made = parse(document, source=f"the replay of {manifest.run_id}").kept_in(experiment.folder)
    return Again(made, run_of(made.spec.seed, manifest.system, manifest.variant, 1), never)


def _begun(fault: Fault, record: FaultRecord | None, manifest: Manifest) -> int | None:
    """The message at which it began; None if it never did. One that begins at a message begins exactly there."""
    if record is None or record.triggered_message is None:
        return None
    return fault.at.message or min(max(record.triggered_message, 1), manifest.messages)


def _at(fault: Fault, message: int) -> dict[str, Any]:
    return fault.model_dump(mode="json", by_alias=True, exclude_none=True) | {"at": {"message": message}}


def _seed(experiment: Experiment, system: System, manifest: Manifest) -> int:
    """The experiment's, or else the first one by which the only run's faults strike the recorded run's partition."""
    variant = next(each for each in experiment.spec.variants if each.name == manifest.variant)
    tested = system.of(variant)
    homes = experiment.spec.workload.homes(tested.library, tested.client.properties)
    struck = homes[manifest.seed % len(homes)]
    for seed in chain([experiment.spec.seed], count()):
        if homes[run_of(seed, manifest.system, manifest.variant, 1).seed % len(homes)] == struck:
            return seed
    raise AssertionError("some seed strikes each partition")


def _name(name: str) -> str:
    if name.endswith(SUFFIX):
        return name
    return name[: MOST_NAME - len(SUFFIX)].rstrip("-") + SUFFIX
