"""What is watched when a namespace is deleted that is watched among others: the others."""

import threading
from collections.abc import Callable

import kopf
import pytest
from tests.operator.test_remains import Strict
from tests.operator.worlds import NAMESPACE, FakeCluster

from dedup_operator import watching
from dedup_operator.clusters import Cluster, Unreachable
from dedup_operator.watching import readable, watch

BOUND_S = 10.0
BOTH = [NAMESPACE, "other"]


def watched(
    monkeypatch: pytest.MonkeyPatch, cluster: Cluster, *then: Callable[[], object], namespaces: list[str]
) -> list[list[str]]:
    """Which namespaces kopf was asked to watch, one time after the other, until it was told to stop.

    What happens at each is told by `then`; after the last comes a signal.
    """
    asked: list[list[str]] = []
    noticed = threading.Event()

    def run(*, namespaces: list[str], **_: object) -> None:
        asked.append(namespaces)
        if len(asked) <= len(then):
            noticed.clear()
            then[len(asked) - 1]()
            assert noticed.wait(BOUND_S), "it is noticed"

    monkeypatch.setattr(watching, "_end_kopf", noticed.set)
    monkeypatch.setattr(kopf, "run", run)
    monkeypatch.setattr(watching, "ASK_S", 0.001)
    watch(kopf.OperatorRegistry(), cluster, namespaces)
    return asked


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


def test_where_nobody_answers_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = Strict(FakeCluster(), closed="other", silent=NAMESPACE)
    with pytest.raises(Unreachable):
        readable(strict, BOTH)
    assert watched(monkeypatch, strict, namespaces=BOTH) == [BOTH]
