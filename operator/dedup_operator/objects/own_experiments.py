"""Users' own experiments of Chaos Toolkit in pods: what the administrator's list permits of them.

Such an experiment is code. It runs in the container of its fault, in an image of the list, beside the containers that
hold the store's keys, and as the account of the run, which has what the other faults of the experiment need. So the
administrator reads each text and pins it by its hash; authors choose among these. What an entry gives besides are
rights to the brokers' pods of the same experiment, by name.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from dedup.errors import PlatformError
from dedup.experiment.spec import Experiment, Spec
from dedup.faults.chaos import Chaos, sha256_of
from dedup.faults.kinds import Right
from dedup.faults.registry import Fault
from dedup_operator.objects.settings import ChaosImage, ChaosRight, Image, Settings

LIST: Final = "settings.chaosImages of the operator's chart"
RULE: Final = "pods run an experiment of your own only as the administrator's list permits: in an image, and as a text"
GRANTED: Final[Mapping[ChaosRight, Right]] = {
    "DeleteBrokerPods": Right("", "pods", ("delete",), by_name=True),
}


def check_own_experiments(spec: Spec, images: Sequence[ChaosImage]) -> None:
    """PlatformError if an experiment of a user's own is none that the list permits."""
    for where, fault in spec.written_faults:
        if isinstance(fault.given, Chaos):
            _entry(f"spec.{where}.{fault.kind}", fault.given, images)


def image_of(fault: Fault | None, settings: Settings) -> Image:
    """In which image a fault's container is; PlatformError as `check_own_experiments` has it."""
    if fault is None or not isinstance(fault.given, Chaos):
        return settings.runner_image
    entry = _entry(f"fault {fault.name}: chaos", fault.given, settings.chaos_images)
    return entry.image or settings.runner_image


def granted(experiment: Experiment, images: Sequence[ChaosImage]) -> Iterator[Right]:
    """The rights that the list gives to a run of that experiment. What it does not permit has none."""
    used = {fault.given.image for fault in experiment.spec.all_faults if isinstance(fault.given, Chaos)}
    for entry in images:
        if entry.name in used:
            yield from (GRANTED[right] for right in entry.rights)


def _entry(where: str, given: Chaos, images: Sequence[ChaosImage]) -> ChaosImage:
    names = ", ".join(each.name for each in images)
    ask = f"have the administrator put it into {LIST}, or use `dedup run` on one machine"
    found = next((each for each in images if each.name == given.image), None)
    if found is None:
        todo = f"name one of {names}; or {ask}" if names else ask
        raise PlatformError(where=f"{where}.image", got=given.image or "nothing", rule=RULE, todo=todo)
    if given.document is None:
        rule = "pods read no file of yours, so an experiment brings its text"
        raise PlatformError(where=f"{where}.document", got="nothing", rule=rule, todo=f"write {given.experiment} there")
    if (digest := sha256_of(given.document)) not in found.sha256:
        got = f"a text with the SHA-256 {digest}"
        todo = f"write one that {found.name} permits, to the last byte; or {ask}"
        raise PlatformError(where=f"{where}.document", got=got, rule=RULE, todo=todo)
    return found
