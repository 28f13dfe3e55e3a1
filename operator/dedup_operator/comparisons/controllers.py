"""One look at one comparison: read it, ask the clusters, decide, do it, write where it stands.

It is safe to die anywhere. What is made in another cluster has a name that follows from the comparison, and is made
only where nothing of that name is. A summary is kept before the status says that it is here, and the table before the
status says that there is one; the same again changes nothing. Another cluster that does not answer holds up itself.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

from dedup.errors import DedupError, PlatformError, SpecificationError, one_line
from dedup.experiment.comparisons import Compared, parse
from dedup.experiment.comparisons import Comparison as Asked
from dedup.judgement.abridgements import Sealed
from dedup_operator.clusters import Cluster, ClusterError, Conflict, NotHolder, Object, Refused, Unreachable
from dedup_operator.comparison_statuses import ClusterStatus, ComparisonStatus, Step
from dedup_operator.comparison_statuses import read as read_status
from dedup_operator.comparisons import reports
from dedup_operator.comparisons.decisions import MADE_BY, Answer, Plan, Seen, decide, to_ask
from dedup_operator.comparisons.kubeconfigs import way_in
from dedup_operator.comparisons.remotes import Connect
from dedup_operator.fences import FencedCluster, Held
from dedup_operator.objects.credentials import Named, unusable
from dedup_operator.objects.snapshots import document_of

FINALIZER: Final = "dedup.dev/remote-experiments"
KEY: Final = "kubeconfig"
AT_ONCE_S: Final = 0.0
LOOK_AGAIN_S: Final = 20.0
MAX_ANSWER: Final = 380
Key = tuple[str, str]
log = logging.getLogger("dedup_operator")


class Place(NamedTuple):
    """Where a cluster's experiment is."""

    cluster: Cluster
    namespace: str


class Comparer:
    """The controller. `remote` leads to another cluster; what it writes there is fenced as all else is."""

    def __init__(
        self, cluster: Cluster, remote: Connect, now: Callable[[], float] = time.time, held: Held = lambda: True
    ) -> None:
        self.cluster, self._remote, self._now, self._held = cluster, remote, now, held

    def look(self, key: Key) -> float | None:
        """Take a step. Seconds after which to look again, or None when nothing is left to do.

        ClusterError if its own cluster does not do what is asked. That it refuses it for good (a right is missing, a
        quota is full) is told in the status, since people can mend that; of one that is being deleted it is not.
        """
        live = self.cluster.get("DedupComparison", *key)
        if live is None:
            return None
        try:
            before = read_status(live)
        except PlatformError as error:
            log.warning("%s/%s: %s", *key, error)
            if live["metadata"].get("deletionTimestamp"):
                self._release(live, ("all",))
            return None
        try:
            asked = parse(document_of(live), source="DedupComparison")
            if before.digest not in (None, asked.digest()):
                raise SpecificationError(
                    where="spec",
                    got="another one than it was begun with",
                    rule="a comparison asks once",
                    todo="make another comparison, or put the spec back",
                )
            return self._step(live, before, asked)
        except DedupError as error:
            return self._cannot(live, before, str(error))
        except Refused as error:
            if live["metadata"].get("deletionTimestamp"):
                raise
            return self._cannot(live, before, str(error))

    def _cannot(self, live: Object, before: ComparisonStatus, why: str) -> float | None:
        """What people have to correct. A deletion is not held up by it: which clusters were meant is not known."""
        if live["metadata"].get("deletionTimestamp"):
            self._release(live, ("all",))
            return None
        if before.outcome is not None:  # an end stands, whatever became of the spec or of the table
            self._note(live, before)
            return None
        self._put(live, before, reports.stalled(before, live["metadata"]["generation"], why, self._today()))
        return LOOK_AGAIN_S

    def _step(self, live: Object, before: ComparisonStatus, asked: Asked) -> float | None:
        meta = live["metadata"]
        kept = {} if meta.get("deletionTimestamp") else self._kept(meta)
        seen = Seen(
            asked=asked,
            uid=str(meta["uid"]),
            before=before,
            answers={},
            kept=kept,
            created_unix_s=_unix_s(meta["creationTimestamp"]),
            now_unix_s=self._now(),
            held=FINALIZER in (meta.get("finalizers") or ()),
            deleted_unix_s=_unix_s(meta["deletionTimestamp"]) if meta.get("deletionTimestamp") else None,
        )
        places: dict[str, Place] = {}
        may_write = seen.held or all(each.kube_config is None for each in asked.spec.clusters)
        asking = to_ask(seen) if may_write else []
        answers = {each.name: self._ask(meta, asked, each, places) for each in asking}
        plan = decide(seen._replace(answers=answers))
        return self._do(live, seen, plan, places)

    def _do(self, live: Object, seen: Seen, plan: Plan, places: Mapping[str, Place]) -> float | None:
        meta = live["metadata"]
        if seen.deleted_unix_s is not None:
            for name in plan.remove:
                with suppress(Conflict, Unreachable, Refused):
                    place = places[name]
                    place.cluster.delete("DedupExperiment", place.namespace, _name(seen, name))
            if plan.release:
                self._release(live, plan.left)
            return None if plan.release or not seen.held else LOOK_AGAIN_S
        if plan.hold:
            finalizers = [*(meta.get("finalizers") or ()), FINALIZER]
            change = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": finalizers}}
            self.cluster.patch("DedupComparison", meta["namespace"], meta["name"], change)
            return AT_ONCE_S
        if plan.keep:
            self._write_home(meta, reports.packed(plan.keep))
        wrongs = {name: wrong for name in plan.create if (wrong := self._create(meta, seen, name, places[name]))}
        plan = plan._replace(clusters=tuple(_with(each, wrongs.get(each.name)) for each in plan.clusters))
        if seen.before.outcome is not None:
            self._note(live, seen.before)
            return None
        if plan.table:
            self._write_home(meta, reports.table(plan.table))
        status = reports.status_of(
            plan,
            seen.before,
            generation=meta["generation"],
            digest=seen.asked.digest(),
            table=reports.home_name(meta["name"]),
            kept={**seen.kept, **plan.keep},
            now=self._today(),
        )
        self._put(live, seen.before, status)
        if plan.outcome is not None:
            return None
        return AT_ONCE_S if plan.create and not wrongs else LOOK_AGAIN_S

    def _ask(self, meta: Object, asked: Asked, compared: Compared, places: dict[str, Place]) -> Answer:
        """The experiment in that cluster. What is wrong with the way there is an answer, too."""
        try:
            place = places[compared.name] = self._place(meta, compared)
            name = asked.experiment(str(meta["uid"]), compared.name).name
            return Answer(live=place.cluster.get("DedupExperiment", place.namespace, name))
        except SpecificationError as error:
            return Answer(refused=str(error))
        except NotHolder:
            raise
        except ClusterError as error:
            if compared.kube_config is None and not isinstance(error, Refused):
                raise
            if compared.name in places:
                return _said(error)
            assert compared.kube_config is not None
            secret = compared.kube_config.secret_ref.name
            return _said(error, f"not asked, since the hub itself did not give its Secret {secret}: ")

    def _place(self, meta: Object, compared: Compared) -> Place:
        if compared.kube_config is None:
            return Place(self.cluster, meta["namespace"])
        where, name = f"cluster {compared.name}: kubeConfig", compared.kube_config.secret_ref.name
        secret = self.cluster.get("Secret", meta["namespace"], name)
        if wrong := unusable(secret, Named(where, name, (KEY,))):
            got, rule, todo = wrong
            raise SpecificationError(where=where, got=f"Secret {name}, {got}", rule=rule, todo=todo)
        assert secret is not None
        way = way_in(reports.decoded(secret["data"][KEY]), f"{where}: Secret {name}")
        return Place(FencedCluster(self._remote(way), self._held), way.namespace or meta["namespace"])

    def _create(self, meta: Object, seen: Seen, name: str, place: Place) -> Answer | None:
        """Make its experiment there; what the cluster says if it does not."""
        experiment = seen.asked.experiment(seen.uid, name)
        made = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
        made["metadata"] = {
            "name": experiment.name,
            "namespace": place.namespace,
            "annotations": {MADE_BY: seen.uid, "dedup.dev/comparison": f"{meta['namespace']}/{meta['name']}"},
        }
        if place.cluster is self.cluster:
            made["metadata"]["ownerReferences"] = [reports.reference(meta["name"], seen.uid)]
        try:
            place.cluster.create(made)
            return None
        except NotHolder:
            raise
        except ClusterError as error:
            return _said(error)

    def _kept(self, meta: Object) -> dict[str, Sealed]:
        home = self.cluster.get("ConfigMap", meta["namespace"], reports.home_name(meta["name"]))
        if home is None:
            return {}
        if not any(each["uid"] == meta["uid"] for each in home["metadata"].get("ownerReferences") or ()):
            raise PlatformError(
                where=f"ConfigMap {home['metadata']['name']}",
                got="one that does not belong to this comparison",
                rule="what is compared is kept there",
                todo="delete it, or give the comparison another name",
            )
        return reports.unpacked(home.get("data") or {})

    def _write_home(self, meta: Object, data: Mapping[str, str]) -> None:
        made = reports.home(meta["namespace"], meta["name"], meta["uid"], data)
        if not self.cluster.create(made):
            self.cluster.patch("ConfigMap", meta["namespace"], made["metadata"]["name"], {"data": dict(data)})

    def _release(self, live: Object, left: tuple[str, ...]) -> None:
        """Let Kubernetes delete the comparison. The Event comes first: afterwards there is nothing to tell it of.

        So it is written again if it was not (ClusterError), unless the API server will not have it.
        """
        meta = live["metadata"]
        if left:
            words = f"its experiments may still be in: {', '.join(left)}; delete them there"
            log.warning("%s/%s: deleted; %s", meta["namespace"], meta["name"], words)
            with suppress(Refused):
                self.cluster.create(reports.event(meta, "LeftBehind", words, self._today()))
        finalizers = [each for each in meta.get("finalizers") or () if each != FINALIZER]
        change = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": finalizers}}
        self.cluster.patch("DedupComparison", meta["namespace"], meta["name"], change)

    def _note(self, live: Object, before: ComparisonStatus) -> None:
        """An end stands; tools are told that it is about the resource as it is now."""
        generation = live["metadata"]["generation"]
        conditions = [each.model_copy(update={"observed_generation": generation}) for each in before.conditions]
        after = before.model_copy(update={"observed_generation": generation, "conditions": conditions})
        self._put(live, before, after)

    def _put(self, live: Object, before: ComparisonStatus, status: ComparisonStatus) -> None:
        if status != before:
            written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
            self.cluster.replace_status({**live, "status": written})

    def _today(self) -> datetime:
        return datetime.fromtimestamp(self._now(), UTC)


def _with(status: ClusterStatus, wrong: Answer | None) -> ClusterStatus:
    if wrong is None:
        return status
    step = Step.UNREACHABLE if wrong.silent else Step.REFUSED
    return status.model_copy(update={"step": step, "message": wrong.silent or wrong.refused})


def _said(error: ClusterError, before: str = "") -> Answer:
    words = one_line(f"{before}{error}")[:MAX_ANSWER]
    return Answer(refused=words) if isinstance(error, Refused) else Answer(silent=words)


def _name(seen: Seen, cluster: str) -> str:
    return seen.asked.experiment(seen.uid, cluster).name


def _unix_s(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
