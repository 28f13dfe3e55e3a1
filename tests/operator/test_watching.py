"""What is watched when a namespace is deleted among others, and when a kind comes later than the operator."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

import kopf
import pytest
from testbed.worlds import NAMESPACE, FakeCluster
from tests.operator.test_remains import Strict

from dedup_operator import watching
from dedup_operator.clusters import Unreachable
from dedup_operator.leases import Alone
from dedup_operator.metrics import Metrics
from dedup_operator.objects.names import LABEL
from dedup_operator.queues import WorkQueue
from dedup_operator.schema import comparison_crd, crd
from dedup_operator.watching import CHILDREN, COMING, Watched, readable, registry, watch, work

BOUND_S = 10.0
BOTH = [NAMESPACE, "other"]
APPLICATION: Final = "SparkApplication"


class Kopf:
    """What kopf does with the kinds: it looks once which there are. What happens meanwhile is told by `then`.

    After the last comes a signal.
    """

    def __init__(self, cluster: FakeCluster | Strict, then: tuple[Callable[[], object], ...]) -> None:
        self.cluster, self.then, self.noticed = cluster, then, threading.Event()
        self.asked: list[list[str]] = []
        self.kinds: list[set[str]] = []

    def run(self, *, namespaces: list[str], insights: Any, **_: object) -> None:
        self.asked.append(namespaces)
        known = set(COMING) - self.cluster.unknown
        insights.watched_resources.update({kopf.Resource("group", "v1", COMING[kind]) for kind in known})
        insights.ready_resources.set()
        self.kinds.append(known)
        if len(self.asked) <= len(self.then):
            self.noticed.clear()
            self.then[len(self.asked) - 1]()
            assert self.noticed.wait(BOUND_S), "it is noticed"


def watched(
    monkeypatch: pytest.MonkeyPatch, cluster: Strict, *then: Callable[[], object], namespaces: list[str]
) -> list[list[str]]:
    """Which namespaces kopf was asked to watch, one time after the other, until it was told to stop."""
    return played(monkeypatch, cluster, *then, namespaces=namespaces)[0].asked


def played(
    monkeypatch: pytest.MonkeyPatch,
    cluster: FakeCluster | Strict,
    *then: Callable[[], object],
    namespaces: list[str],
) -> tuple[Kopf, Watched]:
    made, told = Kopf(cluster, then), Watched()
    monkeypatch.setattr(watching, "_end_kopf", made.noticed.set)
    monkeypatch.setattr(kopf, "run", made.run)
    monkeypatch.setattr(watching, "ASK_S", 0.001)
    monkeypatch.setattr(watching, "ASK_SOON_S", 0.001)
    watch(kopf.OperatorRegistry(), cluster, namespaces, told)
    return made, told


@pytest.mark.parametrize("namespaces", [[], [NAMESPACE], BOTH])
def test_a_definition_that_comes_later_than_the_operator_is_watched_then(
    namespaces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeCluster(unknown={crd.KIND, APPLICATION})
    made, told = played(
        monkeypatch,
        fake,
        lambda: fake.unknown.discard(crd.KIND),
        lambda: fake.unknown.discard(APPLICATION),
        namespaces=namespaces,
    )
    assert made.kinds == [set(), {crd.KIND}, {crd.KIND, APPLICATION}]
    assert made.asked == [namespaces] * 3
    assert told.experiments()


def test_without_the_definition_it_is_not_ready_and_kopf_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCluster(unknown={crd.KIND})
    made, told = played(monkeypatch, fake, namespaces=[NAMESPACE])
    assert (made.kinds, told.experiments()) == ([{APPLICATION}], False)


def test_nothing_is_lacking_before_kopf_has_looked_and_when_it_watches_all() -> None:
    fake, told = FakeCluster(), Watched()
    assert not told.lacks(fake, NAMESPACE)
    insights: Any = told.anew()
    insights.ready_resources.set()
    assert told.lacks(fake, NAMESPACE)
    insights.watched_resources.update({kopf.Resource("group", "v1", plural) for plural in COMING.values()})
    assert not told.lacks(fake, NAMESPACE)


def test_a_kind_that_may_not_be_listed_is_not_lacking() -> None:
    told = Watched()
    told.anew().ready_resources.set()
    assert not told.lacks(Strict(FakeCluster(), closed=NAMESPACE), NAMESPACE)


def test_of_objects_of_others_the_api_server_tells_nothing() -> None:
    """By a selector of labels in the request; handlers choose among what was sent."""
    settings: Any = kopf.OperatorSettings()
    startup: Any = next(iter(registry(WorkQueue())._activities.get_all_handlers())).fn
    asyncio.run(startup(settings=settings))
    asked = settings.watching.label_selectors
    for group, version, plural in CHILDREN:
        assert list(asked.collect(kopf.Resource(group, version, plural, namespaced=True))) == [LABEL]
    assert not list(asked.collect(kopf.Resource(crd.GROUP, crd.VERSION, crd.PLURAL)))


def test_a_namespace_that_is_deleted_is_left_out_until_it_is_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = Strict(FakeCluster())

    def deleted() -> None:
        strict.closed = "other"

    def back() -> None:
        strict.closed = ""

    assert watched(monkeypatch, strict, deleted, back, namespaces=BOTH) == [BOTH, [NAMESPACE], BOTH]


@pytest.mark.parametrize(
    ("namespaces", "closed", "asked"),
    [
        (BOTH, "", BOTH),
        (BOTH, "other", [NAMESPACE]),
        ([NAMESPACE], NAMESPACE, [NAMESPACE]),
        ([], NAMESPACE, []),
    ],
)
def test_a_signal_ends_it(
    namespaces: list[str], closed: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = Strict(FakeCluster(), closed=closed)
    assert watched(monkeypatch, strict, namespaces=namespaces) == [asked]


@pytest.mark.parametrize(("ended", "signals"), [(True, 0), (False, 1)])
def test_an_answer_that_comes_when_kopf_has_ended_sends_no_signal(
    ended: bool, signals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would end the program before the lease is given back."""
    asked, answer, sent = threading.Event(), threading.Event(), list[None]()

    def late(*_: object) -> list[str]:
        asked.set()
        assert answer.wait(BOUND_S)
        return [NAMESPACE]

    monkeypatch.setattr(watching, "readable", late)
    monkeypatch.setattr(watching, "_end_kopf", lambda: sent.append(None))
    monkeypatch.setattr(watching, "ASK_SOON_S", 0.001)
    with watching._asking(FakeCluster(), BOTH, BOTH, Watched()) as others:
        (asker,) = (each for each in threading.enumerate() if each.name == "namespaces")
        assert asked.wait(BOUND_S)
        if not ended:
            answer.set()
            assert others.wait(BOUND_S)
    answer.set()
    asker.join(BOUND_S)
    assert (len(sent), others.is_set()) == (signals, not ended)


def test_where_nobody_answers_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = Strict(FakeCluster(), closed="other", silent=NAMESPACE)
    with pytest.raises(Unreachable):
        readable(strict, BOTH)
    assert watched(monkeypatch, strict, namespaces=BOTH) == [BOTH]


def handlers(made: kopf.OperatorRegistry) -> dict[str, Any]:
    """What is called for each kind that is watched."""
    return {str(each.selector): each.fn for each in made._watching.get_all_handlers()}


def test_comparisons_are_watched_only_where_they_are_carried_out_and_have_a_queue_of_their_own() -> None:
    own, others = WorkQueue[tuple[str, str]](), WorkQueue[tuple[str, str]]()
    made = handlers(registry(own, comparisons=others))
    (new,) = made.keys() - handlers(registry(WorkQueue())).keys()
    assert comparison_crd.PLURAL in new
    asyncio.run(made[new](namespace="lab", name="c"))
    assert (len(own), others.get()) == (0, ("lab", "c"))


def test_an_experiment_without_a_status_is_looked_at_first() -> None:
    queue = WorkQueue[tuple[str, str]]()
    (seen,) = [call for kind, call in handlers(registry(queue)).items() if crd.PLURAL in kind]
    for name, status in (("old", {"phase": "Running"}), ("new", {})):
        event = {"type": "MODIFIED", "object": {"status": status}}
        asyncio.run(seen(namespace="lab", name=name, event=event))
    assert [queue.get(0), queue.get(0)] == [("lab", "new"), ("lab", "old")]


def test_kopf_looks_for_no_differences() -> None:
    """What it keeps in an object's annotations, and compares, is nothing: no handler asks."""
    settings = kopf.OperatorSettings()
    startup: Any = next(iter(registry(WorkQueue())._activities.get_all_handlers())).fn
    asyncio.run(startup(settings=settings))
    body = kopf.Body({"metadata": {"annotations": {"kopf.zalando.org/last-handled-configuration": '{"spec": 1}'}}})
    storage = settings.persistence.diffbase_storage
    assert storage.fetch(body=body) == storage.build(body=body) == {}


class Unknown:
    """Looks whose token the API server does not know; the last of them ends the work."""

    def __init__(self, queue: WorkQueue[tuple[str, str]]) -> None:
        self.queue, self.looks = queue, 0

    def look(self, key: tuple[str, str]) -> float | None:
        self.looks += 1
        if self.looks == 2:
            self.queue.close()
        raise Unreachable("HTTP 401: Unauthorized")


def test_that_a_token_is_not_known_is_told_each_time_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    queue, metrics = WorkQueue[tuple[str, str]](), Metrics()
    queue.add(("lab", "e"))
    looks = Unknown(queue)
    work(queue, looks, metrics, Alone())
    assert looks.looks == 2
    assert caplog.messages.count("lab/e: HTTP 401: Unauthorized; it is asked again") == 2
    assert "dedup_operator_api_errors_total 2.0" in metrics.text({})
