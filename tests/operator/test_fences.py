"""Two operators at once, over one cluster: whoever does not hold the lease writes nothing, wherever it stood still.

Each of them has its own clocks. Between them and the cluster stands a witness, who reads in the Lease itself whose turn
it was at each write.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import pytest
from testbed.worlds import (
    MAX_LOOKS,
    NAMESPACE,
    SETTINGS,
    Crashing,
    FakeCluster,
    Played,
    ScriptedHelm,
    World,
    rests,
)
from tests.operator.test_leases import WAIT_S, Party, passes
from tests.operator.test_reconciliations import applied

from dedup_operator.admissions import Key
from dedup_operator.clusters import Cluster, Conflict, NotHolder, Object
from dedup_operator.fences import FencedCluster, FencedReleases
from dedup_operator.leases import DURATION_S, RENEW_S, Alone, Lease
from dedup_operator.metrics import Metrics
from dedup_operator.queues import WorkQueue
from dedup_operator.reconciliations import Reconciler
from dedup_operator.releases import Releases
from dedup_operator.watching import leave, work

READS: Final = {"get", "list"}
WRITES: Final[dict[str, tuple[Any, ...]]] = {
    "create": ({"kind": "Job", "metadata": {"name": "a", "namespace": "n"}},),
    "delete": ("Job", "n", "a"),
    "patch": ("Job", "n", "a", {}),
    "replace_status": ({"kind": "Job", "metadata": {"name": "a", "namespace": "n"}, "status": {}},),
}
LISTED: Final = SimpleNamespace(name="theirs")
RELEASES: Final[dict[str, tuple[Any, ...]]] = {
    "install": ("r", "n", "kafka", {}, {}),
    "render": (LISTED, "r", "n"),
    "install_rendered": (LISTED, "r", "n", [], {}),
}
TEN_MINUTES_S: Final = 600.0
SEEDS: Final = range(20)


@dataclass
class Noted:
    """Anything that is asked of it, by name."""

    asked: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.asked.append(name)


def methods(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


def test_each_request_there_is_reads_or_is_fenced() -> None:
    assert methods(Cluster) == READS | set(WRITES)
    assert methods(Releases) == set(RELEASES)


@pytest.mark.parametrize("verb", [*WRITES, *RELEASES])
def test_without_the_lease_nothing_is_asked(verb: str) -> None:
    inner: Any = Noted()
    fenced = FencedCluster(inner, lambda: False) if verb in WRITES else FencedReleases(inner, lambda: False)
    with pytest.raises(NotHolder, match="does not hold its lease"):
        getattr(fenced, verb)(*(WRITES | RELEASES)[verb])
    assert inner.asked == []


@pytest.mark.parametrize("verb", [*WRITES, *RELEASES])
def test_its_innocent_twin_with_the_lease_is_asked(verb: str) -> None:
    inner: Any = Noted()
    fenced = FencedCluster(inner, lambda: True) if verb in WRITES else FencedReleases(inner, lambda: True)
    getattr(fenced, verb)(*(WRITES | RELEASES)[verb])
    assert inner.asked == [verb]


@pytest.mark.parametrize("verb", sorted(READS))
def test_reads_pass(verb: str) -> None:
    inner: Any = Noted()
    fenced: Any = FencedCluster(inner, lambda: False)
    fenced.get("Job", "n", "a") if verb == "get" else fenced.list("Job", "n", "") if verb == "list" else None
    assert inner.asked == [verb]


# --- two operators ---


@dataclass
class Witness:
    """Whose turn it was, by the Lease as it stands in the cluster, whenever this operator wrote."""

    inner: Played
    name: str
    out_of_turn: list[str]
    leases: str
    """The Lease's namespace."""

    def __getattr__(self, verb: str) -> Any:
        if verb in WRITES:
            lease = self.inner.get("Lease", self.leases, "op") or {"spec": {}}
            if lease["spec"].get("holderIdentity") != self.name:
                self.out_of_turn.append(f"{self.name}: {verb}")
        return getattr(self.inner, verb)


@dataclass
class Stalling(Crashing):
    """A way to the cluster on which the operator stands still before and after each write, while something happens."""

    meanwhile: Callable[[int], None] = lambda _moment: None

    def _may_crash(self) -> None:
        self.moment += 1
        self.meanwhile(self.moment)


class Fence(Enum):
    """Where an operator stands still: before it asks the fence, after that, or it has none."""

    AHEAD = "ahead"
    BEHIND = "behind"
    NONE = "none"


class Operator:
    """One of two. Helm's writes ask the fence too: it is killed when the lease ends (test_releases.py)."""

    def __init__(self, duel: "Duel", name: str, wrong_s: float, fence: Fence, own_clock: bool) -> None:
        self.duel = duel
        self.party = Party(
            duel.cluster, name, began_s=1_000.0 * len(name), wrong_s=wrong_s, namespace=duel.world.namespace
        )
        held = self.party.lease.held if fence is not Fence.NONE else lambda: True
        witness: Any = Witness(duel.cluster, name, duel.out_of_turn, duel.world.namespace)
        self.way = Stalling(witness if fence is Fence.BEHIND else FencedCluster(witness, held))
        cluster: Cluster = FencedCluster(self.way, held) if fence is Fence.BEHIND else self.way
        helm = FencedReleases(ScriptedHelm(cluster, duel.world.installed), held)
        self.reconciler = Reconciler(cluster, helm, SETTINGS, lambda: duel.world.now_s + own_clock * wrong_s)

    def step(self) -> bool:
        """Renew the lease and look once; the player moves where only waiting helps. False: nothing is left to do."""
        self.party.lease.ask()
        again_s = self.reconciler.look((self.duel.world.namespace, "e"))
        if again_s and not rests(again_s):
            self.duel.world.player.move()
            self.duel.passes(1)
        return not rests(again_s)

    def goes_on(self) -> None:
        """To the end, or until it may not any more."""
        for _ in range(MAX_LOOKS):
            try:
                if not self.step():
                    return
            except Conflict:
                continue
            except NotHolder:
                return
        raise AssertionError(f"going round in circles: {self.duel.world.status()}")


class Duel:
    """A cluster, an experiment, and two operators whose wall clocks are ten minutes apart.

    The cluster's clock is what they go by, unless each goes by its own.
    """

    def __init__(self, fence: Fence = Fence.AHEAD, own_clocks: bool = False, world: World | None = None) -> None:
        self.world = world or applied()
        self.cluster, self.out_of_turn = self.world.cluster, list[str]()
        self.first = Operator(self, "first", 0.0, fence, own_clocks)
        self.second = Operator(self, "the second", TEN_MINUTES_S, fence, own_clocks)

    def passes(self, s: float) -> None:
        self.world.now_s += s
        passes(s, self.first.party, self.second.party)

    def hand_over(self, to: Operator) -> None:
        """Nobody renews for so long that the other one takes the lease."""
        to.party.lease.ask()
        self.passes(DURATION_S)
        to.party.lease.ask()
        assert to.party.lease.held()

    def ended_well(self, calm: World) -> bool:
        jobs = sorted(self.world.player.jobs.values()) == sorted(calm.player.jobs.values())
        return jobs and self.world.status()["verdict"] == "Pass" and self.world.orphans() == [] and not self.running()

    def running(self) -> list[Object]:
        return [
            job
            for job in self.cluster.list("Job", self.world.namespace, "")
            if not (job.get("status") or {}).get("conditions")
        ]


def stood_still(moment: int, fence: Fence = Fence.AHEAD, own_clocks: bool = False, world: World | None = None) -> Duel:
    """The first operator stands still at one of its moments; the second takes over, and all is done when it wakes."""
    duel = Duel(fence, own_clocks, world)

    def meanwhile(now: int) -> None:
        if now == moment:
            duel.hand_over(duel.second)
            duel.second.goes_on()

    duel.first.way.meanwhile = meanwhile
    duel.first.goes_on()
    duel.second.goes_on()
    return duel


def calm() -> tuple[World, int]:
    world = applied()
    world.run()
    return world, world.moments


@pytest.mark.long
def test_who_stands_still_anywhere_writes_nothing_when_it_wakes(tell: Callable[[str], None]) -> None:
    """At each of its writes, while the other one takes the experiment to its verdict."""
    world, moments = calm()
    for moment in range(1, moments + 1):
        duel = stood_still(moment)
        assert duel.out_of_turn == [], moment
        assert duel.ended_well(world), moment
    tell(f"{moments} moments")


@pytest.mark.long
def test_its_twin_without_a_fence_does_harm() -> None:
    """Else the test above would prove nothing."""
    world, moments = calm()
    duels = [stood_still(moment, Fence.NONE) for moment in range(1, moments + 1, 2)]
    assert any(duel.out_of_turn for duel in duels)
    assert any(not duel.ended_well(world) for duel in duels)


@pytest.mark.long
def test_its_twin_whose_operators_go_by_their_own_clocks_does_harm() -> None:
    """The second one takes what the first one has just begun for something that never ends."""
    world, moments = calm()
    assert any(not stood_still(moment, own_clocks=True).ended_well(world) for moment in range(2, moments + 1, 2))


@pytest.mark.long
def test_a_request_that_was_let_through_before_it_stood_still_is_one_and_changes_no_verdict() -> None:
    """What no fence can see (decision 016). Before each write."""
    _, moments = calm()
    for moment in range(1, moments + 1, 2):
        duel = stood_still(moment, Fence.BEHIND)
        assert len(duel.out_of_turn) == 1, moment
        assert duel.world.status()["verdict"] == "Pass", moment


def test_who_waits_writes_nothing_while_the_other_one_works() -> None:
    """It tries at each of the other's writes: also in the middle of an installation, which looks like a crash's."""
    (world, _), duel = calm(), Duel()

    def tries(_moment: int) -> None:
        duel.passes(RENEW_S)
        for each in (duel.first, duel.second):
            each.party.lease.ask()
        duel.second.goes_on()

    duel.first.way.meanwhile = tries
    duel.first.goes_on()
    assert duel.out_of_turn == [] and duel.second.way.moment > 0
    assert duel.ended_well(world)
    assert len(duel.world.installed) == 1


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_the_lease_goes_to_and_fro_at_their_writes(seed: int) -> None:
    """Whoever loses it tries to go on at once; the other one begins with what it finds."""
    chance, duel = random.Random(seed), Duel()
    turn, other, handed = duel.first, duel.second, 0
    while duel.world.status().get("verdict") is None:
        turn.way.meanwhile = partial(hands_over, duel, other, turn.way.moment + chance.randint(1, 30))
        turn.goes_on()
        turn, other, handed = other, turn, handed + 1
        assert handed < MAX_LOOKS
    (world, _) = calm()
    assert duel.out_of_turn == []
    assert duel.ended_well(world)


def hands_over(duel: Duel, to: Operator, moment: int, now: int) -> None:
    if now == moment:
        duel.hand_over(to)


# --- the workers ---


class Looked:
    """In place of a reconciler: which experiments were looked at. What is to happen in a look happens once."""

    def __init__(self, enough: int, then: Callable[[], None]) -> None:
        self.keys: list[Key] = []
        self.in_a_look: dict[Key, Callable[[], None]] = {}
        self._enough, self._then = enough, then

    def look(self, key: Key) -> float | None:
        self.in_a_look.pop(key, lambda: None)()
        self.keys.append(key)
        if len(self.keys) == self._enough:
            self._then()
        return None


def worked(queue: WorkQueue[Key], looked: Any, lease: Lease) -> tuple[threading.Thread, Metrics]:
    metrics = Metrics()
    thread = threading.Thread(target=work, args=(queue, looked, metrics, lease), daemon=True)
    thread.start()
    return thread, metrics


def test_without_the_lease_nobody_looks_and_with_it_everybody_is_looked_at() -> None:
    """Events that come meanwhile wait in the queue, each experiment once."""
    cluster, queue = FakeCluster(), WorkQueue[Key]()
    holder, party = Party(cluster, "holder"), Party(cluster, "me")
    holder.lease.ask()
    party.lease.ask()
    keys = [(NAMESPACE, f"e{number}") for number in range(200)]
    done = threading.Event()
    looked = Looked(len(keys), done.set)
    thread, _ = worked(queue, looked, party.lease)
    for key in [*keys, *keys]:
        queue.add(key)
    party.lease.ask()
    assert looked.keys == [] and len(queue) == len(keys)
    holder.lease.close()
    holder.lease.release()
    party.lease.ask()
    assert done.wait(WAIT_S)
    assert looked.keys == keys
    party.lease.close()
    queue.close()
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_a_look_that_the_end_of_the_lease_cut_short_is_taken_up_again() -> None:
    queue = WorkQueue[Key]()
    party = Party(FakeCluster(), "me")
    party.lease.ask()
    lost, done = threading.Event(), threading.Event()
    looked = Looked(2, done.set)

    def loses() -> None:
        passes(DURATION_S, party)
        lost.set()
        raise NotHolder("create Job: this operator does not hold its lease")

    looked.in_a_look[NAMESPACE, "a"] = loses
    queue.add((NAMESPACE, "a"))
    queue.add((NAMESPACE, "b"))
    _, metrics = worked(queue, looked, party.lease)
    assert lost.wait(WAIT_S)
    assert looked.keys == []
    party.lease.ask()
    assert done.wait(WAIT_S)
    assert sorted(looked.keys) == [(NAMESPACE, "a"), (NAMESPACE, "b")]
    assert "dedup_operator_fenced_total 1.0\n" in metrics.text({})
    assert "dedup_operator_crashes_total 0.0\n" in metrics.text({})
    party.lease.close()
    queue.close()


class Overheard:
    """A queue or a lease, where each call of one method can be waited for."""

    def __init__(self, inner: Any, method: str) -> None:
        self._inner, self._method, self.calls = inner, method, threading.Semaphore(0)

    def __getattr__(self, name: str) -> Any:
        if name == self._method:
            self.calls.release()
        return getattr(self._inner, name)


def test_a_lease_that_ends_while_a_worker_waits_for_a_key_is_seen() -> None:
    party = Party(FakeCluster(), "me")
    party.lease.ask()
    queue, lease = Overheard(WorkQueue[Key](), "get"), Overheard(party.lease, "awaited")
    done = threading.Event()
    looked: Any = Looked(1, done.set)
    threading.Thread(target=work, args=(queue, looked, Metrics(), lease), daemon=True).start()
    assert lease.calls.acquire(timeout=WAIT_S)
    assert queue.calls.acquire(timeout=WAIT_S)
    passes(DURATION_S, party)
    queue.add((NAMESPACE, "a"))
    assert lease.calls.acquire(timeout=WAIT_S)
    assert looked.keys == []
    party.lease.ask()
    assert done.wait(WAIT_S)
    party.lease.close()
    queue.close()


def test_it_leaves_in_order_and_the_next_one_begins_at_once() -> None:
    cluster, queue = FakeCluster(), WorkQueue[Key]()
    party, following = Party(cluster, "me"), Party(cluster, "next")
    party.lease.ask()
    following.lease.ask()
    thread, _ = worked(queue, Looked(1, lambda: None), party.lease)
    leave(queue, party.lease, [thread], WAIT_S)
    assert not thread.is_alive()
    following.lease.ask()
    assert following.lease.held()


def test_its_twin_who_is_still_at_work_gives_nothing_back() -> None:
    cluster, queue, go_on = FakeCluster(), WorkQueue[Key](), threading.Event()
    party, following = Party(cluster, "me"), Party(cluster, "next")
    party.lease.ask()
    following.lease.ask()
    thread = threading.Thread(target=go_on.wait, args=(WAIT_S,), daemon=True)
    thread.start()
    leave(queue, party.lease, [thread], 0.0)
    following.lease.ask()
    assert not following.lease.held() and not party.lease.held()
    go_on.set()


def test_an_end_without_an_api_server_is_an_end(caplog: pytest.LogCaptureFixture) -> None:
    class Gone(Alone):
        def release(self) -> None:
            raise NotHolder("nobody answers")

    leave(WorkQueue[Key](), Gone(), [], 0.0)
    assert "the lease was not given back: nobody answers" in caplog.text
