"""Faults on pods of others, with all that they bring, are a preview: without the administrator's word nothing of it is.

The twin of what is asserted here with that word are `test_consents`, `test_locks` and `test_departures`.
"""

import json

import pytest
from testbed.worlds import LOCKING, NAMESPACE, SETTINGS, FakeCluster, World
from tests.operator.test_consents import EXISTING, KAFKA, KILL, WHO, document, pod
from tests.operator.test_departures import started
from tests.operator.test_existing import MOVE, allowed
from tests.operator.test_reconciliations import fake, message

from dedup_operator import __main__ as program
from dedup_operator.clusters import Object
from dedup_operator.objects.settings import Settings

VALUE = "allowFaultsOnPodsOfOthers: true"


def without_pods() -> Object:
    """On a system that is there already, and no pods are named."""
    existing = {key: each for key, each in EXISTING.items() if key != "podSelector"}
    made = document(MOVE)
    made["spec"]["systems"] = [{**KAFKA, "deploy": {"existing": existing}}]
    return made


def world(document: Object, settings: Settings = SETTINGS) -> World:
    made = allowed(World(FakeCluster(), settings=settings))
    made.player.met = WHO
    for number in range(3):
        made.cluster.create(pod(number))
    made.apply(document)
    return made


def reads(made: World) -> list[tuple[str, str]]:
    """The kinds, and components, of all that is there."""
    labels = ((kind, each["metadata"].get("labels") or {}) for (kind, _, _), each in fake(made).objects.items())
    return sorted({(kind, str(found.get("dedup.dev/component"))) for kind, found in labels})


@pytest.mark.parametrize("fault", [KILL, MOVE])
def test_pods_that_are_named_stall_it_in_words_that_say_which_value_an_administrator_sets(fault: Object) -> None:
    made = world(document(fault))
    made.operator()[0].look((NAMESPACE, "e"))
    words = message(made, "Stalled")
    assert words.startswith('system kafka: deploy.existing.podSelector: got "app=kafka"; ') and VALUE in words
    assert {kind for kind, _ in reads(made)} <= {"DedupExperiment", "Secret", "Pod", "Event"}, "nothing was made"
    made.settings = LOCKING
    made.run()
    assert made.status()["verdict"] == "Pass"


def test_any_other_experiment_has_no_finalizer_no_lock_and_no_removal() -> None:
    made, operator = world(without_pods()), None
    finalizers, seen = set(), set()
    operator, _ = made.operator()
    while not made.status().get("verdict"):
        operator.look((NAMESPACE, "e"))
        finalizers.add(str(made.live()["metadata"].get("finalizers")))
        seen.update(reads(made))
        made.player.move()
        made.now_s += 1
    assert made.status()["verdict"] == "Pass" and finalizers == {"None"}
    assert not {each for each in seen if each[0] == "Lease" or each[1] == "leftovers"}
    twin = world(without_pods(), LOCKING)
    twin.run(until=lambda _status: started(twin))
    assert twin.live()["metadata"]["finalizers"] and twin.cluster.list("Lease", NAMESPACE, "")


def test_one_that_is_deleted_half_way_goes_at_once() -> None:
    made = world(without_pods())
    made.run(until=lambda _status: started(made))
    made.cluster.delete("DedupExperiment", NAMESPACE, "e")
    assert made.cluster.get("DedupExperiment", NAMESPACE, "e") is None


def test_its_round_trip_is_not_asked_who_the_system_is() -> None:
    """A system that tells no cluster id can be tested without locks."""
    asked = []
    for settings in (SETTINGS, LOCKING):
        made = world(without_pods(), settings)
        made.run(until=lambda _status: bool(made.cluster.list("Job", NAMESPACE, "dedup.dev/component=readiness")))  # noqa: B023
        (job,) = made.cluster.list("Job", NAMESPACE, "dedup.dev/component=readiness")
        (container,) = job["spec"]["template"]["spec"]["containers"]
        asked.append("--identify" in container["command"])
    assert asked == [False, True]


def looked_at(made: World) -> None:
    """Ten looks of an operator with today's settings, a second apart."""
    operator, _ = made.operator()
    for _ in range(10):
        operator.look((NAMESPACE, "e"))
        made.player.move()
        made.now_s += 1


def test_an_administrator_who_takes_the_word_back_ends_no_run_and_none_begins_any_more() -> None:
    """The lock and the finalizer stay those of the execution, which goes on when the value is back."""
    made = world(document(KILL), LOCKING)
    made.run(until=lambda _status: started(made))
    made.settings = SETTINGS
    looked_at(made)
    assert len([each for each in made.player.jobs.values() if each]) == 1
    assert VALUE in message(made, "Stalled") and made.live()["metadata"]["finalizers"]
    made.settings = LOCKING
    made.run()
    assert made.status()["verdict"] == "Pass"


def test_one_that_was_begun_without_its_lock_does_not_go_on_beside_those_that_have_theirs() -> None:
    """As one that an older operator has begun. The run at hand comes to its end; then it waits for another token."""
    made = world(without_pods())
    made.run(until=lambda _status: started(made))
    made.settings = LOCKING
    looked_at(made)
    assert len([each for each in made.player.jobs.values() if each]) == 1
    assert "got an execution that was begun without its lock" in message(made, "Stalled")
    assert "choose another spec.runToken" in message(made, "Stalled")
    made.cluster.patch("DedupExperiment", NAMESPACE, "e", {"spec": {"runToken": "again"}})
    made.run()
    assert made.status()["verdict"] == "Pass"


def test_locks_of_systems_lie_in_one_namespace_whatever_is_watched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In each experiment's own, two of different namespaces would never meet."""
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    settings = tmp_path_factory.mktemp("settings") / "settings.yaml"
    settings.write_text(json.dumps({"allowFaultsOnPodsOfOthers": True}))
    words = ["operator", f"--settings={settings}", "--all-namespaces", "--no-lease"]
    monkeypatch.setattr("sys.argv", words)
    assert program.main() == 4
    assert "--all-namespaces: got no namespace for the locks of systems" in capsys.readouterr().err
