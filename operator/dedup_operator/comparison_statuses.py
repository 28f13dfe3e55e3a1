"""The status of a DedupComparison: what became of each cluster's experiment, and of the comparison of them all."""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from dedup.errors import PlatformError
from dedup.parts import Name, Part
from dedup_operator.statuses import Condition, Judgement, Number

MAX_WORDS: Final = 400


class Outcome(StrEnum):
    """What a comparison came to. It is no verdict: the table says how sure it is of what."""

    NOTHING_WORSE = "NothingWorse"
    WORSE = "Worse"
    INCONCLUSIVE = "Inconclusive"


class Step(StrEnum):
    """How far one cluster is. The last three are ends."""

    WAITING = "Waiting"
    RUNNING = "Running"
    UNREACHABLE = "Unreachable"
    REFUSED = "Refused"
    FINISHED = "Finished"
    LOST = "Lost"
    USELESS = "Useless"


ENDS: Final = (Step.FINISHED, Step.LOST, Step.USELESS)


class ClusterStatus(Part):
    """One cluster of the comparison."""

    name: Name = Field(description="of the cluster, as in spec.clusters")
    step: Step = Field(
        Step.WAITING,
        description="Waiting (it is to get its experiment), Running, Unreachable (it is asked again), Refused (people "
        "have to correct something), Finished (its summary is here), Lost (its experiment was deleted or replaced "
        "there) or Useless (what came of it cannot be compared)",
    )
    experiment: Name | None = Field(None, description="its name there")
    uid: Annotated[str, Field(max_length=63)] | None = Field(None, description="of the experiment, once it was seen")
    progress: Annotated[str, Field(max_length=80)] | None = Field(None, description="as its own status says")
    verdict: Judgement | None = Field(None, description="its own; a comparison does not decide by it alone")
    digest: Annotated[str, Field(max_length=71)] | None = Field(None, description="of the summary that is kept here")
    message: Annotated[str, Field(max_length=MAX_WORDS)] = Field("", description="what holds it up, for people")


class TableStatus(Part):
    """Where the table is."""

    config_map: Annotated[str, Field(max_length=253)] = Field(
        description="in the comparison's namespace: comparison.md for people, comparison.json for programs"
    )


class ComparisonStatus(Part):
    """What became of the comparison so far. Only the operator writes it."""

    observed_generation: Number | None = Field(None, description="the metadata.generation that this status is about")
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", max_length=64)] | None = Field(
        None, description="of the spec that its experiments were made from"
    )
    progress: Annotated[str, Field(max_length=80)] | None = Field(
        None, description="how far it is, for people, such as 1/2 clusters"
    )
    outcome: Outcome | None = Field(None, description="NothingWorse, Worse or Inconclusive; none until it is Finished")
    clusters: Annotated[list[ClusterStatus], Field(max_length=8)] = Field(
        default_factory=list, description="each cluster, in the order of the spec"
    )
    table: TableStatus | None = Field(None, description="what was compared, once all clusters have finished")
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list, description="what tools read: kubectl wait --for=condition=Finished"
    )

    def cluster(self, name: str) -> ClusterStatus:
        """What is known of a cluster; of a new one nothing."""
        return next((each for each in self.clusters if each.name == name), ClusterStatus(name=name))


def read(live: dict[str, Any]) -> ComparisonStatus:
    """The status of a comparison; PlatformError if it cannot be read."""
    try:
        return ComparisonStatus.model_validate(live.get("status") or {}, by_alias=True, by_name=False, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        raise PlatformError(
            where=".".join(["status", *map(str, first["loc"])]),
            got=f"what this operator cannot read: {first['msg']}",
            rule="a comparison goes on from its status",
            todo="install the operator that wrote it, or delete the comparison",
        ) from None
