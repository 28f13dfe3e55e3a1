"""A client of the user's own, by its command, and variants that differ in their client: no more than they declare."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.core.evidences import manifest

from dedup.errors import SpecificationError
from dedup.experiment.clients import COMMAND, is_program
from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, load, parse
from dedup.judgement.conclusions import differences
from dedup.wire.manifests import Manifest

OWN: Final = {"command": ["./mine", "--fast"], "properties": {"any.name": "1"}}
CONTROL: Final = {"name": "control", "deduplication": "Disabled", "expect": "Duplicates"}
TREATMENT: Final = {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}


def document(client: dict[str, Any] | None, *variants: dict[str, Any], system: str = "kafka") -> dict[str, Any]:
    return {
        "apiVersion": "dedup.dev/v1alpha1",
        "kind": "DedupExperiment",
        "metadata": {"name": "e"},
        "spec": {
            "systems": [{"name": "s", system: {}, **({} if client is None else {"client": client})}],
            "workload": {"messages": 100},
            "variants": [*variants] or [CONTROL, TREATMENT],
        },
    }


def made(client: dict[str, Any] | None, *variants: dict[str, Any], system: str = "kafka") -> Experiment:
    return parse(document(client, *variants, system=system), source="test")


def refused(client: dict[str, Any] | None, *variants: dict[str, Any]) -> str:
    with pytest.raises(SpecificationError) as error:
        made(client, *variants)
    return str(error.value)


@pytest.mark.parametrize(("system", "reader"), [("kafka", "confluent-kafka"), ("pulsar", "pulsar-client")])
def test_a_program_of_ones_own_has_any_setting_and_is_read_by_the_protocols_client(system: str, reader: str) -> None:
    found = made(OWN, system=system).spec.systems[0]
    assert (found.library, found.client_version, found.reader) == (COMMAND, "", reader)
    assert is_program(found.library, found.client_version)


@pytest.mark.parametrize(
    ("client", "words"),
    [
        (OWN | {"library": "kafka-java"}, 'client.library: got "kafka-java"; a program of your own has'),
        (OWN | {"version": "1.0"}, 'client.version: got "1.0"; a program of your own has'),
        ({"command": []}, "spec.systems[0].client.command"),
        ({"library": COMMAND}, 'spec.systems[0].client.library: got "command"'),
    ],
)
def test_a_program_is_named_alone(client: dict[str, Any], words: str) -> None:
    assert words in refused(client)


def test_what_needs_a_client_in_python_is_refused() -> None:
    asked = document(OWN)
    asked["spec"]["workload"]["payload"] = {"bytes": 100}
    with pytest.raises(SpecificationError, match="command is a program, which"):
        parse(asked, source="test")


def test_a_variant_gives_a_program_no_version_but_settings() -> None:
    versioned = CONTROL | {"deduplication": "Enabled", "client": {"version": "2.16.1"}}
    assert 'spec.variants[0].client.version: got "2.16.1"; a program of your own has what it has' in refused(
        OWN, versioned, TREATMENT
    )
    made(OWN, versioned | {"client": {"properties": {"any.name": "2"}}}, TREATMENT)
    made(None, versioned, TREATMENT)


def test_the_command_is_in_the_digest_and_its_absence_is_not() -> None:
    assert made(OWN).digest() != made(OWN | {"command": ["./other"]}).digest() != made(None).digest()
    assert made(None).digest() == made(None, CONTROL | {"client": None}, TREATMENT).digest()


def test_relative_paths_begin_at_the_file(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(yaml.safe_dump(document(OWN)))
    found = load(path)
    assert found.folder == found.with_changes(runs=3).folder == tmp_path
    assert made(OWN).folder == Path()


def own(variant: dict[str, Any], **client: Any) -> dict[str, Any]:
    """A variant with deduplication on, and that client."""
    return variant | {"deduplication": "Enabled", "client": client}


def test_a_variant_changes_settings_one_by_one_and_another_library_takes_the_place_of_all() -> None:
    base = {"library": "kafka-java", "version": "3.9.1", "properties": {"linger.ms": "5", "acks": "all"}}
    settings = own(CONTROL, properties={"linger.ms": "0"})
    spec = made(base, settings, own(TREATMENT, library="franz-go")).spec
    first, second = (spec.systems[0].of(variant) for variant in spec.variants)
    assert (first.library, first.client_version) == ("kafka-java", "3.9.1")
    assert first.client.properties == {"linger.ms": "0", "acks": "all"}
    assert (second.library, second.client_version, second.client.properties) == ("franz-go", "1.22.3", {})
    assert spec.systems[0].of(made(base).spec.variants[0]) == spec.systems[0]


@pytest.mark.parametrize(
    ("variants", "words"),
    [
        ([own(CONTROL, library="pulsar-java"), TREATMENT], "spec.variants[0].client.library: got pulsar-java; it does"),
        ([own(CONTROL, version="1.0"), TREATMENT], 'spec.variants[0].client.version: got "1.0"; confluent'),
        ([own(CONTROL, properties={"ssl.ca": "x"}), TREATMENT], 'spec.variants[0].client.properties: got "ssl.ca"; an'),
        ([CONTROL | {"client": {"library": "franz-go"}}, TREATMENT], "got Disabled; a control and a treatment"),
        ([own(CONTROL, properties={}), TREATMENT], "got Enabled; beside a variant that forbids duplicates"),
        ([own(CONTROL, library="confluent-kafka"), TREATMENT], "got Enabled; beside a variant that forbids duplicates"),
    ],
)  # fmt: skip
def test_a_client_of_a_variant_is_checked_and_is_the_one_difference(variants: list[Any], words: str) -> None:
    """The last two differ in nothing."""
    assert words in refused(None, *variants)


def test_a_variant_differs_in_its_client_or_in_its_workload() -> None:
    asked = document(None, own(CONTROL, library="franz-go"), TREATMENT)
    killed = {"at": {"message": 50}, "end": "Kill"}
    asked["spec"]["workload"]["restart"] = killed
    asked["spec"]["variants"][0]["client"] = {"properties": {"linger.ms": "0"}}
    asked["spec"]["variants"][1]["workload"] = {"restart": {"end": "Close"}}
    with pytest.raises(
        SpecificationError, match=r"variants\[0\]\.client: got control; a control and a treatment differ"
    ):
        parse(asked, source="test")
    del asked["spec"]["variants"][1]["workload"]
    parse(asked, source="test")


def recorded(experiment: Experiment, told: dict[str, tuple[str, dict[str, str]]]) -> list[Manifest]:
    """The manifests of one run of each variant: the client's version and settings."""
    return [
        manifest(run, producer={"library_version": told[run.variant][0], "effective_config": told[run.variant][1]})
        for run in plan(experiment)
    ]


@pytest.mark.parametrize(
    ("clients", "told", "found"),
    [
        ({"linger.ms": "0"}, {"linger.ms": "0"}, []),
        (
            {"linger.ms": "0"}, {"linger.ms": "0", "acks": "1"},
            ["the producer's acks is not the same in all runs: 1, none"],
        ),
        ({}, {"linger.ms": "0"}, ["the producer's linger.ms is not the same in all runs: 0, 5"]),
    ],
)  # fmt: skip
def test_variants_differ_in_the_settings_that_they_declare(
    clients: dict[str, str], told: dict[str, str], found: list[str]
) -> None:
    base = {"properties": {"linger.ms": "5"}}
    experiment = made(base, CONTROL, TREATMENT)
    variants = [own(CONTROL, properties=clients), TREATMENT] if clients else [CONTROL, TREATMENT]
    spec = made(base, *variants).spec
    of = {variant.name: spec.systems[0].of(variant) for variant in spec.variants}
    manifests = recorded(experiment, {"control": ("c 1", told), "dedup": ("c 1", {"linger.ms": "5"})})
    assert differences(manifests, of) == found


def test_another_program_has_its_own_settings_and_version_but_the_same_in_all_its_runs() -> None:
    experiment = made(None, own(CONTROL, library="franz-go"), TREATMENT)
    of = {each.name: experiment.spec.systems[0].of(each) for each in experiment.spec.variants}
    manifests = recorded(experiment, {"control": ("franz-go 1", {"a": "1"}), "dedup": ("librdkafka 2", {"b": "2"})})
    assert differences(manifests, of) == []
    again = recorded(experiment, {"control": ("franz-go 2", {"a": "1"}), "dedup": ("librdkafka 2", {"b": "2"})})
    assert len(differences([*manifests, *again], of)) == 1


def test_a_declared_setting_is_the_same_in_all_runs_of_its_variant() -> None:
    experiment = made({}, CONTROL, TREATMENT)
    of = {
        variant.name: experiment.spec.systems[0].of(variant)
        for variant in made({}, own(CONTROL, properties={"linger.ms": "0"}), TREATMENT).spec.variants
    }
    told = {"control": ("c 1", {"linger.ms": "0"}), "dedup": ("c 1", {"linger.ms": "5"})}
    other = {**told, "control": ("c 1", {"linger.ms": "999"})}
    assert differences(recorded(experiment, told), of) == []
    found = differences([*recorded(experiment, told), *recorded(experiment, other)], of)
    assert found == ["the producer's linger.ms is not the same in all runs: 0, 999"]
