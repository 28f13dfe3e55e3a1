"""Experiments of Chaos Toolkit of users' own, in pods: what the administrator's list permits, and what it does not.

The example is chaostoolkit-kubernetes' own (examples/chaos/), and each refusal has its twin that is begun.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import ValidationError
from testbed.worlds import NAMESPACE, SETTINGS, ScriptedHelm, World
from tests.operator.test_reconciliations import applied, message

from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, load
from dedup_operator.clusters import Object
from dedup_operator.objects.accounts import accounts
from dedup_operator.objects.names import Owner
from dedup_operator.objects.runs import run_objects
from dedup_operator.objects.settings import ChaosImage, Defaults, Settings, load_defaults
from dedup_operator.objects.snapshots import snapshot
from dedup_operator.reconciliations import Reconciler

FOLDER: Final = Path(__file__).parents[2] / "examples" / "chaos"
TEXT: Final = (FOLDER / "pod-deletion.json").read_text(encoding="utf-8")
DIGEST: Final = hashlib.sha256(TEXT.encode()).hexdigest()
OWNER: Final = Owner(NAMESPACE, "e", "6f1c")
CHAOS: Final = {"experiment": "pod-deletion.json", "deadline": "5s", "image": "kubernetes", "document": TEXT}
ENTRY: Final = {"name": "kubernetes", "rights": ["DeleteBrokerPods"], "sha256": [DIGEST]}


def listed(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"chaos_images": [ChaosImage.model_validate_json(json.dumps(each), by_alias=True) for each in entries]}


def fault(**changes: Any) -> dict[str, Any]:
    settings = {key: each for key, each in (CHAOS | changes).items() if each is not None}
    return {"name": "own", "at": {"message": 1}, "chaos": settings}


def looked(fault: dict[str, Any], *entries: dict[str, Any]) -> World:
    """What an operator with that list makes of an experiment with that fault, at its first look."""
    world = applied(("spec/faults", [fault]))
    look(world, *entries)
    return world


def look(world: World, *entries: dict[str, Any]) -> None:
    defaults = SETTINGS.model_copy(update=listed(*entries))
    Reconciler(world.cluster, ScriptedHelm(world.cluster), defaults, lambda: world.now_s).look((NAMESPACE, "e"))


def begun(world: World) -> bool:
    return world.status().get("state") is not None


def test_the_example_brings_the_published_text_as_it_is() -> None:
    (found,) = load(FOLDER / "kafka-pod-deletion.yaml").spec.faults
    assert found.given.brings == TEXT


@pytest.mark.parametrize("entry", [ENTRY, {**ENTRY, "rights": []}, {**ENTRY, "sha256": ["0" * 64, DIGEST]}])
def test_what_the_list_permits_is_begun(entry: dict[str, Any]) -> None:
    assert begun(looked(fault(), {**ENTRY, "name": "other"}, entry))


@pytest.mark.parametrize(
    ("changes", "entries", "words"),
    [
        ({}, [], "chaos.image: got kubernetes; pods run an experiment of your own only as"),
        ({"image": None}, [ENTRY], "chaos.image: got nothing; pods run"),
        ({"image": "other"}, [ENTRY], "chaos.image: got other; pods run"),
        ({"document": None}, [ENTRY], "chaos.document: got nothing; pods read no file of yours"),
        ({"document": TEXT + " "}, [ENTRY], "chaos.document: got a text with the SHA-256"),
    ],
    ids=["no list", "no image", "another image", "no text", "another text"],
)
def test_what_it_does_not_permit_stalls_in_words(
    changes: dict[str, Any], entries: list[dict[str, Any]], words: str
) -> None:
    world = looked(fault(**changes), *entries)
    assert not begun(world)
    assert f"spec.faults[0].{words}" in message(world, "Stalled")
    assert "or use `dedup run` on one machine" in message(world, "Stalled") or "document: got nothing" in words
    assert world.cluster.list("ConfigMap", NAMESPACE, "") == []


def test_what_stalls_says_which_names_there_are() -> None:
    world = looked(fault(image="mine"), ENTRY, {**ENTRY, "name": "istio"})
    assert "name one of kubernetes, istio; or have the administrator put it into" in message(world, "Stalled")


def test_an_entry_that_is_taken_away_holds_up_what_was_begun_with_it() -> None:
    """It is a right: the administrator's word of today counts."""
    world = looked(fault(), ENTRY)
    assert begun(world)
    look(world)
    assert "chaos.image: got kubernetes" in message(world, "Stalled")
    look(world, ENTRY)
    assert message(world, "Stalled") == "it goes on"


# --- objects -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return load(FOLDER / "kafka-pod-deletion.yaml")


def settings(*entries: dict[str, Any]) -> Settings:
    given = {name: getattr(SETTINGS, name) for name in Defaults.model_fields} | listed(*entries)
    return Settings(**given, namespace=NAMESPACE)


def images(experiment: Experiment, *entries: dict[str, Any]) -> dict[str, str]:
    """The image of each container of a run, by its name."""
    made = run_objects(OWNER, experiment, plan(experiment)[0], 1, settings(*entries))
    return {each["name"]: each["image"] for each in made[-1]["spec"]["template"]["spec"]["containers"]}


def test_it_alone_runs_in_the_image_of_the_list(experiment: Experiment) -> None:
    image = {"repository": "r.example/runner-with-more", "tag": "1"}
    found = images(experiment, {**ENTRY, "image": image})
    assert found.pop("chaos-pod-deletion") == "r.example/runner-with-more:1"
    assert set(found.values()) == {SETTINGS.runner_image.reference}
    assert images(experiment, ENTRY)["chaos-pod-deletion"] == SETTINGS.runner_image.reference, (
        "without one: that itself"
    )


def rules(experiment: Experiment, *entries: dict[str, Any]) -> list[Object]:
    made = accounts(OWNER, experiment, None, settings(*entries).chaos_images)
    return [rule for each in made if each["kind"] == "Role" for rule in each["rules"]]


def test_a_right_of_the_list_is_to_the_brokers_by_name(experiment: Experiment) -> None:
    before, after = (rules(experiment, entry) for entry in ({**ENTRY, "rights": []}, ENTRY))
    (more,) = [each for each in after if each not in before and each["verbs"] == ["delete"]]
    assert (more["apiGroups"], more["resources"], len(more["resourceNames"])) == ([""], ["pods"], 3)
    assert not any("delete" in each["verbs"] and each["resources"] == ["pods"] for each in before)


def test_an_entry_that_is_not_used_gives_nothing(experiment: Experiment) -> None:
    other = {**ENTRY, "name": "other"}
    assert rules(experiment, {**ENTRY, "rights": []}, other) == rules(experiment, {**ENTRY, "rights": []})


def test_an_execution_does_not_keep_the_list(experiment: Experiment) -> None:
    made = snapshot(OWNER, experiment, settings(ENTRY))
    assert "chaosImages" not in made["data"]["settings.json"]


def test_the_list_is_read_from_the_charts_settings(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump({"chaosImages": [ENTRY]}))
    (found,) = load_defaults(path).chaos_images
    assert (found.name, found.image, found.sha256) == ("kubernetes", None, [DIGEST])


@pytest.mark.parametrize(
    "wrong", [{"rights": ["ReadSecrets"]}, {"sha256": ["abc"]}, {"sha256": []}, {"name": "A"}, {"account": "x"}]
)
def test_a_list_permits_what_is_written_down_here_and_no_more(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        listed({**ENTRY, **wrong})
