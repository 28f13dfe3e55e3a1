"""A Kafka that Strimzi's operator runs: a chart asks for it, Strimzi says when it is ready, then it leaves it alone."""

from datetime import datetime
from typing import Final

from dedup.experiment.stages import Observation, Status
from dedup_operator import sights
from dedup_operator.clusters import Object
from dedup_operator.provision.helm import Helm
from dedup_operator.sights import ABSENT, DONE, RUNNING, short

NEVER_READY: Final = ("Invalid", "Unsupported")
"""How those reasons begin for which Strimzi will not make a Kafka ready, however often it tries: they are the names of
its exceptions (StatusUtils.buildConditionFromException). Others, such as a time-out, may pass."""
NEVER_AFTER_S: Final = 60.0
"""Before that such a reason may pass, too: Helm makes the nodes after the Kafka, and Strimzi may have come between."""
PAUSED: Final = "ReconciliationPaused"
ANSWERS: Final = "Strimzi's operator says within seconds that it has paused"
PARTS: Final = ("Kafka", "KafkaNodePool", "ConfigMap")
"""What charts/strimzi-kafka makes. Strimzi takes its own away with the Kafka."""
STILL: Final = {"metadata": {"annotations": {"strimzi.io/pause-reconciliation": "true"}}}


class Strimzi(Helm):
    """A release of the chart `strimzi-kafka`, and the Kafka that it asks Strimzi for.

    The Kafka and its pods stay for a while when the release is gone: both are labelled with its name, which is the
    release's. Pods of a Kafka that was taken away belong to one of the same name: none is made beside them.
    """

    def check(self) -> None:
        self._belongings.require(
            "Kafka",
            rule="Strimzi's operator runs the Kafka of the chart strimzi-kafka",
            todo="install it (1.0 or later, which knows kafka.strimzi.io/v1), and let it watch this namespace",
        )

    def _see_remains(self) -> Observation:
        if self._state() is None and self._workloads():
            return Observation(status=Status.RUNNING, message="what is left of an earlier Kafka is still going")
        return ABSENT

    def _see_begun(self) -> Observation:
        if (kafka := self._kafka()) is None:
            return RUNNING
        limit_s = self._context.experiment.spec.timeouts.provision_s
        sights.require_attention(kafka, "Strimzi's operator", self._context.now(), limit_s)
        return seen(kafka, self._context.now())

    def _see_proven(self) -> Observation:
        """No fault strikes before Strimzi has said that it will not repair what the fault breaks."""
        if (kafka := self._kafka()) is not None and keeps_still(kafka):
            return DONE
        asked = self._belongings.own("Job", self._job)  # which was made as soon as Strimzi had been asked
        if kafka is not None and asked is not None:
            limit_s = self._context.experiment.spec.timeouts.provision_s
            sights.require_patience(kafka, ANSWERS, "no pause", asked, self._context.now(), limit_s)
        return Observation(
            status=Status.RUNNING, message="Strimzi's operator has not said that it leaves the Kafka alone"
        )

    def _deploy(self) -> bool:
        super()._deploy()
        if self._see_begun() != DONE:
            return False  # when it is, there is no Job yet, and this is begun again
        self._cluster.patch("Kafka", self._belongings.namespace, self._release, STILL)
        return True

    def _is_in_the_way(self) -> bool:
        return bool(self._workloads())

    def _parts(self) -> tuple[str, ...]:
        """What the cluster does not know any more, it does not have."""
        return PARTS if self._belongings.knows("Kafka") else PARTS[2:]

    def _kinds(self) -> tuple[str, ...]:
        return ("Kafka", "Pod") if self._belongings.knows("Kafka") else ("Pod",)

    def _kafka(self) -> Object | None:
        return self._cluster.get("Kafka", self._belongings.namespace, self._release)


def seen(kafka: Object, now_unix_s: float) -> Observation:
    """A Kafka of Strimzi's. One whose reconciliation is paused was ready before: nobody pauses it earlier."""
    name, status, said = kafka["metadata"]["name"], kafka.get("status") or {}, _said(kafka)
    if failed := said.get("NotReady"):
        reason, words = failed.get("reason") or "no reason", failed.get("message") or "no words"
        since = failed.get("lastTransitionTime")
        lasts = since is None or now_unix_s - datetime.fromisoformat(since).timestamp() > NEVER_AFTER_S
        never = lasts and reason.startswith(NEVER_READY)
        seen = Status.FAILED if never else Status.RUNNING
        return Observation(status=seen, message=short(f"Kafka {name} is not ready: {reason}: {words}"))
    is_now = status.get("observedGeneration") == kafka["metadata"].get("generation", 1)
    if is_now and ("Ready" in said or PAUSED in said):
        return DONE
    return Observation(status=Status.RUNNING, message=f"Kafka {name}: Strimzi's operator has not said that it is ready")


def keeps_still(kafka: Object) -> bool:
    """Whether Strimzi has said that it leaves the Kafka alone, which it was asked for."""
    return PAUSED in _said(kafka)


def _said(kafka: Object) -> dict[str, Object]:
    """The conditions that are true."""
    conditions = (kafka.get("status") or {}).get("conditions") or ()
    return {each["type"]: each for each in conditions if each["status"] == "True"}
