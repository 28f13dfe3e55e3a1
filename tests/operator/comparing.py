"""A hub and two other clusters, all stores of objects, for tests of comparisons; and ways to break a request.

Experiments are carried out by a script: `finish` writes the status that an operator would, with the sealed summary of a
result that is made by hand.
"""

import base64
import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from testbed.worlds import FIRST_S, FakeCluster
from tests.core.comparing import kafka, summary

from dedup.experiment.comparisons import Comparison, parse
from dedup.judgement.abridgements import sealed
from dedup_operator.clusters import Cluster, ClusterError, Object, Unreachable
from dedup_operator.comparisons.controllers import Comparer
from dedup_operator.comparisons.kubeconfigs import Way
from dedup_operator.conditions import TIME
from dedup_operator.objects.snapshots import document_of

NAMESPACE: Final = "lab"
KEY: Final = (NAMESPACE, "c")
UID: Final = "0c4e"
OTHERS: Final = ("cloud", "edge")
MOST_LOOKS: Final = 60
RUNS: Final = 6


class Crash(BaseException):
    """The operator crashed."""


def kubeconfig(server: str, **changes: Any) -> str:
    """One like that of docs/compare-clusters.md; `changes` replace parts, by cluster, user, context or key."""
    parts: dict[str, Any] = {"cluster": {"server": server}, "user": {"token": "t0k"}, "context": {"cluster": "c"}}
    parts["context"]["user"] = "u"
    for part in ("cluster", "user", "context"):
        parts[part] = {**parts[part], **changes.pop(part, {})}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": parts["cluster"]}],
            "users": [{"name": "u", "user": parts["user"]}],
            "contexts": [{"name": "x", "context": parts["context"]}],
            "current-context": "x",
            **changes,
        }
    )


def document(**changes: Any) -> Object:
    """Compares the hub (`here`) with the others."""
    spec = kafka(runs=RUNS).spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    named = [{"name": each, "kubeConfig": {"secretRef": {"name": each}}} for each in OTHERS]
    return {
        "apiVersion": "dedup.dev/v1alpha1",
        "kind": "DedupComparison",
        "metadata": {"name": "c"},
        "spec": {"clusters": [{"name": "here"}, *named], "template": {"spec": spec}, "deadline": "1h", **changes},
    }


@dataclass
class Breaking:
    """A way to a cluster; what breaks, breaks all that go through one `Breaks`."""

    inner: FakeCluster
    breaks: "Breaks"
    name: str

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        if error := self.breaks.unread.get((self.name, kind, name)):
            raise error
        return self.breaks.around(self.name, lambda: self.inner.get(kind, namespace, name))  # type: ignore[no-any-return]

    def list(self, kind: str, namespace: str, selector: str, fields: str = "", most: int = 0) -> list[Object]:
        raise AssertionError("a comparison lists nothing")

    def create(self, made: Object) -> bool:
        if error := self.breaks.unmade.get((self.name, made["kind"])):
            raise error

        def do() -> bool:
            new = self.inner.create({**made, "metadata": {**made["metadata"]}})
            if new and made["kind"] == "DedupExperiment":
                self.breaks.made.append(self.name)
            return new

        return self.breaks.around(self.name, do)  # type: ignore[no-any-return]

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self.breaks.around(self.name, lambda: self.inner.delete(kind, namespace, name))

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> None:
        if self.breaks.unpatched:
            raise self.breaks.unpatched
        self.breaks.around(self.name, lambda: self.inner.patch(kind, namespace, name, change))

    def replace_status(self, made: Object) -> Object:
        return self.breaks.around(self.name, lambda: self.inner.replace_status(made))  # type: ignore[no-any-return]


@dataclass
class Breaks:
    """Breaks request number `at`: before it is done, or after; by an error, or by the operator's end."""

    at: int = 0
    after: bool = False
    crashes: bool = False
    away: set[str] = field(default_factory=set)
    """Clusters that nothing reaches."""
    unread: dict[tuple[str, str, str], ClusterError] = field(default_factory=dict)
    """What one of them does not give (its name, the kind, the object's name), and why."""
    unmade: dict[tuple[str, str], ClusterError] = field(default_factory=dict)
    """Of which kind one of them lets nothing be made, and why."""
    unpatched: ClusterError | None = None
    """Why nothing may be patched."""
    asked: int = 0
    made: list[str] = field(default_factory=list)
    """In which cluster an experiment was made, each time."""

    def around(self, cluster: str, do: Callable[[], Any]) -> Any:
        if cluster in self.away:
            raise Unreachable(f"{cluster} is away")
        self.asked += 1
        breaks = self.asked == self.at
        if breaks and not self.after:
            self._break()
        said = do()
        if breaks:
            self._break()
        return said

    def _break(self) -> None:
        if self.crashes:
            raise Crash
        raise Unreachable("the connection broke")


@dataclass
class World:
    """All clusters, and an operator that looks at the one comparison."""

    breaks: Breaks = field(default_factory=Breaks)
    changes: dict[str, Any] = field(default_factory=dict)
    now_s: float = FIRST_S
    failed: dict[str, int] = field(default_factory=dict)
    """How many runs of the treatment failed, by cluster."""
    stopped: bool = False
    """No cluster carries anything out."""

    def __post_init__(self) -> None:
        self.clusters = {name: FakeCluster(clock=lambda: self.now_s) for name in ("here", *OTHERS)}
        self.hub = self.clusters["here"]
        for name in OTHERS:
            self.secret(name, kubeconfig(f"https://{name}:6443"))
        made = copy.deepcopy(document(**self.changes))
        made["metadata"] |= {"namespace": NAMESPACE, "uid": UID}
        self.hub.create(made)

    def secret(self, name: str, text: str, label: str = "true") -> None:
        meta = {"name": name, "namespace": NAMESPACE, "labels": {"dedup.dev/use": label}}
        data = {"kubeconfig": base64.b64encode(text.encode()).decode()}
        self.hub.delete("Secret", NAMESPACE, name)
        self.hub.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})

    @property
    def live(self) -> Object:
        found = self.hub.get("DedupComparison", *KEY)
        assert found is not None
        return found

    @property
    def asked(self) -> Comparison:
        return parse(document_of(self.live), source="c")

    @property
    def status(self) -> Object:
        return dict(self.live.get("status") or {})

    def cluster(self, name: str) -> Object:
        return next(each for each in self.status["clusters"] if each["name"] == name)

    def condition(self, kind: str) -> tuple[str, str, str]:
        found = next(each for each in self.status["conditions"] if each["type"] == kind)
        return found["status"], found["reason"], found["message"]

    def comparer(self) -> Comparer:
        return Comparer(self._way("here"), self._remote, lambda: self.now_s)

    def _remote(self, way: Way) -> Cluster:
        return self._way(way.server.removeprefix("https://").removesuffix(":6443"))

    def _way(self, name: str) -> Breaking:
        return Breaking(self.clusters[name], self.breaks, name)

    def look(self) -> float | None:
        """A look. What broke is looked at again; 20 s later."""
        self.now_s += 20
        try:
            return self.comparer().look(KEY)
        except (ClusterError, Crash):
            return 20.0

    def run(self, until: Callable[[Object], bool] = lambda status: "outcome" in status) -> None:
        """Look until the status says so; experiments are carried out meanwhile."""
        for _ in range(MOST_LOOKS):
            self.look()
            if until(self.status):
                return
            if not self.stopped:
                self.carry_out()
        raise AssertionError(f"the course does not end: {self.status}")

    def experiments(self, name: str) -> list[Object]:
        return self.clusters[name].list("DedupExperiment", NAMESPACE, "")

    def carry_out(self) -> None:
        """Each cluster that is reached takes its experiment one step on: begun, then finished."""
        for name in self.clusters:
            for live in self.experiments(name):
                if not (live.get("status") or {}):
                    self.begin(name)
                elif "verdict" not in live["status"]:
                    self.finish(name)

    def begin(self, name: str) -> None:
        (live,) = self.experiments(name)
        token = live["spec"]["runToken"]
        self.clusters[name].set_status(live, {"observedRunToken": token, "progress": "3/12 runs"})

    def finish(self, name: str, **changes: Any) -> None:
        (live,) = self.experiments(name)
        made = self.asked.experiment(UID, name)
        day = 1 + list(self.clusters).index(name)
        found = summary(made, failed=self.failed.get(name, 0), day=day)
        packed = sealed(found)
        assert packed is not None
        status = {
            "observedRunToken": live["spec"]["runToken"],
            "progress": "12/12 runs",
            "verdict": found.verdict.value.capitalize(),
            "summary": packed.model_dump(),
        }
        self.clusters[name].set_status(live, {**status, **changes})

    def delete(self) -> None:
        """As Kubernetes does: with a finalizer it stays until that is taken off."""
        since = datetime.fromtimestamp(self.now_s, UTC).strftime(TIME)
        self.hub.patch("DedupComparison", *KEY, {"metadata": {"deletionTimestamp": since}})
        self._collect()

    def _collect(self) -> None:
        """What belongs to the comparison goes with it."""
        live = self.hub.get("DedupComparison", *KEY)
        if live is not None and live["metadata"].get("finalizers"):
            return
        self.hub.delete("DedupComparison", *KEY)
        for kind in ("DedupExperiment", "ConfigMap"):
            for each in self.hub.list(kind, NAMESPACE, ""):
                if any(owner["uid"] == UID for owner in each["metadata"].get("ownerReferences") or ()):
                    self.hub.delete(kind, NAMESPACE, each["metadata"]["name"])

    def leave(self) -> float:
        """Look until the deleted comparison is gone; how long that took, in seconds."""
        began_s = self.now_s
        for _ in range(MOST_LOOKS):
            if self.hub.get("DedupComparison", *KEY) is None:
                return self.now_s - began_s
            self.look()
            self._collect()
        raise AssertionError("it never goes")

    def left(self) -> Iterator[str]:
        """What is there when the comparison is gone, Secrets and Events apart."""
        for name, cluster in self.clusters.items():
            yield from (f"{name}: {key[0]} {key[2]}" for key in cluster.objects if key[0] not in ("Secret", "Event"))
