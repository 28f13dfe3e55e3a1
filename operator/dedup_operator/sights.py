"""What can be seen of the objects that do the work: is it running, done, or failed, and in what words?

Pure functions of what the API server says of an object. Readiness is believed only if it was said of the object as it
is now (`observedGeneration`), and an end only if the object itself says so.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from pydantic import ConfigDict, Field, ValidationError

from dedup.errors import PlatformError, one_line
from dedup.experiment.assignments import MISSED
from dedup.experiment.stages import Observation, Status
from dedup.parts import Part
from dedup_operator.clusters import Object
from dedup_operator.statuses import Judgement, SealedSummary, Systems

MAX_WORDS: Final = 400
ENDS: Final = ("Succeeded", "Failed")
"""The phases of a pod that has ended."""
NOT_ENDED: Final = ",".join(f"status.phase!={end}" for end in ENDS)
PENDING: Final = f"status.phase!=Running,{NOT_ENDED}"
"""Which pods have not started: of Spark's executors there may be many that have."""
PARTITIONS: Final = "dedup.dev/fault=partition"
"""How `dedup_runners.chaos` labels the policies that it makes."""
STARTING: Final = ("ContainerCreating", "PodInitializing")
"""What a container waits for that only takes its time. Whatever else it waits for, somebody may have to mend."""
SPARK_FAILED: Final = "FAILED"
"""The one end of an application that did not complete: whatever else sounds like it, Spark's operator may try again."""
PICKED_UP_S: Final = (30.0, 180.0)
"""After which nobody has looked at what was made for another operator, at least and at most; those take seconds."""
DRIVER_GONE: Final = "driver pod not found"
"""How Spark's operator says that the pod it has made is not there any more (kubeflow's, `updateDriverState`)."""
TOO_MANY_FAILED: Final = "BackoffLimitExceeded"
"""Why a Job has failed of which pods failed, by themselves or not; a time limit of its own has another word."""
RUNNING: Final = Observation(status=Status.RUNNING)
DONE: Final = Observation(status=Status.DONE)
ABSENT: Final = Observation(status=Status.ABSENT)


class Unattended(PlatformError):
    """What was made for another operator, nobody has looked at: no time limit runs until somebody has mended that."""


class ToldFaults(Part):
    """Of the runs whose counts are summed: in how many every planned fault took effect, and where one first did not."""

    model_config = ConfigDict(extra="ignore")

    planned: int = Field(ge=0, description="faults, latency among them")
    runs: int = Field(ge=0)
    struck: int = Field(ge=0, description="runs in which each took effect")
    missed: str = ""


class Told(Part):
    """The report's bulletin (`dedup_spark.report`), as far as the status needs it."""

    model_config = ConfigDict(extra="ignore")

    spec_digest: str = Field(description="of the experiment that was judged")
    verdict: Judgement
    reasons: list[str] = Field(default_factory=list)
    systems: Systems = Field(default_factory=list)
    faults: ToldFaults | None = Field(None, description="a report of an older version has none")
    uri: str = Field("", description="where all of it lies")
    digest: str | None = Field(None, pattern=r"^sha256:[0-9a-f]{64}$", description="of the summary there")
    sealed: SealedSummary | None = Field(None, description="an older report leaves none")

    @property
    def message(self) -> str:
        return "; ".join([*self.reasons, *([f"see {self.uri}"] if self.uri else [])])


def told(bulletin: str, digest: str) -> tuple[Told | None, str]:
    """The report's word on the experiment of that digest; else why this is none."""
    try:
        said = Told.model_validate_json(bulletin)
    except ValidationError:
        return None, f"got {short(bulletin)[:80]}; a report leaves a line of JSON there; the report's log may say more"
    if said.spec_digest != digest:
        return None, f"got a report on another experiment, {said.spec_digest[:12]}; this one is {digest[:12]}"
    return said, ""


def ended(job: Object) -> str | None:
    """Complete or Failed, once the Job says so; Failed if it is said to be both."""
    return next((end for end in ("Failed", "Complete") if _said(job, end) is not None), None)


def suspended(job: Object) -> bool:
    """Whether its controller says that it makes no pods any more, since that was asked of it."""
    return _said(job, "Suspended") is not None


def seen(job: Object, pods: Sequence[Object]) -> Observation:
    """A Job of ours; one that failed is told in the words of the program that failed.

    That it is complete is believed once its pods have ended: its controller says it no earlier, but others might.
    """
    match ended(job):
        case "Complete":
            going = (pod["metadata"]["name"] for pod in pods if (pod.get("status") or {}).get("phase") not in ENDS)
            if (name := next(going, None)) is None:
                return DONE
            words = f"Job {job['metadata']['name']} is said to be complete, and its pod {name} has not ended"
            return Observation(status=Status.RUNNING, message=short(words))
        case "Failed":
            return Observation(status=Status.FAILED, message=_last_words(job, pods))
        case _:
            words = waiting(pods) or unheard(pods) or _failed_so_far(pods) or _podless(job, pods)
            return Observation(status=Status.RUNNING, message=words)


def taken_away(job: Object, pods: Iterable[Object]) -> bool:
    """Whether a Job failed since its pods were taken from it: a pod that ended by itself would be there to tell.

    Should it have been, and is gone since, its last words are in the store, and the judge goes by these.
    """
    failed = _said(job, "Failed")
    return failed is not None and failed.get("reason") == TOO_MANY_FAILED and all(map(_disrupted, pods))


def lost_its_driver(application: Object) -> bool:
    """Whether a SparkApplication failed since the pod of its driver is gone: that says nothing of the job."""
    state = application.get("status", {}).get("applicationState", {})
    return (state.get("state"), state.get("errorMessage")) == (SPARK_FAILED, DRIVER_GONE)


def waiting(pods: Iterable[Object]) -> str:
    """Which pod does not start, the first of them, and why, in Kubernetes' words; nothing of those on their way."""
    for pod in pods:
        if why := _held_up(pod.get("status") or {}):
            return short(f"pod {pod['metadata']['name']} does not start: {why}")
    return ""


def unheard(pods: Iterable[Object]) -> str:
    """Which pod's node has stopped answering for it, the first of them.

    Then Kubernetes itself says that the pod is not ready, and leaves what the node said last: that its containers are.
    """
    for pod in pods:
        status = pod.get("status") or {}
        said = {each["type"]: each for each in status.get("conditions") or ()}
        ready, containers = said.get("Ready", {}), said.get("ContainersReady", {})
        unsaid = ready.get("status") == "False" and not ready.get("reason") and containers.get("status") == "True"
        if unsaid and status.get("phase") not in ENDS:
            name, node = pod["metadata"]["name"], pod.get("spec", {}).get("nodeName", "unknown")
            return short(f"the node of pod {name}, {node}, does not answer; if it is gone, delete the pod by force")
    return ""


def at_work(pods: Iterable[Object]) -> str:
    """Which programs run in these pods, and where."""
    found = []
    for pod in pods:
        programs = _programs(pod.get("status") or {})
        if names := [str(each["name"]) for each in programs if "running" in (each.get("state") or {})]:
            node = pod.get("spec", {}).get("nodeName", "unknown")
            found.append(f"pod {pod['metadata']['name']} on node {node} still runs {', '.join(names)}")
    return short("; ".join(found))


def because(seen: Observation, pods: Iterable[Object]) -> Observation:
    """What is seen of something that is not done; if a pod of it does not start, that comes first."""
    words = [each for each in (waiting(pods), seen.message) if each]
    return seen.model_copy(update={"message": short("; ".join(words))})


def begun(job: Object, pods: Iterable[Object]) -> bool:
    """Whether all programs of its pod have started: it is ready, or was, and one of them has ended in order since.

    A pod is never ready again when the first has ended. Whether one has ended in disorder, the Job says.
    """
    return bool(job.get("status", {}).get("ready")) or any(map(_is_past_its_start, pods))


def in_the_way(pods: Iterable[Object], cuts: Iterable[Object] = ()) -> Observation:
    """Whether a run may begin beside these pods of other runs, and what they cut off: only if all has ended."""
    for cut in cuts:
        name = cut["metadata"]["name"]
        words = f"NetworkPolicy {name} of an earlier run still cuts a broker off; delete it if its deadline has passed"
        return Observation(status=Status.BLOCKED, message=words)
    for pod in pods:
        if pod.get("status", {}).get("phase") not in ENDS:
            run = (pod["metadata"].get("annotations") or {}).get("dedup.dev/run", "a run")
            words = f"pod {pod['metadata']['name']} of {run} has not ended"
            return Observation(status=Status.BLOCKED, message=f"{words}; if its node is gone, delete it by force")
    return ABSENT


def has_ended(container: str, pods: Iterable[Object]) -> bool:
    """Whether that container of the pod ended in order."""
    return any(name == container and code == 0 for name, code, _ in _terminated(pods))


def has_a_result(pods: Iterable[Object]) -> bool:
    """Whether the conductor has ended, in whatever way: it has written what became of the run."""
    return any(name == "conductor" for name, _, _ in _terminated(pods))


def missed(pods: Iterable[Object]) -> str:
    """Why the faults of a finished run tested nothing, as its conductor left word of it; nothing if they did."""
    words = (words for name, code, words in _terminated(pods) if name == "conductor" and code == 0)
    return next((short(each.removeprefix(MISSED)) for each in words if each.startswith(MISSED)), "")


def last_word(pod: Object, container: str) -> str:
    """What that container of a pod left when it ended in order; empty if it has not, or left nothing."""
    return next((words.strip() for name, code, words in _terminated([pod]) if name == container and code == 0), "")


def ready(workloads: Sequence[Object]) -> Observation:
    """StatefulSets and Deployments: done when each has all its replicas, as it is now."""
    for each in workloads:
        status, wanted = each.get("status", {}), each["spec"].get("replicas", 1)
        is_now = status.get("observedGeneration", 0) >= each["metadata"].get("generation", 1)
        there = status.get("readyReplicas", 0) if is_now else 0
        if there < wanted:
            name = each["metadata"]["name"]
            return Observation(status=Status.RUNNING, message=f"{name}: {there} of {wanted} ready")
    return DONE if workloads else ABSENT


def require_attention(found: Object, operator: str, now_unix_s: float, limit_s: float) -> None:
    """Unattended unless whoever serves the kind has said anything of it, or may still: in half of its time limit.

    Of a limit below the least there is, the limit decides.
    """
    if not found.get("status"):
        require_patience(found, f"{operator} looks at it within seconds", "no status", found, now_unix_s, limit_s)


def require_patience(about: Object, rule: str, got: str, since: Object, now_unix_s: float, limit_s: float) -> None:
    """Unattended if it is too long ago that the object `since` was made: what `rule` says should have come since."""
    least_s, most_s = PICKED_UP_S
    patience_s = max(least_s, min(most_s, limit_s / 2))
    if now_unix_s - made_unix_s(since) <= patience_s:
        return
    raise Unattended(
        where=f"{about['kind']} {about['metadata']['name']}",
        got=f"{got} for more than {patience_s:g} s",
        rule=rule,
        todo="see whether that operator is up and watches this namespace; the experiment goes on by itself",
    )


def judged(application: Object) -> Observation:
    """A SparkApplication. That it completed says nothing of the verdict, which the report reads from its result."""
    state = application.get("status", {}).get("applicationState", {})
    if state.get("state") == "COMPLETED":
        return DONE
    if state.get("state") == SPARK_FAILED:
        words = state.get("errorMessage") or f"Spark's operator says {state['state']} and no more"
        return Observation(status=Status.FAILED, message=short(words))
    return RUNNING


def made_unix_s(found: Object) -> float:
    """When it was made, in seconds since 1970."""
    return datetime.fromisoformat(found["metadata"]["creationTimestamp"]).timestamp()


def short(words: str) -> str:
    return one_line(words)[:MAX_WORDS]


def _programs(status: Object) -> list[Object]:
    """What a pod's status says of each of its containers, those that start before the others first."""
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _is_past_its_start(pod: Object) -> bool:
    states = [each.get("state") or {} for each in (pod.get("status") or {}).get("containerStatuses") or ()]
    ends = [each["terminated"]["exitCode"] for each in states if "terminated" in each]
    return bool(ends) and not any(ends) and all("running" in each or "terminated" in each for each in states)


def _held_up(status: Object) -> str:
    """Why a pod of that status does not start, if it says so."""
    if status.get("phase") in ENDS:
        return ""
    for each in status.get("conditions") or ():
        if each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable":
            return f"Unschedulable: {each.get('message') or 'no words'}"
    for each in _programs(status):
        waits = (each.get("state") or {}).get("waiting") or {}
        if (reason := waits.get("reason", STARTING[0])) not in STARTING:
            return f"{each['name']}: {reason}: {waits.get('message') or 'no words'}"
    return ""


def _disrupted(pod: Object) -> bool:
    """Whether a pod goes, or went, since somebody or Kubernetes wanted it gone: an eviction, a lost node."""
    said = (pod.get("status") or {}).get("conditions") or ()
    disrupted = any((each["type"], each["status"]) == ("DisruptionTarget", "True") for each in said)
    return disrupted or bool(pod["metadata"].get("deletionTimestamp"))


def _podless(job: Object, pods: Sequence[Object]) -> str:
    """A Job is said to have begun when its pod is made: without one, the pod was refused, or is gone."""
    if pods or not job.get("status", {}).get("startTime"):
        return ""
    name = job["metadata"]["name"]
    return f"no pod of Job {name} is there; kubectl describe job {name} says why (a quota, Pod Security)"


def _failed_so_far(pods: Iterable[Object]) -> str:
    """Why a pod of a Job failed that tries again: it may wait for minutes before it does, and fail once more."""
    words = _failure_in(each for each in pods if (each.get("status") or {}).get("phase") == ENDS[1])
    return short(f"a pod failed, and another is to try again: {words}") if words else ""


def _last_words(job: Object, pods: Iterable[Object]) -> str:
    if words := _failure_in(pods):
        return short(words)
    failed = _said(job, "Failed") or {}
    return short(f"{failed.get('reason', 'Failed')}: {failed.get('message', 'no words')}")


def _said(job: Object, condition: str) -> Object | None:
    """The Job's condition of that type, if it is true."""
    found = job.get("status", {}).get("conditions") or ()
    return next((each for each in found if (each["type"], each["status"]) == (condition, "True")), None)


def _failure_in(pods: Iterable[Object]) -> str:
    """Which program failed first, and its last line; of a run's programs the conductor's, if it did."""
    for name, code, words in sorted(_terminated(pods), key=lambda each: each[0] != "conductor"):
        if code != 0:
            last = words.strip().splitlines()
            return f"{name} ended with {code}: {last[-1] if last else 'no words'}"
    return ""


def _terminated(pods: Iterable[Object]) -> list[tuple[str, int, str]]:
    """Name, exit code and last words of each container that has ended."""
    return [
        (each["name"], int(end["exitCode"]), str(end.get("message") or ""))
        for pod in pods
        for each in pod.get("status", {}).get("containerStatuses") or ()
        if (end := each.get("state", {}).get("terminated"))
    ]
