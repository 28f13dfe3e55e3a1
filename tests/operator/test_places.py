"""An experiment that cannot go on gives its place up when nothing of it runs any more, and goes on in its turn."""

from typing import Any

import pytest
from testbed.worlds import NAMESPACE
from tests.operator.test_admissions import LIMIT, Crowd

from dedup.errors import PlatformError
from dedup_operator import reconciliations
from dedup_operator.admissions import Stand, entry_of
from dedup_operator.places import AT_MOST_S, KEEPS_S
from dedup_operator.reconciliations import LOOK_AGAIN_S


def go_on(crowd: Crowd, *names: str, looks: int = 40, until: Any = lambda: False) -> None:
    for _ in range(looks):
        if until():
            return
        crowd.look(*names)
        crowd.world.player.move()
        crowd.world.now_s += LOOK_AGAIN_S


def edit(crowd: Crowd, name: str, **spec: Any) -> None:
    generation = crowd.world.live(name)["metadata"]["generation"] + 1
    change = {"spec": spec, "metadata": {"generation": generation}}
    crowd.cluster.patch("DedupExperiment", NAMESPACE, name, change)


def status(crowd: Crowd, name: str) -> dict[str, Any]:
    return dict(crowd.world.live(name).get("status") or {})


def running(crowd: Crowd, *names: str) -> None:
    """Each has a run that goes on."""

    def all_run() -> bool:
        jobs = crowd.cluster.list("Job", NAMESPACE, "dedup.dev/component=run")
        active = {
            job["metadata"]["labels"]["dedup.dev/experiment"] for job in jobs if (job.get("status") or {}).get("ready")
        }
        return active >= set(names)

    go_on(crowd, *names, until=all_run)
    assert all_run()


def things(crowd: Crowd, name: str) -> list[str]:
    """Systems and runs of it that are there."""
    found = crowd.cluster.list("StatefulSet", NAMESPACE, "")
    experiment = crowd.cluster.get("DedupExperiment", NAMESPACE, name)
    systems = [each for each in found if experiment is not None and _of(each, experiment["metadata"]["uid"])]
    jobs = crowd.cluster.list("Job", NAMESPACE, f"dedup.dev/component=run,dedup.dev/experiment={name}")
    live = [each for each in jobs if not (each.get("status") or {}).get("conditions")]
    return [each["metadata"]["name"] for each in [*systems, *live]]


def _of(made: dict[str, Any], uid: str) -> bool:
    return any(each["uid"] == uid for each in made["metadata"]["ownerReferences"])


def lose_the_keys(crowd: Crowd) -> Any:
    """All stall: the keys of the store are gone."""
    secret = crowd.cluster.get("Secret", NAMESPACE, "store")
    crowd.cluster.delete("Secret", NAMESPACE, "store")
    return secret


def test_those_that_are_suspended_let_the_others_by_once_nothing_of_them_runs() -> None:
    crowd = Crowd()
    crowd.apply("a", "b", "c")
    running(crowd, "a", "b")
    assert things(crowd, "a") and things(crowd, "b")
    edit(crowd, "a", suspend=True)
    crowd.look("a")
    assert entry_of(crowd.world.live("a")).stand is Stand.BEGUN, "its run is being ended"
    go_on(crowd, "a", "b", "c", until=lambda: "state" in status(crowd, "c"))
    assert status(crowd, "a")["parked"] is True and things(crowd, "a") == []
    assert status(crowd, "a")["phase"] == "Pending"
    assert "state" in status(crowd, "c")


def test_nobody_begins_while_a_pod_of_a_suspended_run_still_ends() -> None:
    crowd = Crowd()
    crowd.apply("a", "b", "c")
    running(crowd, "a", "b")
    crowd.world.player.ending_moves = 5
    edit(crowd, "a", suspend=True)
    for _ in range(4):
        crowd.look("a", "c")
        crowd.world.player.move()
    assert "state" not in status(crowd, "c") and things(crowd, "a")
    go_on(crowd, "a", "c", until=lambda: "state" in status(crowd, "c"))
    assert "state" in status(crowd, "c")


def test_one_that_never_ends_holds_its_place_for_a_bounded_time() -> None:
    """Its node is gone."""
    crowd = Crowd()
    crowd.apply("a", "b", "c")
    running(crowd, "a", "b")
    crowd.world.player.ending_moves = 10**6
    edit(crowd, "a", suspend=True)
    for _ in range(9):
        crowd.look("a", "c")
        crowd.world.player.move()
    assert "parked" not in status(crowd, "a")
    crowd.world.now_s += 10 * 3600
    crowd.look("a")
    crowd.look("c")
    assert (status(crowd, "a")["parked"], "state" in status(crowd, "c")) == (True, True)


@pytest.mark.parametrize("what", ["_go_on", "_begun"])
def test_a_defect_of_the_operators_own_is_told_and_keeps_no_place_for_ever(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step crashes; with `_begun` even what would end its run."""
    crowd = Crowd()
    crowd.apply("a", "b")
    running(crowd, "a", "b")
    crashing: list[str] = []

    def crash(_look: Any, *_args: Any) -> None:
        crashing.append(what)
        raise RecursionError("too deep\nto follow")

    with monkeypatch.context() as broken:
        broken.setattr(reconciliations._Look, "_go_on", crash)
        broken.setattr(reconciliations._Look, what, crash)
        with pytest.raises(RecursionError):
            crowd.look("a")
        assert (status(crowd, "a")["phase"], crowd.verdict("a")) == ("Stalled", None)
        assert "RecursionError: too deep to follow; it is tried again" in crowd.words("a")
        for _ in range(int(AT_MOST_S / LOOK_AGAIN_S) + 2):
            if status(crowd, "a").get("parked"):
                break
            crowd.world.now_s += LOOK_AGAIN_S
            with pytest.raises(RecursionError):
                crowd.look("a")
            crowd.world.player.move()
        assert status(crowd, "a")["parked"] is True and crashing
    go_on(crowd, "a", "b", looks=200, until=lambda: all(crowd.verdict(name) for name in "ab"))
    assert [crowd.verdict(name) for name in "ab"] == ["Pass"] * 2


def test_an_end_stands_though_a_later_step_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd()
    crowd.apply("a")
    go_on(crowd, "a", looks=200, until=lambda: status(crowd, "a").get("verdict"))
    before = status(crowd, "a")

    def crash(_look: Any, *_args: Any) -> None:
        raise RecursionError

    monkeypatch.setattr(reconciliations._Look, "_ended", crash)
    with pytest.raises(RecursionError):
        crowd.look("a")
    assert status(crowd, "a") == before


def test_resumed_it_waits_for_its_turn_and_comes_to_its_verdict() -> None:
    crowd = Crowd()
    crowd.apply("a", "b", "c")
    running(crowd, "a", "b")
    edit(crowd, "a", suspend=True)
    go_on(crowd, "a", "b", "c", until=lambda: "state" in status(crowd, "c"))
    edit(crowd, "a", suspend=False)
    crowd.look("a")
    assert crowd.words("a") == f"1st in the queue; {LIMIT} may run at a time"
    assert status(crowd, "a")["state"]["digest"]
    go_on(crowd, "a", "b", "c", looks=200, until=lambda: all(crowd.verdict(name) for name in "abc"))
    assert [crowd.verdict(name) for name in "abc"] == ["Pass"] * 3
    assert crowd.most == LIMIT
    assert status(crowd, "a")["state"]["failures"] == 0


@pytest.mark.parametrize("phase", ["Provisioning", "Running", "TearingDown", "Verifying", "Reporting"])
def test_in_whatever_stage_it_is_parked_it_goes_on_from_there(phase: str) -> None:
    crowd = Crowd()
    crowd.apply("a")
    go_on(crowd, "a", until=lambda: status(crowd, "a").get("phase") == phase)
    edit(crowd, "a", suspend=True)
    go_on(crowd, "a", until=lambda: status(crowd, "a").get("parked"))
    assert status(crowd, "a")["parked"] is True and things(crowd, "a") == []
    crowd.world.now_s += 10**6
    edit(crowd, "a", suspend=False)
    go_on(crowd, "a", looks=100, until=lambda: crowd.verdict("a"))
    assert (crowd.verdict("a"), status(crowd, "a")["state"]["failures"]) == ("Pass", 0)
    assert "parked" not in status(crowd, "a")


def test_those_that_stall_for_long_let_others_by_and_ask_anew() -> None:
    crowd = Crowd()
    crowd.apply("a", "b")
    running(crowd, "a", "b")
    secret = lose_the_keys(crowd)
    go_on(crowd, "a", "b", looks=3)
    assert "parked" not in status(crowd, "a") and things(crowd, "a"), "most are mended soon"
    crowd.world.now_s += KEEPS_S
    go_on(crowd, "a", "b", looks=6)
    assert [status(crowd, name).get("parked") for name in "ab"] == [True, True]
    assert [status(crowd, name)["phase"] for name in "ab"] == ["Stalled"] * 2
    assert things(crowd, "a") == things(crowd, "b") == []
    crowd.cluster.create(secret)
    go_on(crowd, "a", "b", looks=100, until=lambda: crowd.verdict("a") and crowd.verdict("b"))
    assert (crowd.verdict("a"), crowd.verdict("b")) == ("Pass", "Pass")


@pytest.mark.parametrize(
    ("error", "counted"),
    [(KeyError("a defect"), True), (PlatformError(where="w", got="g", rule="r", todo="t"), False)],
    ids=["defect", "unreadable"],
)
def test_a_defect_in_the_end_of_one_that_stalls_is_counted_and_logged_with_where_it_was(
    error: Exception, counted: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The look that met it ends well: nobody else would tell of it."""
    crowd = Crowd()
    crowd.apply("a")
    running(crowd, "a")
    lose_the_keys(crowd)
    go_on(crowd, "a", looks=3)
    crowd.world.now_s += KEEPS_S

    def crash(*_args: Any) -> None:
        raise error

    monkeypatch.setattr(reconciliations, "made_room", crash)
    with caplog.at_level("INFO"):
        crowd.look("a")
    (said,) = (each for each in caplog.records if "is not ended" in each.message)
    assert (status(crowd, "a")["phase"], bool(said.exc_info)) == ("Stalled", counted)
    assert ("dedup_operator_crashes_total 1.0\n" in crowd.operator.metrics.text({})) is counted


def test_one_that_is_mended_soon_keeps_its_place_and_its_run() -> None:
    crowd = Crowd()
    crowd.apply("a", "b", "c")
    running(crowd, "a", "b")
    before = things(crowd, "a")
    secret = lose_the_keys(crowd)
    for _ in range(3):
        crowd.look("a", "b", "c")
    crowd.cluster.create(secret)
    crowd.look("a")
    assert things(crowd, "a") == before
    assert "state" not in status(crowd, "c")


def test_one_whose_snapshot_cannot_be_read_holds_no_place_for_ever() -> None:
    crowd = Crowd()
    crowd.apply("a")
    running(crowd, "a")
    for made in crowd.cluster.list("ConfigMap", NAMESPACE, "dedup.dev/component=snapshot"):
        crowd.cluster.patch("ConfigMap", NAMESPACE, made["metadata"]["name"], {"metadata": {"ownerReferences": []}})
    crowd.look("a")
    crowd.world.now_s += KEEPS_S + 1
    crowd.look("a")
    assert "parked" not in status(crowd, "a")
    crowd.world.now_s += 3600
    crowd.look("a")
    assert status(crowd, "a")["parked"] is True


def conductor_ended(crowd: Crowd, name: str, state: dict[str, Any]) -> None:
    """The player moves no Job meanwhile: the courier still carries."""
    (pod,) = crowd.cluster.list("Pod", NAMESPACE, f"dedup.dev/component=run,dedup.dev/experiment={name}")
    crowd.cluster.set_status(pod, {"phase": "Running", "containerStatuses": [{"name": "conductor", "state": state}]})


ENDED = {"terminated": {"exitCode": 0}}
FAILED = {"terminated": {"exitCode": 4}}
RUNS: dict[str, Any] = {"running": {}}


def run_jobs(crowd: Crowd, name: str) -> list[str]:
    jobs = crowd.cluster.list("Job", NAMESPACE, f"dedup.dev/component=run,dedup.dev/experiment={name}")
    return [each["metadata"]["name"] for each in jobs]


@pytest.mark.parametrize(("state", "stays"), [(ENDED, True), (FAILED, True), (RUNS, False)])
def test_a_suspension_waits_for_a_run_that_only_carries_its_result(state: dict[str, Any], stays: bool) -> None:
    """Another attempt beside a finished one would be two results of one run, an error."""
    crowd = Crowd()
    crowd.apply("a")
    running(crowd, "a")
    jobs = run_jobs(crowd, "a")
    conductor_ended(crowd, "a", state)
    edit(crowd, "a", suspend=True)
    for _ in range(3):
        crowd.look("a")
    assert (run_jobs(crowd, "a") == jobs) is stays
    assert "parked" not in status(crowd, "a") or not stays
    go_on(crowd, "a", until=lambda: status(crowd, "a").get("parked"))
    assert status(crowd, "a")["parked"] is True
    edit(crowd, "a", suspend=False)
    go_on(crowd, "a", looks=100, until=lambda: crowd.verdict("a"))
    assert crowd.verdict("a") == "Pass"
    attempts = {job for job in crowd.world.player.jobs if crowd.world.player.jobs[job]}
    assert len(attempts) == (2 if stays else 3)


@pytest.mark.parametrize(("state", "stays"), [(ENDED, True), (RUNS, False)])
def test_so_does_a_stall_that_lasts(state: dict[str, Any], stays: bool) -> None:
    crowd = Crowd()
    crowd.apply("a")
    running(crowd, "a")
    jobs = run_jobs(crowd, "a")
    conductor_ended(crowd, "a", state)
    lose_the_keys(crowd)
    crowd.look("a")
    crowd.world.now_s += KEEPS_S + 1
    crowd.look("a")
    assert (run_jobs(crowd, "a") == jobs) is stays


def test_a_courier_that_never_ends_holds_a_place_for_a_bounded_time() -> None:
    crowd = Crowd()
    crowd.apply("a")
    running(crowd, "a")
    conductor_ended(crowd, "a", ENDED)
    edit(crowd, "a", suspend=True)
    crowd.look("a")
    crowd.world.now_s += 10 * 3600
    crowd.look("a")
    assert status(crowd, "a")["parked"] is True
