"""Which pods `dedup logs` reads, and what it makes of a container that cannot be read."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from dedup.errors import SpecificationError
from dedup_lab.cluster.access import Answered
from dedup_lab.cluster.pod_logs import START_S, chosen, containers, logs

Pod = dict[str, Any]
WAITING = Answered(400, 'container "producer" in pod "p" is waiting to start: ContainerCreating')


def pod(run: str, attempt: int, created: str, name: str = "p") -> Pod:
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": created,
            "labels": {"dedup.dev/attempt": str(attempt)},
            "annotations": {"dedup.dev/run": run},
        },
        "spec": {"containers": [{"name": "producer"}]},
    }


class FakeCluster:
    """A cluster with these pods, whose containers say these lines, or answer with no."""

    namespace = "lab"

    def __init__(self, pods: list[Pod], texts: Mapping[str, list[list[str] | Answered]]) -> None:
        self.pods, self.texts = pods, texts
        self._lock = threading.Lock()

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return {"items": self.pods}

    def lines(self, path: str, **query: str) -> Iterator[str]:
        name = path.removeprefix("/api/v1/namespaces/lab/pods/").removesuffix("/log")
        with self._lock:
            answers = self.texts[f"{name}/{query['container']}"]
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Answered):
            raise answer
        yield from answer


def read(cluster: FakeCluster, **more: Any) -> tuple[list[str], list[str], list[float]]:
    """What is written, what is warned of, and how long was waited."""
    written, warned, waited = list[str](), list[str](), list[float]()
    options: dict[str, Any] = {"run": None, "follow": False, **more}
    logs(cluster, "e", write=written.append, warn=warned.append, wait=waited.append, **options)
    return written, warned, waited


EARLY, LATE = "2026-11-22T08:00:00Z", "2026-11-22T09:00:00Z"


def test_the_newest_run_is_read() -> None:
    old, new = pod("kafka-control-001", 1, EARLY, "old"), pod("kafka-dedup-001", 1, LATE, "new")
    assert chosen([new, old], "e", None) == [new]


def test_a_run_that_is_named_is_read_in_its_newest_attempt() -> None:
    first, second = pod("r", 1, EARLY, "first"), pod("r", 2, LATE, "second")
    other = pod("s", 1, "2026-11-22T10:00:00Z", "other")
    assert chosen([first, second, other], "e", "r") == [second]


def test_a_second_pod_of_an_attempt_is_read_too() -> None:
    twice = [pod("r", 1, EARLY, "one"), pod("r", 1, LATE, "two")]
    assert chosen(twice, "e", None) == twice


def test_a_run_without_a_pod_is_told_with_those_that_have_one() -> None:
    with pytest.raises(SpecificationError, match="pods are there of: r, s"):
        chosen([pod("r", 1, EARLY), pod("s", 1, EARLY)], "e", "t")


def test_no_pod_at_all_is_told() -> None:
    with pytest.raises(SpecificationError, match="no pod of a run"):
        chosen([], "e", None)


def test_helpers_come_first() -> None:
    made = pod("r", 1, EARLY)
    made["spec"]["initContainers"] = [{"name": "toxiproxy"}, {"name": "courier"}]
    assert [str(each) for each in containers(made)] == ["p/toxiproxy", "p/courier", "p/producer"]


@pytest.mark.parametrize("follow", [False, True])
def test_each_line_tells_where_it_comes_from_and_no_terminal_obeys_it(follow: bool) -> None:
    cluster = FakeCluster([pod("r", 1, EARLY)], {"p/producer": [["sent 1", "  \tindented", "\x1b[2Jgone"]]})
    written, warned, _ = read(cluster, follow=follow)
    assert written == ["p/producer sent 1", "p/producer         indented", r"p/producer \x1b[2Jgone"]
    assert warned == []


def test_a_container_that_has_not_started_is_a_warning() -> None:
    written, warned, waited = read(FakeCluster([pod("r", 1, EARLY)], {"p/producer": [WAITING]}))
    assert (written, waited) == ([], [])
    assert "waiting to start" in warned[0]


def test_who_follows_waits_for_it_to_start() -> None:
    cluster = FakeCluster([pod("r", 1, EARLY)], {"p/producer": [WAITING, WAITING, ["sent 1"]]})
    assert read(cluster, follow=True) == (["p/producer sent 1"], [], [1.0, 1.0])


def test_who_follows_does_not_wait_for_ever() -> None:
    _, warned, waited = read(FakeCluster([pod("r", 1, EARLY)], {"p/producer": [WAITING]}), follow=True)
    assert sum(waited) == START_S
    assert len(warned) == 1


def test_one_that_is_gone_does_not_hide_the_others() -> None:
    made = pod("r", 1, EARLY)
    made["spec"]["containers"].append({"name": "consumer"})
    gone = Answered(404, 'pods "p" not found')
    written, warned, _ = read(FakeCluster([made], {"p/producer": [gone], "p/consumer": [["read 1"]]}))
    assert written == ["p/consumer read 1"]
    assert len(warned) == 1 and "not found" in warned[0]
