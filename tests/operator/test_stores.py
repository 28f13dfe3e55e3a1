"""The store of histories: what the administrator, or the experiment, names is there before anything is begun."""

from typing import Any, Final

import pytest
from testbed.worlds import NAMESPACE, SETTINGS, STORE, ScriptedHelm, World, store_secret
from tests.operator.test_reconciliations import applied, message

from dedup_operator.objects.settings import STORE_KEYS, Artifacts, Volume
from dedup_operator.reconciliations import Reconciler

CLAIM: Final = {"kind": "PersistentVolumeClaim", "metadata": {"name": "histories", "namespace": NAMESPACE}}
ON_VOLUME: Final = ("spec/artifacts", {"pvc": {"claimName": "histories"}})
UNSIGNED: Final = ("spec/artifacts", {"s3": {"bucket": "bucket"}})


def looked_at(world: World) -> str:
    """Of one look, that it stalled before anything was made, and in which words."""
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is not None
    assert world.condition("Stalled") == ("True", "Stalled")
    assert not world.cluster.list("ConfigMap", NAMESPACE, "") and not world.installed
    return message(world, "Stalled")


def without_store(*changes: tuple[str, Any]) -> World:
    world = applied(*changes)
    world.cluster.delete("Secret", NAMESPACE, STORE)
    return world


def test_the_administrators_secret_has_to_be_in_the_namespace() -> None:
    world = without_store()
    said = "settings.artifacts.s3.secret: got store, which is not there; it has the keys AWS_ACCESS_KEY_ID, "
    assert looked_at(world) == f"{said}AWS_SECRET_ACCESS_KEY, in each namespace of experiments; make it in this one"
    world.cluster.create(store_secret(NAMESPACE))
    world.run()
    assert world.status()["verdict"] == "Pass"


@pytest.mark.parametrize("key", STORE_KEYS)
def test_it_has_to_have_both_keys_and_needs_no_label(key: str) -> None:
    world = without_store()
    whole = store_secret(NAMESPACE)
    world.cluster.create({**whole, "data": {each: "" for each in STORE_KEYS if each != key}})
    assert looked_at(world).startswith(f"settings.artifacts.s3.secret: got store, which has no {key}; it has the keys")
    world.cluster.delete("Secret", NAMESPACE, STORE)
    world.cluster.create(whole)
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_an_experiment_that_goes_elsewhere_does_not_need_it() -> None:
    world = without_store(UNSIGNED)
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_one_that_goes_away_meanwhile_stalls_what_goes_on_and_nothing_is_lost() -> None:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    world.cluster.delete("Secret", NAMESPACE, STORE)
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    assert world.condition("Stalled") == ("True", "Stalled")
    world.cluster.create(store_secret(NAMESPACE))
    world.run()
    assert (world.status()["verdict"], world.status()["state"]["failures"]) == ("Pass", 0)


def test_a_claim_that_an_experiment_names_has_to_be_there() -> None:
    world = applied(ON_VOLUME)
    assert looked_at(world).startswith("spec.artifacts.pvc.claimName: got histories, which is not there; histories are")
    world.cluster.create(CLAIM)
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_a_claim_that_the_administrator_names_is_told_as_his() -> None:
    world = applied()
    defaults = SETTINGS.model_copy(update={"artifacts": Artifacts(volume=Volume(claim="histories"))})
    operator = Reconciler(world.cluster, ScriptedHelm(world.cluster), defaults, lambda: world.now_s)
    operator.look((NAMESPACE, "e"))
    assert message(world, "Stalled").startswith("settings.artifacts.volume.claim: got histories, which is not there")
    world.cluster.create(CLAIM)
    operator.look((NAMESPACE, "e"))
    assert world.condition("Stalled")[0] == "False"
