"""Who judges the histories of an experiment beside the oracle: Spark, or the same method in one process."""

from enum import StrEnum
from typing import Final

from pydantic import Field

from dedup.parts import Part


class Method(StrEnum):
    """The judge whose answers decide. Both work in the same way (docs/decisions/011)."""

    SPARK = "Spark"
    LOCAL = "Local"


class Verifying(Part):
    """How histories are verified. The oracle judges beside it in any case, up to a million messages a run."""

    engine: Method = Field(
        Method.SPARK,
        description="Spark: any size, and on Kubernetes Spark's operator; Local: one process, which holds in memory "
        "what it found of all runs",
    )


DEFAULT: Final = Verifying().model_dump(mode="json", by_alias=True)
