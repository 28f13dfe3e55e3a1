"""Events in, keys out: kopf watches, a few workers look.

Whatever happens to an experiment, or to an object that carries its label, puts the experiment's key into the queue, and
that is all a handler does: none waits, none decides, none writes. kopf keeps the watches alive over every interruption
and lists everything anew when it has to, so no event is needed for correctness; each only makes things go on sooner.

kopf asks once which kinds there are, and watches those. So it is asked now and then whether one has come since, such as
DedupExperiment itself where the operator was installed before its definition; then kopf begins anew. Until experiments
are watched the operator is not ready.

An operator that does not hold its lease watches like any other and looks at nothing. The keys wait in the queue, each
once; so when it gains the lease, it looks at whatever changed while it was not its own to look at.

Kubernetes takes away what belongs to an experiment, with this operator or without it. Only what is made on a system
that was there before belongs to nobody; where it is to be removed, a finalizer waits for that (`departures`). One thing
may not belong to it yet when it is deleted, Helm's record of an installation that was cut short: an operator looks for
that when it begins, after every deletion, and now and then.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import kopf

# kopf takes one (`kopf.run(insights=…)`) and fills it in, and has no public name for what it takes.
from kopf._cogs.structs.references import Insights

from dedup_operator import clocks
from dedup_operator.admissions import Key, Stand
from dedup_operator.clusters import (
    Cluster,
    ClusterError,
    Conflict,
    Forbidden,
    NotHolder,
    Refused,
    UnknownKind,
    Unreachable,
)
from dedup_operator.leases import Holding
from dedup_operator.metrics import Metrics, served
from dedup_operator.objects.names import LABEL
from dedup_operator.queues import WorkQueue
from dedup_operator.reconciliations import REMAINS, Reconciler
from dedup_operator.schema import comparison_crd
from dedup_operator.schema.crd import GROUP, KIND, PLURAL, VERSION

CHILDREN: Final = (
    ("batch", "v1", "jobs"),
    ("apps", "v1", "statefulsets"),
    ("sparkoperator.k8s.io", "v1beta2", "sparkapplications"),
)
COMING: Final = {KIND: PLURAL, "SparkApplication": "sparkapplications"}
"""Kinds that somebody may install later than this operator, and what kopf calls them."""
COMPARISON_WORKERS: Final = 2
LEAVE_S: Final = 12.0
"""For whatever is under way when it ends: a request takes 10 s at most."""
ASK_S: Final = 60.0
"""How often it is asked which namespaces may be read. kopf's watches of one that may not go on for five minutes."""
ASK_SOON_S: Final = 5.0
"""The same while experiments are not watched."""
log = logging.getLogger("dedup_operator")


Noticed = Callable[[Any, bool], Iterable[Key]]
"""Told of an experiment, and of whether it is gone: whom else to look at."""


class _NoDifferences(kopf.AnnotationsDiffBaseStorage):
    """kopf's memory of what an object was: no handler here asks how it changed, so of every object it is nothing.

    To work it out, or to look for it in the object, would cost as much as all that is done about an event.
    """

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> Any:
        return {}


class Looks(Protocol):
    """What has one verb: to take a step with what has that key."""

    def look(self, key: Key) -> float | None: ...


def registry(
    queue: WorkQueue[Key],
    noticed: Noticed = lambda _live, _gone: (),
    comparisons: WorkQueue[Key] | None = None,
) -> kopf.OperatorRegistry:
    """The handlers; those of comparisons, if there is a queue for them."""
    made = kopf.OperatorRegistry()

    async def seen(namespace: str | None, name: str | None, event: Any, **_: Any) -> None:
        live, gone = event["object"], event["type"] == "DELETED"
        queue.add(REMAINS if gone else (str(namespace), str(name)), new=not live.get("status"))
        for key in noticed(live, gone):
            queue.add(key)

    async def child_seen(namespace: str | None, labels: Any, **_: Any) -> None:
        queue.add((str(namespace), str(labels[LABEL])))

    async def comparison_seen(namespace: str | None, name: str | None, **_: Any) -> None:
        assert comparisons is not None
        comparisons.add((str(namespace), str(name)))

    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        queue.add(REMAINS)  # of operators before this one
        settings.posting.enabled = False
        settings.peering.standalone = True
        # Whatever kinds there are is asked once. A namespaced operator has no right to watch definitions.
        settings.scanning.disabled = True
        settings.watching.server_timeout = 300
        settings.persistence.diffbase_storage = _NoDifferences()
        for child in CHILDREN:  # of others' objects the API server tells nothing
            settings.watching.label_selectors[child] = LABEL

    def login(**which: Any) -> Any:
        return kopf.login_with_service_account(**which) or kopf.login_with_kubeconfig(**which)

    kopf.on.startup(registry=made)(configure)
    kopf.on.login(registry=made)(login)
    kopf.on.event(GROUP, VERSION, PLURAL, registry=made)(seen)
    if comparisons is not None:
        kopf.on.event(GROUP, VERSION, comparison_crd.PLURAL, registry=made)(comparison_seen)
    for group, version, plural in CHILDREN:
        kopf.on.event(group, version, plural, labels={LABEL: kopf.PRESENT}, registry=made)(child_seen)
    return made


def work(queue: WorkQueue[Key], reconciler: Looks, metrics: Metrics, lease: Holding) -> None:
    """Look at one key after the other, while the lease is held, until all is closed.

    What goes wrong with one is of no harm to others. A look that the end of the lease cut short is taken up again.
    """
    while lease.awaited() and (key := queue.get()) is not None:
        failed, began = True, time.monotonic()
        try:
            if not lease.held():
                raise NotHolder("the lease ended while it waited for a key")
            again_s = reconciler.look(key)
            failed = False
            if again_s is not None:
                queue.add(key, again_s)
        except NotHolder:
            failed = False
            queue.add(key)
            metrics.add("fenced_total")
        except Conflict:
            metrics.add("conflicts_total")
        except Unreachable as error:
            metrics.add("api_errors_total")
            log.warning("%s/%s: %s; it is asked again", *key, error)
        except Refused as error:
            metrics.add("api_errors_total")
            log.warning("%s/%s: refused: %s; it is tried again", *key, error)
        except Exception:
            metrics.add("crashes_total")
            log.exception("%s/%s: a step crashed; it is tried again", *key)
        metrics.add("look_seconds", time.monotonic() - began)
        queue.done(key, failed=failed)


class Watched:
    """The kinds that are watched now, as kopf tells it."""

    def __init__(self, coming: Mapping[str, str] = COMING) -> None:
        self._insights, self._coming = Insights(), coming

    def anew(self) -> Insights:
        """For kopf to fill in: from here on nothing is watched, until it says so."""
        self._insights = Insights()
        return self._insights

    def experiments(self) -> bool:
        """Whether experiments are watched, without which the operator does nothing."""
        return PLURAL in self._plurals()

    def lacks(self, cluster: Cluster, namespace: str) -> bool:
        """Whether a kind is not watched though the cluster knows it: it came when kopf had looked which there are."""
        if not self._insights.ready_resources.is_set():
            return False
        watched = self._plurals()
        return any(plural not in watched and _knows(cluster, kind, namespace) for kind, plural in self._coming.items())

    def _plurals(self) -> set[str]:
        return {each.plural for each in frozenset(self._insights.watched_resources)}


def _knows(cluster: Cluster, kind: str, namespace: str) -> bool:
    """What may not be listed could not be watched either."""
    try:
        cluster.list(kind, namespace, "", most=1)
    except (UnknownKind, Forbidden):
        return False
    return True


def serve(
    reconciler: Reconciler,
    lease: Holding,
    *,
    workers: int,
    namespaces: Sequence[str],
    port: int,
    comparer: Looks | None = None,
) -> None:
    """Watch and work until a signal ends it. Without namespaces: everywhere.

    Comparisons have workers of their own: another cluster that is slow to answer holds up no experiment.
    """
    queue, comparisons, metrics = WorkQueue[Key](), WorkQueue[Key](), reconciler.metrics
    jobs: list[tuple[WorkQueue[Key], Looks]] = [(queue, reconciler)] * workers
    if comparer is not None:
        jobs += [(comparisons, comparer)] * COMPARISON_WORKERS
    threads = [
        threading.Thread(target=work, args=(keys, looks, metrics, lease), name=f"worker-{number}", daemon=True)
        for number, (keys, looks) in enumerate(jobs)
    ]
    threads.append(threading.Thread(target=lease.run, name="lease", daemon=True))
    for thread in threads:
        thread.start()

    def text() -> str:
        begun, waiting = (reconciler.queue.count(stand) for stand in (Stand.BEGUN, Stand.WAITS))
        gauges = {"lease_held": lease.held(), "experiments_begun": begun, "experiments_waiting": waiting}
        return metrics.text({"queue_length": len(queue), **gauges})

    watched = Watched(COMING if comparer is None else {**COMING, comparison_crd.KIND: comparison_crd.PLURAL})
    server = served(port, text, lambda: all(thread.is_alive() for thread in threads), watched.experiments)
    mine = comparisons if comparer is not None else None
    handlers = registry(queue, lambda live, gone: reconciler.queue.noticed(live, gone=gone), mine)
    try:
        watch(handlers, reconciler.cluster, namespaces, watched)
    finally:
        comparisons.close()
        leave(queue, lease, threads)
        server.shutdown()


def watch(handlers: kopf.OperatorRegistry, cluster: Cluster, namespaces: Sequence[str], watched: Watched) -> None:
    """kopf's watches, until a signal ends them.

    kopf ends when it may not read one of several namespaces, such as one that was deleted: our role in it went with it.
    So those are left out, and watched when they may be read again. If none may, kopf's error ends the program.
    """
    while True:
        try:
            there = readable(cluster, namespaces)
        except ClusterError:
            there = list(namespaces)
        if away := [each for each in namespaces if each not in there]:
            log.warning("not watched, since they may not be read (deleted, or no role of ours): %s", ", ".join(away))
        insights = watched.anew()
        with _asking(cluster, namespaces, there, watched) as others:
            kopf.run(
                registry=handlers, standalone=True, clusterwide=not namespaces, namespaces=there, insights=insights
            )
        if not others.is_set():
            return


def readable(cluster: Cluster, namespaces: Sequence[str]) -> list[str]:
    """Those in which experiments may be listed; all, if they may in none. Nothing is known if one is not answered."""

    def may(namespace: str) -> bool:
        try:
            cluster.list("DedupExperiment", namespace, "", most=1)
        except Forbidden:
            return False
        return True

    return [each for each in namespaces if may(each)] or list(namespaces)


@contextmanager
def _asking(
    cluster: Cluster, namespaces: Sequence[str], there: Sequence[str], watched: Watched
) -> Iterator[threading.Event]:
    """Meanwhile it is asked now and then whether there is something else to watch than kopf watches.

    That is another namespace than those `there`, or a kind that has come. If so that is told, and kopf ended.

    kopf would find out too, by an error in one of its watches, and then need a minute to end the others.
    """
    over, others = threading.Event(), threading.Event()

    def ask() -> None:
        while not over.wait(ASK_S if watched.experiments() else ASK_SOON_S) and not others.is_set():
            with suppress(ClusterError):
                differs = readable(cluster, namespaces) != there or watched.lacks(cluster, there[0] if there else "")
                if differs and not over.is_set():  # else kopf has ended meanwhile, and the signal would end the program
                    others.set()
                    _end_kopf()

    asker = threading.Thread(target=ask, name="namespaces", daemon=True)
    asker.start()
    try:
        yield others
    finally:
        over.set()


def _end_kopf() -> None:
    """As from outside: for a flag of ours kopf would wait in a thread, which never ends when a signal comes instead."""
    os.kill(os.getpid(), signal.SIGTERM)


def leave(
    queue: WorkQueue[Key], lease: Holding, threads: Sequence[threading.Thread], within_s: float = LEAVE_S
) -> None:
    """End in order. The lease is given back only when all threads have ended; else whoever waits waits for its end."""
    lease.close()
    queue.close()
    deadline_s = clocks.elapsed() + within_s
    for thread in threads:
        thread.join(max(0.0, deadline_s - clocks.elapsed()))
    if any(thread.is_alive() for thread in threads):
        log.warning("somebody is still at work after %g s: the lease is not given back", within_s)
        return
    try:
        lease.release()
    except ClusterError as error:
        log.warning("the lease was not given back: %s", error)
