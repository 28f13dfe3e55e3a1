"""`random`: a nemesis that draws faults from a list, for a time.

It draws before anything runs, from the experiment's seed. What it draws are faults like any other, each with a name and
a moment: `dedup plan` shows them, every run of the experiment has the same, and each must strike and be witnessed as
one that was written down. The same seed draws the same faults, on every machine and in every version: results that were
recorded years ago are judged by drawing again. So only `random()` of Python's generator is used, whose numbers never
change, and a test holds a drawing to the letter.

Drawn faults come one after the other. What two of them have caused at the same time could not be told apart, and a
broker that is down cannot be killed again. So each begins at least `rest` after the planned end of the one before, time
in which the system becomes whole; then a time is drawn by the rates of all, and then which one it is.
"""

import math
import random
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, create_model, model_validator

from dedup.faults.moments import At
from dedup.faults.registry import KEYS, Fault, Kinded
from dedup.parts import Name, Part
from dedup.quantities import Seconds, format_duration
from dedup.refusals import refusal

MOST_FAULTS: Final = 16
"""Of an experiment, written and drawn. Each is a process of its own beside the clients."""
MOST_NAME: Final = 36
"""Characters of a drawn fault's name before `-NN`."""


class _Operation(Kinded):
    name: Annotated[Name, Field(max_length=MOST_NAME)] = Field(
        description="the faults that are drawn are called NAME-1, NAME-2, …"
    )
    every_s: Seconds = Field(
        alias="every", ge=1, le=24 * 3600, description="how often, on average, while none of them is in force"
    )


if TYPE_CHECKING:
    Operation = _Operation
else:
    Operation = create_model(
        "Operation",
        __base__=_Operation,
        __module__=__name__,
        __doc__="A fault that may be drawn: how often, and exactly one kind of it.",
        **KEYS,
    )


class Random(Part):
    """Faults that the experiment's seed draws from a list, one after the other."""

    duration_s: Seconds = Field(
        alias="duration", gt=0, le=24 * 3600, description="drawn faults begin within this time after the first send"
    )
    rest_s: Seconds = Field(
        10.0,
        alias="rest",
        ge=1,
        le=3600,
        description="how long after the end of one the next may begin, at the earliest, 1s to 1h",
    )
    operations: Annotated[list[Operation], Field(min_length=1, max_length=8)] = Field(
        description="what is drawn from, each with its rate"
    )

    @model_validator(mode="after")
    def _drawable(self) -> "Random":
        for index, each in enumerate(self.operations):
            if each.name in [other.name for other in self.operations[:index]]:
                rule = "another of the operations has this name"
                raise refusal(f"operations[{index}].name", f'"{each.name}"', rule, "rename one of them")
            if each.given.on_frames:
                raise refusal(
                    f"operations[{index}].{each.kind}",
                    each.name,
                    f"{each.kind} counts from a message on, and what is drawn begins at a time",
                    "write it as one of faults",
                )
        return self

    def faults(self, seed: int) -> tuple[Fault, ...]:
        """The faults that this seed draws, in the order in which they begin; stops when there are too many."""
        chance, found = random.Random(f"faults/{seed}"), list[Fault]()
        rates = [1 / each.every_s for each in self.operations]
        counts, free_s = dict.fromkeys((each.name for each in self.operations), 0), 0.0
        while len(found) <= MOST_FAULTS:
            begins_s = round(free_s + self.rest_s - math.log(1 - chance.random()) / sum(rates), 3)
            operation = _chosen(self.operations, rates, chance.random() * sum(rates))
            if begins_s >= self.duration_s:
                break
            counts[operation.name] += 1
            found.append(_at(operation, counts[operation.name], begins_s))
            free_s = begins_s + operation.lasts_s
        return tuple(found)


def _chosen(operations: list[Operation], rates: list[float], at: float) -> Operation:
    """The operation in whose part of all rates, one after the other, `at` lies."""
    for operation, rate in zip(operations, rates, strict=True):
        if at < rate:
            return operation
        at -= rate
    return operations[-1]


def _at(operation: Operation, number: int, begins_s: float) -> Fault:
    given: dict[str, Any] = {field: getattr(operation, field) for field in KEYS}
    return Fault(name=f"{operation.name}-{number}", at=At.model_validate({"after": format_duration(begins_s)}), **given)
