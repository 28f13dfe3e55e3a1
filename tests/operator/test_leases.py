"""The lease: who of two operators may act, and when the other one may. Their clocks show different times all along."""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from testbed.worlds import FakeCluster
from tests.operator.test_queues import Clock

from dedup_operator.clusters import TIMEOUT_S, Cluster, Conflict, Object, Unreachable
from dedup_operator.leases import DURATION_S, HOLD_S, RENEW_S, Alone, Holding, Lease
from dedup_operator.releases import CHECK_S

WAIT_S: Final = 30
NOW_S: Final = 1_800_000_000.0
TEN_MINUTES_S: Final = 600.0
ALMOST_S: Final = 0.1


@dataclass
class Party:
    """An operator's lease and its clocks: one that only goes forward, from wherever it began, and one on the wall."""

    cluster: Cluster
    name: str
    began_s: float = 0.0
    wrong_s: float = 0.0
    namespace: str = "ops"
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.clock.s = self.began_s
        self.lease = Lease(
            self.cluster,
            self.namespace,
            "op",
            self.name,
            now=self.clock,
            wall=lambda: NOW_S + self.clock.s + self.wrong_s,
        )


@dataclass
class Disturbed:
    """A way to the cluster on which something happens before or after a request, once."""

    inner: FakeCluster
    before: dict[str, Callable[[], None]] = field(default_factory=dict)
    after: dict[str, Callable[[], None]] = field(default_factory=dict)

    def __getattr__(self, verb: str) -> Any:
        def ask(*arguments: Any) -> Any:
            self.before.pop(verb, _nothing)()
            answer = getattr(self.inner, verb)(*arguments)
            self.after.pop(verb, _nothing)()
            return answer

        return ask


def _nothing() -> None:
    pass


def no_answer() -> None:
    raise Unreachable("no answer")


def pair(cluster: Cluster, wrong_s: float = 0.0) -> tuple[Party, Party]:
    return Party(cluster, "one", 0.0, wrong_s), Party(cluster, "two", 7_000.0)


def passes(s: float, *parties: Party) -> None:
    for each in parties:
        each.clock.s += s


def spec(cluster: FakeCluster) -> Object:
    found = cluster.get("Lease", "ops", "op")
    assert found is not None
    return dict(found["spec"])


def edit(cluster: FakeCluster, **changes: Any) -> None:
    cluster.patch("Lease", "ops", "op", {"spec": changes})


def test_the_first_one_gains_it_and_the_second_waits() -> None:
    one, two = pair(FakeCluster())
    assert not one.lease.held()
    one.lease.ask()
    two.lease.ask()
    assert one.lease.held() and not two.lease.held()


def test_who_renews_keeps_it() -> None:
    one, two = pair(FakeCluster())
    for _ in range(50):
        one.lease.ask()
        two.lease.ask()
        assert one.lease.held() and not two.lease.held()
        passes(RENEW_S, one, two)
        assert one.lease.held()


def test_who_stops_renewing_is_replaced_after_the_duration_and_not_before() -> None:
    one, two = pair(FakeCluster())
    one.lease.ask()
    two.lease.ask()
    passes(HOLD_S, one, two)
    assert not one.lease.held()
    passes(DURATION_S - HOLD_S - ALMOST_S, one, two)
    two.lease.ask()
    assert not two.lease.held()
    passes(ALMOST_S, one, two)
    two.lease.ask()
    assert two.lease.held() and not one.lease.held()


@pytest.mark.parametrize("wrong_s", [-TEN_MINUTES_S, TEN_MINUTES_S])
def test_a_holder_whose_clock_is_wrong_is_replaced_neither_early_nor_late(wrong_s: float) -> None:
    one, two = pair(FakeCluster(), wrong_s)
    one.lease.ask()
    two.lease.ask()
    passes(DURATION_S - ALMOST_S, one, two)
    two.lease.ask()
    assert not two.lease.held()
    passes(ALMOST_S, one, two)
    two.lease.ask()
    assert two.lease.held()


def test_a_late_comer_waits_the_whole_duration_however_old_the_record_looks() -> None:
    cluster = FakeCluster()
    one, two = pair(cluster, -TEN_MINUTES_S)
    one.lease.ask()
    passes(10 * DURATION_S, one, two)
    two.lease.ask()
    assert not two.lease.held()
    passes(DURATION_S, one, two)
    two.lease.ask()
    assert two.lease.held()


def test_the_holder_says_for_how_long() -> None:
    """It may be of another version, and have been told other times."""
    cluster = FakeCluster()
    one, two = pair(cluster)
    one.lease.ask()
    edit(cluster, leaseDurationSeconds=3 * DURATION_S)
    two.lease.ask()
    passes(3 * DURATION_S - ALMOST_S, two)
    two.lease.ask()
    assert not two.lease.held()
    passes(ALMOST_S, two)
    two.lease.ask()
    assert two.lease.held()


def test_who_has_stood_still_does_not_hold_it_when_he_wakes() -> None:
    one, two = pair(FakeCluster())
    one.lease.ask()
    two.lease.ask()
    passes(DURATION_S, one, two)
    two.lease.ask()
    assert not one.lease.held()
    one.lease.ask()
    assert not one.lease.held() and two.lease.held()


@pytest.mark.parametrize("verb", ["create", "patch"])
def test_our_time_counts_from_before_the_request(verb: str) -> None:
    way = Disturbed(FakeCluster())
    one = Party(way, "one")
    if verb == "patch":
        one.lease.ask()
    way.before[verb] = lambda: passes(HOLD_S - 1, one)
    one.lease.ask()
    assert one.lease.held()
    passes(1, one)
    assert not one.lease.held()


def test_their_time_counts_from_after_the_answer() -> None:
    cluster = FakeCluster()
    way = Disturbed(cluster)
    one, two = Party(cluster, "one"), Party(way, "two")
    one.lease.ask()
    way.before["get"] = lambda: passes(5, two)
    two.lease.ask()
    passes(DURATION_S - ALMOST_S, two)
    two.lease.ask()
    assert not two.lease.held()


@pytest.mark.parametrize("verb", ["create", "patch"])
def test_of_two_who_try_at_once_one_succeeds(verb: str) -> None:
    cluster = FakeCluster()
    way = Disturbed(cluster)
    one, two = Party(way, "one"), Party(cluster, "two")
    if verb == "patch":  # a record that nobody holds
        one.lease.ask()
        one.lease.release()
        one = Party(way, "one")
    way.before[verb] = two.lease.ask
    try:
        one.lease.ask()
    except Conflict:
        assert verb == "patch"
    assert two.lease.held() and not one.lease.held()


def test_an_answer_that_is_lost_gives_nothing_until_the_next_one() -> None:
    cluster = FakeCluster()
    way = Disturbed(cluster)
    one, two = Party(way, "one"), Party(cluster, "two")
    two.lease.ask()
    two.lease.release()
    way.after["patch"] = no_answer
    with pytest.raises(Unreachable):
        one.lease.ask()
    assert spec(cluster)["holderIdentity"] == "one" and not one.lease.held()
    one.lease.ask()
    assert one.lease.held()


def test_without_answers_it_ends_by_itself_and_comes_back_with_the_first() -> None:
    way = Disturbed(FakeCluster())
    one = Party(way, "one")
    one.lease.ask()
    passes(HOLD_S - ALMOST_S, one)
    way.before["get"] = no_answer
    with pytest.raises(Unreachable):
        one.lease.ask()
    assert one.lease.held()
    passes(ALMOST_S, one)
    assert not one.lease.held()
    one.lease.ask()
    assert one.lease.held()


def test_after_a_release_the_next_one_begins_at_once() -> None:
    one, two = pair(FakeCluster())
    one.lease.ask()
    two.lease.ask()
    one.lease.close()
    one.lease.release()
    two.lease.ask()
    assert two.lease.held()


def test_its_innocent_twin_that_released_nothing_is_waited_for() -> None:
    one, two = pair(FakeCluster())
    one.lease.ask()
    two.lease.ask()
    one.lease.close()
    two.lease.ask()
    assert not two.lease.held()


def test_only_the_holder_releases() -> None:
    cluster = FakeCluster()
    one, two = pair(cluster)
    one.lease.ask()
    two.lease.close()
    two.lease.release()
    assert spec(cluster)["holderIdentity"] == "one"


def test_what_is_closed_is_never_held_again() -> None:
    """Its thread may have been in the middle of a request."""
    way = Disturbed(FakeCluster())
    one = Party(way, "one")
    one.lease.ask()
    way.before["patch"] = one.lease.close
    one.lease.ask()
    assert not one.lease.held()


def test_who_is_no_longer_named_has_lost_it_though_its_time_has_not_come() -> None:
    cluster = FakeCluster()
    one, _ = pair(cluster)
    one.lease.ask()
    edit(cluster, holderIdentity="a person with kubectl")
    one.lease.ask()
    assert not one.lease.held()


def test_a_record_that_somebody_deleted_is_made_again() -> None:
    cluster = FakeCluster()
    one, two = pair(cluster)
    one.lease.ask()
    cluster.delete("Lease", "ops", "op")
    one.lease.ask()
    two.lease.ask()
    assert one.lease.held() and not two.lease.held()


def test_the_record_tells_people_who_holds_it_since_when() -> None:
    cluster = FakeCluster()
    one, two = pair(cluster)
    one.lease.ask()
    first = spec(cluster)
    passes(RENEW_S, one, two)
    one.lease.ask()
    assert spec(cluster) == {**first, "renewTime": spec(cluster)["renewTime"]}
    assert first["renewTime"] < spec(cluster)["renewTime"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first["acquireTime"])
    assert (first["leaseDurationSeconds"], first["leaseTransitions"]) == (DURATION_S, 0)
    two.lease.ask()
    passes(DURATION_S, one, two)
    two.lease.ask()
    after = spec(cluster)
    assert (after["holderIdentity"], after["leaseTransitions"]) == ("two", 1)
    assert after["acquireTime"] == after["renewTime"] > first["renewTime"]


def test_whatever_is_under_way_when_ours_ends_has_ended_when_anothers_may_begin() -> None:
    assert HOLD_S + TIMEOUT_S + CHECK_S < DURATION_S
    assert 3 * RENEW_S < HOLD_S


def waiting(lease: Holding) -> tuple[threading.Thread, list[bool]]:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(lease.awaited()), daemon=True)
    thread.start()
    return thread, answers


def test_who_waits_for_it_goes_on_when_it_is_gained() -> None:
    one, _ = pair(FakeCluster())
    thread, answers = waiting(one.lease)
    assert answers == []
    one.lease.ask()
    thread.join(WAIT_S)
    assert answers == [True]


@pytest.mark.parametrize("lease", [pair(FakeCluster())[0].lease, Alone()], ids=["a lease", "none"])
def test_who_waits_for_it_goes_home_when_it_is_closed(lease: Holding) -> None:
    lease.close()
    thread, answers = waiting(lease)
    thread.join(WAIT_S)
    assert answers == [False]
    assert not lease.held()


def test_its_thread_takes_it_and_ends_with_it() -> None:
    cluster = FakeCluster()
    one, _ = pair(cluster)
    thread = threading.Thread(target=one.lease.run, daemon=True)
    thread.start()
    assert one.lease.awaited()
    one.lease.close()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    one.lease.release()
    assert not spec(cluster).get("holderIdentity")


def test_its_thread_outlives_what_goes_wrong(caplog: pytest.LogCaptureFixture) -> None:
    way = Disturbed(FakeCluster())
    one = Party(way, "one")

    def last_request() -> None:
        one.lease.close()
        no_answer()

    way.before["get"] = last_request
    one.lease.run()
    assert "lease ops/op: no answer; it is asked again" in caplog.text


def test_who_is_alone_may_act_until_it_ends() -> None:
    alone = Alone()
    assert alone.held() and alone.awaited()
    alone.close()
    alone.run()
    alone.release()
    assert not alone.held()
