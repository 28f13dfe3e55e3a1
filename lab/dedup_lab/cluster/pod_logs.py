"""`dedup logs`: what the programs of a run say, in the cluster: each line after its pod and container.

A run is one pod (its clients, its faults, and who carries the history away), so who asks for its logs wants all of
them side by side. Without `--follow` they come one container after the other; with it as they are said, until every
container has ended.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from dedup.errors import DedupError, SpecificationError, shown
from dedup_lab.cluster.access import PODS, Answered, Cluster, Object, experiment_of, pods_of, refused

RUN: Final = "dedup.dev/run"
ATTEMPT: Final = "dedup.dev/attempt"
START_S: Final = 600.0
"""How long a container may take to start before its log is given up."""
ASK_AGAIN_S: Final = 1.0
TAB: Final = 8
NOT_STARTED: Final = 400
"""The HTTP status with which the API server says that a container is still waiting to start."""


class Source(NamedTuple):
    """One container of one pod."""

    pod: str
    container: str

    def __str__(self) -> str:
        return f"{self.pod}/{self.container}"


Said = tuple[Source, str | DedupError]
"""A line of a container, or why it cannot be had."""


def logs(
    cluster: Cluster,
    name: str,
    *,
    run: str | None,
    follow: bool,
    write: Callable[[str], None],
    warn: Callable[[str], None],
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Write the log of every container of the run: the one named, or the current or last one.

    What cannot be had (a container that has not started) is a warning. `wait` passes time.
    """
    experiment_of(cluster, name)
    found = pods_of(cluster, experiment=name, component="run")
    sources = [source for pod in chosen(found, name, run) for source in containers(pod)]
    for source, said in _followed(cluster, sources, wait) if follow else _told(cluster, sources):
        if isinstance(said, DedupError):
            warn(f"{source}: {said}")
        else:
            write(f"{source} {shown(said.expandtabs(TAB))}")


def chosen(pods: Sequence[Object], name: str, run: str | None) -> list[Object]:
    """The pods of a run's newest attempt; without a `run`, of the newest attempt of all."""
    runs = [pod for pod in pods if run is None or _run_of(pod) == run]
    if not runs:
        known = sorted({_run_of(pod) for pod in pods})
        raise SpecificationError(
            where="--run" if run else f"DedupExperiment {name}",
            got=run or "no pod of a run",
            rule=f"pods are there of: {', '.join(known)}" if known else "a run's pod comes when its system is ready",
            todo="name one of them" if known else "see how far it is: dedup results NAME; older runs: --histories",
        )
    newest = max(runs, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
    which = (_run_of(newest), newest["metadata"]["labels"].get(ATTEMPT))
    return [pod for pod in runs if (_run_of(pod), pod["metadata"]["labels"].get(ATTEMPT)) == which]


def containers(pod: Object) -> list[Source]:
    """Those of a pod, in the order in which they start."""
    spec = pod["spec"]
    return [
        Source(pod["metadata"]["name"], each["name"]) for each in [*spec.get("initContainers", ()), *spec["containers"]]
    ]


def _run_of(pod: Object) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(RUN, ""))


def _told(cluster: Cluster, sources: Sequence[Source]) -> Iterator[Said]:
    for source in sources:
        yield from _read(cluster, source, {"container": source.container}, 0, time.sleep)


def _read(
    cluster: Cluster, source: Source, query: Mapping[str, str], start_s: float, wait: Callable[[float], None]
) -> Iterator[Said]:
    """What a container says, or why that cannot be had. It may take `start_s` to start."""
    while True:
        try:
            for line in cluster.lines(f"{PODS.format(cluster.namespace)}/{source.pod}/log", **query):
                yield source, line
            return
        except Answered as answer:
            if answer.status != NOT_STARTED or start_s <= 0:
                yield source, refused(answer, f"its log in {cluster.namespace}", "pods/log")
                return
        except DedupError as error:
            yield source, error
            return
        start_s -= ASK_AGAIN_S
        wait(ASK_AGAIN_S)


def _followed(cluster: Cluster, sources: Sequence[Source], wait: Callable[[float], None]) -> Iterator[Said]:
    """All at once, a thread each, which end with the process."""
    said: queue.SimpleQueue[Said | None] = queue.SimpleQueue()

    def follow(source: Source) -> None:
        query = {"container": source.container, "follow": "true"}
        try:
            for each in _read(cluster, source, query, START_S, wait):
                said.put(each)
        finally:
            said.put(None)

    for source in sources:
        threading.Thread(target=follow, args=(source,), daemon=True).start()
    left = len(sources)
    while left:
        each = said.get()
        if each is None:
            left -= 1
        else:
            yield each
