"""What is watched when a namespace is deleted that is watched among others: the others."""

from collections.abc import Callable
from typing import Any

import kopf
import pytest
from tests.operator.test_remains import Strict
from tests.operator.worlds import NAMESPACE, FakeCluster

from dedup_operator import watching
from dedup_operator.clusters import Cluster
from dedup_operator.watching import watch

BOUND_S = 10.0
BOTH = [NAMESPACE, "other"]
Then = Callable[[Any], None]


class Ended(Exception):
    """kopf's own error."""


def watched(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, *then: Then, namespaces: list[str]) -> list[list[str]]:
    """Which namespaces kopf was asked to watch, one time after the other; what happens at each is told by `then`."""
    asked: list[list[str]] = []

    def run(*, namespaces: list[str], stop_flag: Any, **_: Any) -> None:
        asked.append(namespaces)
        then[len(asked) - 1](stop_flag)

    monkeypatch.setattr(kopf, "run", run)
    monkeypatch.setattr(watching, "ASK_S", 0.001)
    watch(kopf.OperatorRegistry(), cluster, namespaces)
    return asked


def fail(_stop: Any) -> None:
    raise Ended("403")


def signalled(_stop: Any) -> None:
    """A signal ends it."""


def test_a_namespace_that_is_deleted_is_left_out_until_it_is_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = Strict(FakeCluster())

    def deleted(_stop: Any) -> None:
        strict.closed = "other"
        raise Ended("403")

    def back(stop: Any) -> None:
        strict.closed = ""
        assert stop.wait(BOUND_S), "it is asked for again"

    asked = watched(monkeypatch, strict, deleted, back, signalled, namespaces=BOTH)
    assert asked == [BOTH, [NAMESPACE], BOTH]


def test_one_that_was_not_there_at_the_start_is_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = Strict(FakeCluster(), closed="other")
    assert watched(monkeypatch, strict, signalled, namespaces=BOTH) == [[NAMESPACE]]


@pytest.mark.parametrize(("namespaces", "closed"), [(BOTH, ""), ([NAMESPACE], NAMESPACE), ([NAMESPACE], ""), ([], "")])
def test_any_other_error_ends_it(namespaces: list[str], closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Ended):
        watched(monkeypatch, Strict(FakeCluster(), closed=closed), fail, namespaces=namespaces)
