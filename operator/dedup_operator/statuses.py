"""The status of a DedupExperiment: what the operator reports, for people (phase, progress) and for tools (conditions).

It holds sums, the present, and what became of the last executions; never a list of runs, so that it fits into 128 KiB
at any number of runs: a test fills every list and every string to the brim and weighs it. Finished runs live in result
files.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, create_model

from dedup.errors import PlatformError
from dedup.experiment.stages import State
from dedup.judgement.abridgements import MOST_CHARACTERS
from dedup.judgement.counts import COUNTS, Counts
from dedup.parts import Name, Part

_LARGEST: Final = 2**53
MOST_EXECUTIONS: Final = 10
"""So many are kept in `status.history`; older ones are in the store, and their ConfigMaps in the cluster."""

Number = Annotated[int, Field(ge=0, le=_LARGEST)]


class Phase(StrEnum):
    """Where the experiment stands, in one word, for people; tools read the conditions."""

    PENDING = "Pending"
    PROVISIONING = "Provisioning"
    RUNNING = "Running"
    TEARING_DOWN = "TearingDown"
    VERIFYING = "Verifying"
    REPORTING = "Reporting"
    FINISHED = "Finished"
    STALLED = "Stalled"


class Judgement(StrEnum):
    """A verdict (`dedup.judgement.verdicts.Verdict`), written as Kubernetes writes such values."""

    PASS = "Pass"
    FAIL = "Fail"
    INCONCLUSIVE = "Inconclusive"
    ERROR = "Error"


if TYPE_CHECKING:
    Sums = Counts
else:
    Sums = create_model(
        "Sums",
        __base__=Part,
        __doc__="Counts, each summed over the finished runs that are not void. What each means: docs/verdicts.md.",
        **{
            name: (Number, Field(0 if each.added else ..., description=each.status))
            for name, each in COUNTS.items()
            if each.status
        },
    )


class VariantStatus(Part):
    """All runs of one variant on one system. What is found by verifying is not there before."""

    name: Name = Field(description="of the variant, as in spec.variants")
    runs: Number = Field(description="planned")
    finished_runs: Number = Field(description="whose history is complete")
    effective_runs: Number | None = Field(
        None, description="whose evidence is complete and whose faults struck while messages were sent"
    )
    runs_with_copies: Number | None = Field(None, description="effective ones in which a value was read more than once")
    counts: Sums | None = Field(None, description="what was found in its runs")
    verdict: Judgement | None = Field(None, description="on this variant on this system")


class SystemStatus(Part):
    """One system of the experiment."""

    name: Name = Field(description="of the system, as in spec.systems")
    variants: Annotated[list[VariantStatus], Field(max_length=8)] = Field(
        default_factory=list, description="its runs, by variant"
    )


Systems = Annotated[list[SystemStatus], Field(max_length=8)]
"""As many as a status holds: what is read to be written there is bounded by the same."""


class Condition(Part):
    """One thing that is true, false or not known of the experiment, as Kubernetes' tools understand it."""

    type: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=40)] = Field(
        description="Ready, Reconciling and Stalled (kstatus); Finished (True for every verdict, which is its reason: "
        "what to wait for); Succeeded (True for Pass only); SpecChanged, SystemsReady, FaultsInjected, Verified"
    )
    status: Literal["True", "False", "Unknown"] = Field(description="whether it is so")
    observed_generation: Number | None = Field(None, description="the metadata.generation that this was said of")
    last_transition_time: Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})] = Field(
        description="when its status last changed"
    )
    reason: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=40)] = Field(
        description="why, in one word, for programs"
    )
    message: Annotated[str, Field(max_length=512)] = Field(description="why, for people")


class Kept(Part):
    """Where the histories of this execution lie, and what was concluded from them: in S3, or on a volume."""

    uri: Annotated[str, Field(max_length=1024)] | None = Field(
        None, description="s3://BUCKET/PREFIX of all of it; `dedup results NAME --output FOLDER` fetches it"
    )
    endpoint: Annotated[str, Field(max_length=300)] | None = Field(
        None, description="where pods reach the store, if it is not Amazon's"
    )
    region: Annotated[str, Field(max_length=253)] | None = Field(None, description="the bucket's")
    claim_name: Annotated[str, Field(max_length=253)] | None = Field(
        None, description="of the PersistentVolumeClaim, in the experiment's namespace"
    )
    folder: Annotated[str, Field(max_length=1024)] | None = Field(None, description="on that volume")


class Execution(Part):
    """What became of one execution. `dedup compare --trend` follows them, where their results lie in one store."""

    execution: Annotated[str, Field(pattern=r"^d-[a-z2-7]{10}$", max_length=12)] = Field(
        description="its folder in the store, and the label dedup.dev/execution of what was made for it"
    )
    run_token: Annotated[str, Field(max_length=63)] | None = Field(None, description="where one was given")
    verdict: Judgement | None = Field(None, description="none: another runToken ended it before it had one")
    started_at: Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})] | None = Field(
        None, description="when it began; none: an older operator began it, or nothing of it was begun"
    )
    finished_at: Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})] | None = Field(
        None, description="when it had its verdict, or was ended"
    )
    artifacts: Kept | None = Field(None, description="where its histories and results lie, if any were kept")
    summary_digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$", max_length=71)] | None = Field(
        None, description="of its summary.json, as the report wrote it"
    )


class SealedSummary(Part):
    """The summary of this execution, abridged to what a comparison reads (`dedup.judgement.abridgements`)."""

    packed: Annotated[str, Field(max_length=MOST_CHARACTERS)] = Field(description="the JSON, gzipped, in base64")
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$", max_length=71)] = Field(description="of the JSON")


class Standing(Part):
    """Where the stage machine stands (`dedup.experiment.stages`): what the operator needs to go on after a crash."""

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", max_length=64)] = Field(description="of the experiment")
    cursor: Number = Field(0, description="the task of the schedule that is current")
    attempt: Number = Field(1, description="of the current run")
    provisioning: bool = Field(False, description="the current run's system is being brought back")
    intended: bool = Field(False, description="the start of the current task was decided")
    since_unix_s: float = Field(0.0, ge=0, le=_LARGEST, description="when it was, in seconds since 1970")
    restarts: Number = Field(0, description="how often the current task had to be begun again")
    replaced: Number = Field(0, description="runs that were done again because a fault of theirs missed")
    failed_in_a_row: Number = Field(0, description="runs")
    failures: Number = Field(0, description="tasks that failed")
    last_failure: Annotated[str, Field(max_length=500)] = Field("", description="what went wrong last")

    @classmethod
    def of(cls, state: State) -> "Standing":
        return cls(**state.model_dump())

    @property
    def state(self) -> State:
        return State(**self.model_dump())


class Status(Part):
    """What became of the experiment so far. Only the operator writes it."""

    observed_generation: Number | None = Field(None, description="the metadata.generation that this status is about")
    observed_run_token: Annotated[str, Field(max_length=63)] | None = Field(
        None, description="the token of the execution that this status is about, where one was given"
    )
    requested_at: Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})] | None = Field(
        None, description="since when this execution asks for a place among those that run at a time"
    )
    started_at: Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})] | None = Field(
        None, description="when this execution began; none: not yet, or an older operator began it"
    )
    parked: Literal[True] | None = Field(
        None, description="it could not go on, nothing of it runs any more, and its place is another's until its turn"
    )
    phase: Phase | None = Field(None, description="where the experiment stands, for people; tools read conditions")
    progress: Annotated[str, Field(max_length=80)] | None = Field(
        None, description="how far it is, for people, such as 37/200 runs"
    )
    state: Standing | None = Field(None, description="what the operator goes on from; of no use to others")
    snapshot_digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$", max_length=71)] | None = Field(
        None, description="of the ConfigMap with what this execution runs; none: an older operator began it"
    )
    verdict: Judgement | None = Field(None, description="on the whole experiment; none until it is Finished")
    systems: Systems = Field(default_factory=list, description="counts, by system and variant")
    artifacts: Kept | None = Field(None, description="where the histories and what was concluded from them lie")
    summary: SealedSummary | None = Field(
        None, description="what a DedupComparison compares; none if it has too many runs, or an older report made it"
    )
    history: Annotated[list[Execution], Field(max_length=MOST_EXECUTIONS)] = Field(
        default_factory=list, description="the last executions that are over, the newest first; a runToken erases none"
    )
    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list, description="what tools read: kubectl wait --for=condition=Finished"
    )


def read(live: dict[str, Any]) -> Status:
    """The status of an experiment; PlatformError if it cannot be read: a newer operator's is not taken for none."""
    try:
        return Status.model_validate(live.get("status") or {}, by_alias=True, by_name=False, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        raise PlatformError(
            where=".".join(["status", *map(str, first["loc"])]),
            got=f"what this operator cannot read: {first['msg']}",
            rule="an execution goes on from its status",
            todo="install the operator that wrote it, or delete the experiment",
        ) from None
