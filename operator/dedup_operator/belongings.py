"""The objects of one execution: each has a name that follows from whose it is, so what is made twice exists once.

An object of such a name that does not belong to the experiment is never taken for ours.
"""

from dedup.errors import PlatformError
from dedup.experiment.stages import Observation, Status
from dedup_operator import sights
from dedup_operator.clusters import Cluster, Object, UnknownKind
from dedup_operator.objects.names import Owner, name_of


class Foreign(PlatformError):
    """An object has the name of one of ours, or says that it is ours, and is not: nothing goes on until it is gone."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(
            where=f"{kind} {name}",
            got="one that does not belong to this experiment",
            rule="what carries the name of an experiment's part is its own",
            todo="find out who made it, and delete it",
        )


class Belongings:
    """What an execution has in its namespace. Nothing is remembered: each question is a request."""

    def __init__(self, cluster: Cluster, owner: Owner) -> None:
        self.cluster, self.owner, self.namespace = cluster, owner, owner.namespace

    def ours(self, kind: str, name: str) -> Object | None:
        """The object of that name if it is ours, and not about to go."""
        found = self.cluster.get(kind, self.namespace, name)
        return found if found and self.owns(found) and not found["metadata"].get("deletionTimestamp") else None

    def own(self, kind: str, name: str) -> Object | None:
        """The object of that name, Foreign if it is not ours; None if there is none, or it is about to go."""
        found = self.cluster.get(kind, self.namespace, name)
        if found is not None and not self.owns(found):
            raise Foreign(kind, name)
        return found if found is None or not found["metadata"].get("deletionTimestamp") else None

    def make(self, *objects: Object) -> None:
        """Create objects. One that is there already must be ours."""
        for made in objects:
            if not self.cluster.create(made):
                self.own(made["kind"], made["metadata"]["name"])

    def end(self, kind: str, name: str) -> None:
        """Delete a Job or a SparkApplication that still runs; what has ended stays, for its log.

        Foreign if it is not ours: it may be, and have lost its owner, and then it would go on beside what comes next.
        """
        found = self.own(kind, name)
        if found is None or (kind == "Job" and sights.ended(found)):
            return
        if kind == "Job" or sights.judged(found).status is Status.RUNNING:
            self.cluster.delete(kind, self.namespace, name)

    def forget(self, kind: str, name: str) -> None:
        """Delete the object of that name if it is ours, so that another can be made."""
        if self.ours(kind, name) is not None:
            self.cluster.delete(kind, self.namespace, name)

    def pods(self, job: Object) -> list[Object]:
        """The pods that the Job has made: anybody who may create pods can give his own the Job's label."""
        meta = job["metadata"]
        found = self.cluster.list("Pod", self.namespace, f"batch.kubernetes.io/job-name={meta['name']}")
        return [
            pod
            for pod in found
            if any(each["uid"] == meta["uid"] for each in pod["metadata"].get("ownerReferences") or ())
        ]

    def may_have_made(self, pod: Object) -> bool:
        """Whether a Job of ours made it, or one that is gone: anybody can give a pod of his own our labels."""
        for each in pod["metadata"].get("ownerReferences") or ():
            if each["kind"] == "Job":
                job = self.cluster.get("Job", self.namespace, each["name"])
                if job is None or job["metadata"]["uid"] != each["uid"] or self.owns(job):
                    return True
        return False

    def see_job(self, job: Object) -> Observation:
        """How a Job is doing, in the words of its pods."""
        return sights.seen(job, self.pods(job))

    def require(self, kind: str, rule: str, todo: str) -> None:
        """PlatformError if the cluster does not know this kind."""
        if not self.knows(kind):
            raise PlatformError(where=kind, got="a cluster that does not know this kind", rule=rule, todo=todo)

    def knows(self, kind: str) -> bool:
        """Whether the cluster has objects of this kind at all."""
        try:
            self.cluster.get(kind, self.namespace, name_of(self.owner, "whether the kind is known"))
        except UnknownKind:
            return False
        return True

    def owns(self, found: Object) -> bool:
        """Whether it says that it belongs to this experiment, whichever execution made it."""
        return any(each["uid"] == self.owner.uid for each in found["metadata"].get("ownerReferences") or ())
