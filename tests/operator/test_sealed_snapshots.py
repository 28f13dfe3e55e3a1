"""A snapshot that somebody else wrote, and one that is gone or changed in mid-execution: told in words, and not run.

Who may edit a namespace may make, delete and remake any ConfigMap in it, with our experiment as its owner.
"""

import json
from typing import Any, Final

import pytest
from testbed.specs import changed
from testbed.worlds import NAMESPACE, SETTINGS, STORE, FakeCluster, World
from tests.operator.test_reconciliations import SMALL, applied, edit, message
from tests.operator.test_settings_of_executions import everything

from dedup.errors import PlatformError
from dedup.experiment.spec import parse
from dedup_operator.clusters import Object
from dedup_operator.executions import begun
from dedup_operator.objects.names import Owner
from dedup_operator.objects.reports import FAILURES_FILE, failures, failures_in
from dedup_operator.objects.settings import Image
from dedup_operator.objects.snapshots import FILE, digest_of, read, settings_in, snapshot, snapshot_name
from dedup_operator.objects.snapshots import SETTINGS as SETTINGS_FILE
from dedup_operator.statuses import read as read_status

OWNER: Final = Owner(NAMESPACE, "e", "6f1c")
SNAPSHOT: Final = snapshot_name(OWNER)
EVIL: Final = SETTINGS.model_copy(
    update={"runner_image": Image(repository="evil", tag="1"), "spark_image": Image(repository="evil", tag="1")}
)
OTHERS: Final = SETTINGS.model_copy(update={"runner_image": Image(repository="upgraded", tag="1")})
ANOTHER: Final = "got another one than was written"
GONE: Final = "got none, and the experiment or the operator's settings were changed"


def forge(world: World, owner: Owner = OWNER, *changes: tuple[str, Any], **meta: Any) -> None:
    """In the place of what is there: as the operator makes it, of settings of his own."""
    made = snapshot(owner, parse(changed(*SMALL, *changes), source="his"), EVIL)
    world.cluster.delete("ConfigMap", NAMESPACE, snapshot_name(owner))
    assert world.cluster.create({**made, "metadata": made["metadata"] | meta})


def kept(world: World, owner: Owner = OWNER) -> Object | None:
    return world.cluster.get("ConfigMap", NAMESPACE, snapshot_name(owner))


def in_mid_run() -> World:
    world = applied()
    world.run(until=lambda _status: any(world.player.jobs.values()))
    return world


def look(world: World) -> str:
    """Why it stalls, after one look that makes nothing."""
    assert isinstance(world.cluster, FakeCluster)
    before = {key for key in world.cluster.objects if key[0] != "Event"}
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is not None
    assert {key for key in world.cluster.objects if key[0] != "Event"} == before
    assert world.condition("Stalled")[0] == "True"
    return message(world, "Stalled")


def of_an_older_operator(world: World) -> None:
    """Which wrote no digest."""
    assert isinstance(world.cluster, FakeCluster)
    del world.cluster.objects["DedupExperiment", NAMESPACE, "e"]["status"]["snapshotDigest"]


# --- before anything is begun ---------------------------------------------------------------------------------------


def test_one_that_was_there_before_the_operator_came_is_not_believed() -> None:
    world = applied(("spec/suspend", True))
    world.run()
    forge(world)
    edit(world, suspend=False)
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert "evil" not in everything(world)


def test_its_twin_that_says_what_the_operator_would_write_stays() -> None:
    """It died between the snapshot and the status."""
    world = applied()
    made = snapshot(OWNER, parse(changed(*SMALL), source="ours"), SETTINGS)
    world.cluster.create(made)
    before = kept(world)
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert kept(world) == before


def test_another_experiment_is_not_run_either() -> None:
    world = applied()
    forge(world, OWNER, ("spec/seed", 7))
    world.run(until=lambda status: "state" in status)
    found = kept(world)
    assert found is not None
    assert read(found).spec.seed == parse(changed(*SMALL), source="ours").spec.seed
    assert world.status()["snapshotDigest"] == digest_of(found)


def test_nor_is_that_of_the_next_run_token() -> None:
    world, second = in_mid_run(), OWNER._replace(token="2")
    forge(world, second)
    edit(world, runToken="2")
    world.run()
    assert (world.status()["verdict"], world.status()["observedRunToken"]) == ("Pass", "2")
    assert "evil" not in everything(world)


def test_an_upgrade_before_anything_is_begun_is_taken() -> None:
    """The operator died after the snapshot, and another one with other settings came back."""
    world = applied()
    world.cluster.create(snapshot(OWNER, parse(changed(*SMALL), source="ours"), SETTINGS))
    world.settings = OTHERS
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert "upgraded:1" in everything(world)


def test_one_that_cannot_be_deleted_stalls_it_until_it_is_gone() -> None:
    world = applied()
    forge(world, finalizers=["his.example/stays"])
    assert look(world).startswith(f"ConfigMap {SNAPSHOT}: {ANOTHER}; ")
    assert "state" not in world.status()
    world.cluster.patch("ConfigMap", NAMESPACE, SNAPSHOT, {"metadata": {"finalizers": []}})
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert "evil" not in everything(world)


def test_what_has_begun_nothing_is_not_left_by_what_somebody_else_wrote() -> None:
    """A removal runs images, and reads charts, of those settings."""
    world = applied(("spec/suspend", True))
    world.run()
    forge(world)
    assert begun(world.cluster, OWNER, read_status(world.live()), world.live(), SETTINGS) is None


# --- in mid-execution -----------------------------------------------------------------------------------------------


def test_one_that_was_made_again_in_mid_run_stalls_it_until_what_was_written_is_back() -> None:
    world = in_mid_run()
    written = kept(world)
    assert written is not None
    forge(world)
    assert look(world).startswith(f"ConfigMap {SNAPSHOT}: {ANOTHER}; an execution runs what was written down")
    assert "choose another spec.runToken" in message(world, "Stalled")
    world.cluster.delete("ConfigMap", NAMESPACE, SNAPSHOT)
    world.cluster.create(written)
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert "evil" not in everything(world)


def test_or_until_another_run_token_is_chosen() -> None:
    world = in_mid_run()
    forge(world)
    look(world)
    edit(world, runToken="2")
    world.run()
    assert (world.status()["verdict"], world.player.overlaps) == ("Pass", [])
    found = kept(world)
    assert found is not None and found["metadata"]["annotations"]["dedup.dev/replaced"] == "true"
    world.cluster.delete("ConfigMap", NAMESPACE, SNAPSHOT)
    assert "evil" not in everything(world)


def test_one_that_was_deleted_is_made_again_if_nothing_was_changed() -> None:
    world = in_mid_run()
    written = kept(world)
    world.cluster.delete("ConfigMap", NAMESPACE, SNAPSHOT)
    world.run()
    assert world.status()["verdict"] == "Pass"
    made = kept(world)
    assert made is not None and written is not None and made["data"] == written["data"]


@pytest.mark.parametrize("change", ["the experiment", "the settings"])
def test_its_twin_after_a_change_is_not_made_and_told(change: str) -> None:
    world = in_mid_run()
    world.cluster.delete("ConfigMap", NAMESPACE, SNAPSHOT)
    seed = world.live()["spec"].get("seed")
    if change == "the experiment":
        edit(world, seed=7)
    else:
        world.settings = OTHERS
    assert look(world).startswith(f"ConfigMap {SNAPSHOT}: {GONE}; ")
    assert kept(world) is None
    edit(world, seed=seed)
    world.settings = SETTINGS
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_one_that_nobody_may_use_is_left_by_what_the_resource_says() -> None:
    world = in_mid_run()
    forge(world, OWNER, ("spec/seed", 7))
    found = begun(world.cluster, OWNER, read_status(world.live()), world.live(), SETTINGS)
    assert found is not None
    assert found[0].digest() == world.status()["state"]["digest"]
    assert found[1].runner_image == SETTINGS.runner_image
    edit(world, seed=7)
    assert begun(world.cluster, OWNER, read_status(world.live()), world.live(), SETTINGS) is None


def test_its_twin_that_was_written_says_what_is_left_however_the_resource_was_edited() -> None:
    world = in_mid_run()
    edit(world, seed=7)
    found = begun(world.cluster, OWNER, read_status(world.live()), world.live(), OTHERS)
    assert found is not None
    assert found[0].digest() == world.status()["state"]["digest"]
    assert found[1].runner_image == SETTINGS.runner_image


def test_the_digest_stays_in_the_status_to_the_end_and_the_next_execution_has_its_own() -> None:
    world = in_mid_run()
    first = world.status()["snapshotDigest"]
    edit(world, suspend=True)
    world.run()
    edit(world, suspend=False)
    world.run()
    assert (world.status()["verdict"], world.status()["snapshotDigest"]) == ("Pass", first)
    edit(world, runToken="2", seed=7)
    world.run()
    second = kept(world, OWNER._replace(token="2"))
    assert second is not None
    assert world.status()["snapshotDigest"] == digest_of(second) != first


def test_what_an_older_operator_began_goes_on_and_is_not_sealed_late() -> None:
    """Nobody knows whether what is there by now is what it wrote."""
    world = in_mid_run()
    of_an_older_operator(world)
    world.cluster.delete("ConfigMap", NAMESPACE, SNAPSHOT)
    world.settings = OTHERS
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert "snapshotDigest" not in world.status()


# --- what cannot be read --------------------------------------------------------------------------------------------

UNREADABLE: Final[dict[str, Any]] = {
    "no data": None,
    "no file": {},
    "no text": {FILE: None, FAILURES_FILE: None},
    "no JSON": {FILE: "{", FAILURES_FILE: "{"},
    "too deep": {FILE: "[" * 100_000, FAILURES_FILE: "[" * 100_000},
    "a number that is too long": {FILE: "1" * 5000, FAILURES_FILE: "1" * 5000},
}


def with_data(data: Any) -> Object:
    return {"metadata": {"name": "d", "namespace": NAMESPACE}, "data": data}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_told_in_words(data: Any) -> None:
    for reader, file in ((read, FILE), (failures_in, FAILURES_FILE)):
        with pytest.raises(PlatformError, match=rf"^ConfigMap d: {file}: got .+; it is JSON, .+; ") as caught:
            reader(with_data(data))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("told", [[], 1, None, {"kafka": 1}, {"kafka": ["why"]}])
def test_failures_are_reasons_by_names(told: Any) -> None:
    with pytest.raises(PlatformError, match=r"^ConfigMap d: failures.json: got something else than reasons"):
        failures_in(with_data({FAILURES_FILE: json.dumps(told)}))
    assert failures_in(with_data({FAILURES_FILE: json.dumps({"kafka": "why"})})) == {"kafka": "why"}


def test_failures_that_cannot_be_read_hold_nothing_up() -> None:
    world = applied(fails=lambda job: job["metadata"]["labels"].get("dedup.dev/component") == "run")
    made = failures(OWNER, {})
    world.cluster.create({**made, "data": {FAILURES_FILE: "{"}})
    world.run()
    assert world.status()["phase"] == "Finished"


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000])
def test_settings_that_cannot_be_read_are_told_in_words(text: str) -> None:
    with pytest.raises(PlatformError, match=r"^ConfigMap d: settings.json: all: got what this operator cannot read"):
        settings_in(with_data({SETTINGS_FILE: text}), SETTINGS)
    with pytest.raises(PlatformError, match=r"settings.json: artifacts.s3: got what this operator cannot read"):
        settings_in(with_data({SETTINGS_FILE: json.dumps({"namespace": "n", "artifacts": {"s3": STORE}})}), SETTINGS)


def unreadable_in_mid_run() -> World:
    """One that an older operator began, so that what it wrote is not known."""
    world = in_mid_run()
    of_an_older_operator(world)
    world.cluster.patch("ConfigMap", NAMESPACE, SNAPSHOT, {"data": {FILE: "{"}})
    return world


def test_a_snapshot_that_cannot_be_read_stalls_and_gives_its_place_up() -> None:
    world = unreadable_in_mid_run()
    assert look(world).startswith(f"ConfigMap {SNAPSHOT}: {FILE}: got what nobody can read")
    world.now_s += 2 * 3600
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    assert world.status()["parked"] is True


def test_and_another_run_token_leaves_it() -> None:
    world = unreadable_in_mid_run()
    edit(world, runToken="2")
    world.run()
    assert (world.status()["verdict"], world.player.overlaps) == ("Pass", [])
