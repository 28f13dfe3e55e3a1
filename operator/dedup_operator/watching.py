"""Events in, keys out: kopf watches, a few workers look.

Whatever happens to an experiment, or to an object that carries its label, puts the experiment's key into the queue, and
that is all a handler does: none waits, none decides, none writes. kopf keeps the watches alive over every interruption
and lists everything anew when it has to, so no event is needed for correctness; each only makes things go on sooner.

There is no finalizer and no handler of deletions. Kubernetes takes away what belongs to an experiment, with this
operator or without it.
"""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import kopf

from dedup_operator.clusters import Conflict, Unreachable
from dedup_operator.crd import GROUP, PLURAL, VERSION
from dedup_operator.metrics import Metrics, served
from dedup_operator.queues import WorkQueue
from dedup_operator.reconciliations import Key, Reconciler

LABEL: Final = f"{GROUP}/experiment"
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

    def login(**which: Any) -> Any:
        return kopf.login_with_service_account(**which) or kopf.login_with_kubeconfig(**which)

    kopf.on.startup(registry=made)(configure)
    kopf.on.login(registry=made)(login)
    kopf.on.event(GROUP, VERSION, PLURAL, registry=made)(seen)
    for group, version, plural in CHILDREN:
        kopf.on.event(group, version, plural, labels={LABEL: kopf.PRESENT}, registry=made)(child_seen)
    return made


def work(queue: WorkQueue[Key], reconciler: Reconciler, metrics: Metrics) -> None:
    """Look at one key after the other until the queue is closed. What goes wrong with one is of no harm to others."""
    while (key := queue.get()) is not None:
        failed, began = True, time.monotonic()
        try:
            again_s = reconciler.look(key)
            failed = False
            if again_s is not None:
                queue.add(key, again_s)
        except Conflict:
            metrics.add("conflicts_total")
        except Unreachable as error:
            metrics.add("api_errors_total")
            log.warning("%s/%s: %s; it is asked again", *key, error)
        except Exception:
            metrics.add("crashes_total")
            log.exception("%s/%s: a step crashed; it is tried again", *key)
        metrics.add("looks_total")
        metrics.add("look_seconds_total", time.monotonic() - began)
        queue.done(key, failed=failed)


def serve(reconciler: Reconciler, *, workers: int, namespaces: Sequence[str], port: int) -> None:
    """Watch and work until a signal ends it. Without namespaces: everywhere."""
    queue, metrics = WorkQueue[Key](), Metrics()
    threads = [
        threading.Thread(target=work, args=(queue, reconciler, metrics), name=f"worker-{number}", daemon=True)
        for number in range(workers)
    ]
    for thread in threads:
        thread.start()
    server = served(port, lambda: metrics.text(len(queue)), lambda: all(thread.is_alive() for thread in threads))
    try:
        kopf.run(registry=registry(queue), standalone=True, clusterwide=not namespaces, namespaces=list(namespaces))
    finally:
        queue.close()
        server.shutdown()
