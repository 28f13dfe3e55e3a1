"""Events in, keys out: kopf watches, a few workers look.

Whatever happens to an experiment, or to an object that carries its label, puts the experiment's key into the queue, and
that is all a handler does: none waits, none decides, none writes. kopf keeps the watches alive over every interruption
and lists everything anew when it has to, so no event is needed for correctness; each only makes things go on sooner.

There is no finalizer and no handler of deletions. Kubernetes takes away what belongs to an experiment, with this
operator or without it.
"""

import logging
import threading
from collections.abc import Sequence
from typing import Any, Final

import kopf

from dedup_operator.clusters import Conflict, Unreachable
from dedup_operator.queues import WorkQueue
from dedup_operator.reconciliations import AT_ONCE_S, Key, Reconciler

LABEL: Final = "dedup.dev/experiment"
CHILDREN: Final = (
    ("batch", "v1", "jobs"),
    ("apps", "v1", "statefulsets"),
    ("sparkoperator.k8s.io", "v1beta2", "sparkapplications"),
)
log = logging.getLogger("dedup_operator")


def registry(queue: WorkQueue[Key]) -> kopf.OperatorRegistry:
    """The handlers."""
    made = kopf.OperatorRegistry()

    async def seen(namespace: str | None, name: str | None, **_: Any) -> None:
        queue.add((str(namespace), str(name)))

    async def child_seen(namespace: str | None, labels: Any, **_: Any) -> None:
        queue.add((str(namespace), str(labels[LABEL])))

    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.peering.standalone = True
        # Whatever kinds there are is asked once. A namespaced operator has no right to watch definitions.
        settings.scanning.disabled = True
        settings.watching.server_timeout = 300

    kopf.on.startup(registry=made)(configure)
    kopf.on.event("dedup.dev", "v1alpha1", "dedupexperiments", registry=made)(seen)
    for group, version, plural in CHILDREN:
        kopf.on.event(group, version, plural, labels={LABEL: kopf.PRESENT}, registry=made)(child_seen)
    return made


def work(queue: WorkQueue[Key], reconciler: Reconciler) -> None:
    """Look at one key after the other until the queue is closed. What goes wrong with one is of no harm to others."""
    while (key := queue.get()) is not None:
        failed = False
        try:
            again_s = reconciler.look(key)
            if again_s is not None:
                queue.add(key, again_s)
        except Conflict:
            queue.add(key, AT_ONCE_S)
        except Unreachable as error:
            log.warning("%s/%s: %s; it is asked again", *key, error)
            failed = True
        except Exception:
            log.exception("%s/%s: a step crashed; it is tried again", *key)
            failed = True
        queue.done(key, failed=failed)


def serve(reconciler: Reconciler, *, workers: int, namespaces: Sequence[str], liveness: str | None) -> None:
    """Watch and work until a signal ends it. Without namespaces: everywhere."""
    queue = WorkQueue[Key]()
    threads = [
        threading.Thread(target=work, args=(queue, reconciler), name=f"worker-{number}", daemon=True)
        for number in range(workers)
    ]
    for thread in threads:
        thread.start()
    try:
        kopf.run(
            registry=registry(queue),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=list(namespaces),
            liveness_endpoint=liveness,
        )
    finally:
        queue.close()
