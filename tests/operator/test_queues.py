"""The queue of keys: each once, one worker a key, some later."""

from dataclasses import dataclass

from dedup_operator.queues import FIRST_RETRY_S, WorkQueue


@dataclass
class Clock:
    s: float = 0.0

    def __call__(self) -> float:
        return self.s


def test_a_key_that_waits_is_not_added_again() -> None:
    queue = WorkQueue[str]()
    for key in ("a", "b", "a"):
        queue.add(key)
    assert [queue.get(0), queue.get(0), queue.get(0)] == ["a", "b", None]


def test_what_is_new_comes_before_what_was_looked_at_already() -> None:
    queue = WorkQueue[str]()
    queue.add("old")
    queue.add("first", new=True)
    queue.add("second", new=True)
    assert [queue.get(0), queue.get(0), queue.get(0), queue.get(0)] == ["first", "second", "old", None]


def test_its_innocent_twin_is_no_longer_new_when_it_comes_back() -> None:
    queue = WorkQueue[str]()
    queue.add("a", new=True)
    assert queue.get(0) == "a"
    queue.add("b")
    queue.add("a", new=True)
    queue.done("a")
    assert [queue.get(0), queue.get(0)] == ["b", "a"]


def test_a_key_that_is_worked_on_waits_for_its_worker() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    assert queue.get(0) == "a"
    queue.add("a")
    assert queue.get(0) is None
    queue.done("a")
    assert queue.get(0) == "a"


def test_its_innocent_twin_is_over_when_it_is_done() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    assert queue.get(0) == "a"
    queue.done("a")
    assert queue.get(0) is None


def test_a_key_for_later_comes_later_and_what_is_asked_for_now_does_not_wait() -> None:
    clock = Clock()
    queue = WorkQueue[str](clock)
    queue.add("a", after_s=10)
    assert queue.get(0) is None
    queue.add("a")
    assert queue.get(0) == "a"
    queue.done("a")
    clock.s = 10
    assert queue.get(0) is None


def test_events_do_not_multiply_the_looks_for_later() -> None:
    clock = Clock()
    queue = WorkQueue[str](clock)
    for _ in range(5):
        queue.add("a")
        assert queue.get(0) == "a"
        queue.add("a", after_s=15)
        queue.done("a")
        clock.s += 1
    clock.s += 15
    assert queue.get(0) == "a"
    queue.done("a")
    assert queue.get(0) is None


def test_a_look_that_failed_is_repeated_later_each_time() -> None:
    clock = Clock()
    queue = WorkQueue[str](clock)
    queue.add("a")
    for wait_s in (FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S):
        assert queue.get(0) == "a"
        queue.done("a", failed=True)
        assert queue.get(0) is None
        clock.s += wait_s
    assert queue.get(0) == "a"
    queue.done("a")
    clock.s += 100
    assert queue.get(0) is None


def test_what_failed_is_not_looked_at_before_its_time_whatever_happens() -> None:
    """What it wrote before it failed comes back as an event, during the look or after it."""
    clock = Clock()
    queue = WorkQueue[str](clock)
    queue.add("a")
    assert queue.get(0) == "a"
    queue.add("a")
    queue.done("a", failed=True)
    queue.add("a")
    assert queue.get(0) is None
    clock.s += FIRST_RETRY_S
    assert queue.get(0) == "a"
    queue.done("a")
    queue.add("a")
    assert queue.get(0) == "a"


def test_whoever_waits_goes_home_when_the_queue_closes() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    queue.close()
    assert queue.get() is None
