"""Who may begin, who waits, and what the queue costs: many experiments before a fake cluster."""

from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from testbed.specs import changed
from testbed.worlds import NAMESPACE, SETTINGS, FakeCluster, ScriptedHelm, World
from tests.operator.test_reconciliations import SMALL
from tests.operator.test_remains import Strict

from dedup_operator.admissions import KEPT_S, Entry, Queue, Stand, entry_of, ordinal, place, turns
from dedup_operator.clusters import Object
from dedup_operator.reconciliations import AT_ONCE_S, LOOK_AGAIN_S, SOON_S, Reconciler

LIMIT: Final = 2
BEGUN: Final = {"digest": "0" * 64}


def entry(asked: str, uid: str, stand: Stand = Stand.WAITS, namespace: str = NAMESPACE) -> Entry:
    return Entry((namespace, uid), asked, "09:00", uid, stand)


def test_who_asked_first_begins_first() -> None:
    waiting = [entry("10:00", "a"), entry("10:00", "b"), entry("09:00", "c")]
    assert [place(each, waiting, 1) for each in waiting] == [1, 2, 0]


def test_who_has_begun_keeps_his_place() -> None:
    others = [entry("10:00", "a", Stand.BEGUN), entry("10:00", "b", Stand.ASIDE)]
    assert place(entry("09:00", "c"), others, 1) == 1
    assert place(entry("09:00", "c"), others, 2) == 0


def test_a_lower_limit_sends_nobody_home() -> None:
    begun = [entry("10:00", name, Stand.BEGUN) for name in "abc"]
    assert place(entry("11:00", "d"), begun, 1) == 3


def test_the_namespace_with_the_fewest_is_next() -> None:
    """Whatever one namespace has asked for before: its fifth comes after the other's first."""
    begun = [entry("08:00", "a", Stand.BEGUN, "n"), entry("08:00", "b", Stand.BEGUN, "n")]
    waiting = [entry(f"09:0{number}", f"c{number}", namespace="n") for number in range(4)]
    late = [entry("11:00", "d", namespace="m"), entry("10:00", "e", namespace="m")]
    order = [each.uid for each in turns([*begun, *waiting, *late])]
    assert order == ["e", "d", "c0", "c1", "c2", "c3"]
    assert [place(each, [*begun, *waiting, *late], 3) for each in (late[1], late[0], waiting[0])] == [0, 1, 2]


def test_where_all_have_as_many_who_asked_first_is_next() -> None:
    waiting = [
        entry("09:00", "a", namespace="n"),
        entry("09:01", "b", namespace="n"),
        entry("09:02", "c", namespace="m"),
    ]
    assert [each.uid for each in turns(waiting)] == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("live", "stand"),
    [
        ({}, Stand.WAITS),
        ({"spec": {"suspend": True}}, Stand.ASIDE),
        ({"status": {"phase": "Stalled"}}, Stand.ASIDE),
        ({"status": {"phase": "Stalled", "state": BEGUN}}, Stand.BEGUN),
        ({"spec": {"suspend": True}, "status": {"state": BEGUN}}, Stand.BEGUN),
        ({"status": {"state": BEGUN, "verdict": "Pass"}}, Stand.ASIDE),
        ({"spec": {"runToken": "2"}, "status": {"state": BEGUN, "verdict": "Pass"}}, Stand.WAITS),
        ({"status": {"state": BEGUN, "parked": True}}, Stand.WAITS),
        ({"spec": {"suspend": True}, "status": {"state": BEGUN, "parked": True}}, Stand.ASIDE),
        ({"status": {"phase": "Stalled", "state": BEGUN, "parked": True}}, Stand.ASIDE),
        ({"metadata": {"uid": "u", "deletionTimestamp": "x"}, "status": {"state": BEGUN}}, Stand.ASIDE),
        ({"status": {"mood": "of a newer operator"}}, Stand.ASIDE),
        ({"status": {"mood": "of a newer operator", "state": BEGUN}}, Stand.BEGUN),
    ],
)
def test_where_an_experiment_stands(live: Object, stand: Stand) -> None:
    meta = {"namespace": "n", "name": "e", "uid": "u"}
    assert entry_of({"spec": {}, **live, "metadata": {**meta, **live.get("metadata", {})}}).stand is stand


@pytest.mark.parametrize(
    ("number", "word"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (112, "112th"), (121, "121st")]
)
def test_a_place_is_said_as_people_say_it(number: int, word: str) -> None:
    assert ordinal(number) == word


@dataclass
class Counting(FakeCluster):
    """How often all experiments were listed."""

    lists: int = 0

    def list(self, kind: str, namespace: str, selector: str, fields: str = "", most: int = 0) -> list[Object]:
        self.lists += kind == "DedupExperiment"
        return super().list(kind, namespace, selector, fields, most)


@dataclass
class Crowd:
    """Many experiments and one operator, which looks at all of them in turn."""

    cluster: Counting = field(default_factory=Counting)
    most: int = 0

    def __post_init__(self) -> None:
        self.world = World(self.cluster)
        defaults = SETTINGS.model_copy(update={"concurrent_experiments": LIMIT})
        self.operator = Reconciler(self.cluster, ScriptedHelm(self.cluster), defaults, lambda: self.world.now_s)

    def apply(self, *names: str, **spec: Any) -> None:
        for name in names:
            document = changed(*SMALL, ("metadata/name", name), ("metadata/uid", f"uid-{name}"))
            self.world.apply({**document, "spec": {**document["spec"], **spec}})

    def look(self, *names: str) -> list[float | None]:
        again = [self.operator.look((NAMESPACE, name)) for name in names]
        self.most = max(self.most, sum(entry_of(self.world.live(name)).stand is Stand.BEGUN for name in names))
        return again

    def words(self, name: str) -> str:
        conditions = self.world.live(name)["status"]["conditions"]
        return str(next(each["message"] for each in conditions if each["type"] == "Reconciling"))

    def verdict(self, name: str) -> Any:
        return self.world.live(name)["status"].get("verdict")


def test_the_others_wait_and_can_see_for_how_many() -> None:
    crowd = Crowd()
    crowd.apply(*"abcd")
    for _ in range(3):
        crowd.look(*"abcd")
    assert crowd.words("c") == f"1st in the queue; {LIMIT} may run at a time"
    assert crowd.words("d") == f"2nd in the queue; {LIMIT} may run at a time"
    status = crowd.world.live("d")["status"]
    assert (status["phase"], status.get("state")) == ("Pending", None)
    assert crowd.world.cluster.list("ConfigMap", NAMESPACE, "dedup.dev/experiment=d") == []


@pytest.mark.long
def test_all_come_to_their_verdict_and_never_too_many_at_once() -> None:
    crowd = Crowd()
    names = [f"e{number:02}" for number in range(12)]
    crowd.apply(*names)
    for _ in range(600):
        crowd.look(*names)
        crowd.world.player.move()
        crowd.world.now_s += LOOK_AGAIN_S
        if all(crowd.verdict(name) for name in names):
            break
    assert {crowd.verdict(name) for name in names} == {"Pass"}
    assert crowd.most == LIMIT


@pytest.mark.long
def test_what_waits_costs_no_lists() -> None:
    """Two hundred are looked at again and again: one list a minute, and one for each that begins."""
    crowd = Crowd()
    names = [f"e{number:03}" for number in range(200)]
    crowd.apply(*names)
    for _ in range(10):
        crowd.look(*names)
    assert crowd.cluster.lists <= LIMIT + 1
    crowd.world.now_s += KEPT_S
    crowd.look(*names)
    assert crowd.cluster.lists <= LIMIT + 2


def test_an_event_calls_whose_turn_it_is() -> None:
    crowd = Crowd()
    crowd.apply(*"abcde")
    crowd.look(*"abcde")
    crowd.look(*"abcde")
    queue = crowd.operator.queue
    assert queue.noticed(crowd.world.live("c")) == []
    assert queue.noticed(crowd.world.live("a"), gone=True) == [(NAMESPACE, "c")]
    assert queue.noticed(crowd.world.live("c"), gone=True) == [(NAMESPACE, "d")]


def test_an_event_of_the_past_lets_nobody_begin() -> None:
    """The list that is made then says that there is no place."""
    crowd = Crowd()
    crowd.apply(*"abc")
    past = crowd.world.live("a")
    crowd.look(*"abc")
    crowd.look(*"abc")
    assert crowd.operator.queue.noticed(past) == [(NAMESPACE, "a")]
    crowd.look("c")
    assert "state" not in crowd.world.live("c")["status"]


def test_without_any_event_a_free_place_is_found() -> None:
    crowd = Crowd()
    crowd.apply(*"abc")
    crowd.look(*"abc")
    assert crowd.cluster.get("DedupExperiment", NAMESPACE, "c")
    crowd.cluster.delete("DedupExperiment", NAMESPACE, "a")
    crowd.look("c")
    assert "state" not in crowd.world.live("c")["status"]
    crowd.world.now_s += KEPT_S
    crowd.look("c")
    assert "state" in crowd.world.live("c")["status"]


def test_one_that_is_suspended_lets_the_others_by() -> None:
    crowd = Crowd()
    crowd.apply("a", "b", suspend=True)
    crowd.apply("c", "d")
    crowd.look(*"abcd")
    assert ["state" in crowd.world.live(name)["status"] for name in "abcd"] == [False, False, True, True]


def test_one_that_is_run_again_waits_like_the_others() -> None:
    crowd = Crowd()
    crowd.apply("a")
    for _ in range(80):
        crowd.look("a")
        crowd.world.player.move()
    assert crowd.verdict("a") == "Pass"
    crowd.apply("b", "c")
    crowd.look("b", "c")
    crowd.cluster.patch("DedupExperiment", NAMESPACE, "a", {"spec": {"runToken": "2"}})
    while crowd.look("a")[0] in (AT_ONCE_S, SOON_S):
        pass  # what the first execution has left is taken away, some at a time
    assert crowd.words("a").startswith("1st in the queue")
    assert crowd.verdict("a") is None


def test_an_old_one_that_is_run_again_comes_after_those_that_asked_before() -> None:
    """The order is that of what was asked, and not of when the resources were made."""
    crowd = Crowd()
    crowd.apply("a")
    for _ in range(80):
        crowd.look("a")
        crowd.world.player.move()
    crowd.world.now_s += LOOK_AGAIN_S
    crowd.apply("b", "c", "d")
    crowd.look("b", "c", "d")
    crowd.world.now_s += LOOK_AGAIN_S
    crowd.cluster.patch("DedupExperiment", NAMESPACE, "a", {"spec": {"runToken": "2"}})
    while crowd.look("a")[0] in (AT_ONCE_S, SOON_S):
        pass
    assert crowd.words("a") == f"2nd in the queue; {LIMIT} may run at a time"
    asked = crowd.world.live("a")["status"]["requestedAt"]
    crowd.world.now_s += 2 * KEPT_S
    crowd.look("a")
    assert crowd.world.live("a")["status"]["requestedAt"] == asked


def test_before_anybody_has_looked_a_new_token_is_the_youngest() -> None:
    crowd = Crowd()
    crowd.apply("a")
    for _ in range(80):
        crowd.look("a")
        crowd.world.player.move()
    crowd.apply("b")
    crowd.cluster.patch("DedupExperiment", NAMESPACE, "a", {"spec": {"runToken": "2"}})
    a, b = (entry_of(crowd.world.live(name)) for name in "ab")
    assert b.age < a.age


def test_a_waiting_one_that_changes_its_token_asks_anew() -> None:
    crowd = Crowd()
    crowd.apply("a", "b", "c")
    crowd.look("a", "b", "c")
    crowd.world.now_s += LOOK_AGAIN_S
    crowd.apply("d")
    crowd.look("d")
    crowd.world.now_s += LOOK_AGAIN_S
    crowd.cluster.patch("DedupExperiment", NAMESPACE, "c", {"spec": {"runToken": "2"}})
    crowd.look("c")
    crowd.look("c")
    assert entry_of(crowd.world.live("d")).age < entry_of(crowd.world.live("c")).age


def test_namespaces_that_are_watched_are_counted_together() -> None:
    crowd = Crowd()
    crowd.apply(*"ab")
    crowd.look(*"ab")
    elsewhere = World(crowd.cluster, "elsewhere")
    elsewhere.apply(changed(*SMALL, ("metadata/uid", "uid-z")))
    crowd.operator.look(("elsewhere", "e"))
    assert elsewhere.condition("Reconciling") == ("True", "Queued")


def test_a_queue_that_lists_nothing_lets_one_begin() -> None:
    live: Object = {"metadata": {"namespace": "n", "name": "a", "uid": "u"}, "spec": {}}
    assert Queue(list, 1, lambda: 0.0).place(live) == 0


def test_a_watched_namespace_that_was_deleted_keeps_nobody_waiting() -> None:
    """The operator's rights in it are gone with it."""
    crowd = Crowd()
    crowd.apply("a")
    watched, strict = ("was-deleted", NAMESPACE), Strict(crowd.cluster, closed="was-deleted")
    operator = Reconciler(strict, ScriptedHelm(crowd.cluster), SETTINGS, lambda: crowd.world.now_s, watched)
    operator.look((NAMESPACE, "a"))
    assert crowd.world.live("a")["status"]["phase"] == "Provisioning"
