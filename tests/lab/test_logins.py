"""Secrets on one machine: folders that the command line gives, one for each that the experiment names."""

from pathlib import Path
from typing import Any

import pytest

from dedup.errors import SpecificationError
from dedup.experiment.endpoints import OPEN, Security
from dedup.experiment.spec import Experiment, parse
from dedup_lab import experiments, logins

GUARDED: dict[str, Any] = {
    "bootstrap": "k:9093",
    "tls": {"secretRef": {"name": "authority"}, "clientSecretRef": {"name": "own"}},
    "sasl": {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "login"}},
}
KEYS = {"authority": ("ca.crt",), "own": ("tls.crt", "tls.key"), "login": ("username", "password")}


def experiment(existing: dict[str, Any] | None, **client: Any) -> Experiment:
    system: dict[str, Any] = {"name": "kafka", "kafka": {}, "client": client}
    if existing is not None:
        system["deploy"] = {"existing": existing}
    variant = {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}
    spec = {"systems": [system], "workload": {"messages": 10}, "variants": [variant]}
    head = {"apiVersion": "dedup.dev/v1alpha1", "kind": "DedupExperiment", "metadata": {"name": "e"}}
    return parse({**head, "spec": spec}, source="test")


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, Path]:
    """A folder for each, with its keys."""
    for name, keys in KEYS.items():
        (tmp_path / name).mkdir()
        for key in keys:
            (tmp_path / name / key).write_text("x")
    return {name: tmp_path / name for name in KEYS}


def test_each_system_finds_its_files(secrets: dict[str, Path]) -> None:
    assert logins.access(experiment(GUARDED), secrets) == {
        "kafka": Security(
            ca=secrets["authority"] / "ca.crt",
            sasl="SCRAM-SHA-512",
            login=secrets["login"],
            certificate=secrets["own"] / "tls.crt",
            key=secrets["own"] / "tls.key",
        )
    }


def test_a_system_in_the_open_needs_none() -> None:
    assert logins.access(experiment({"bootstrap": "k:9092"}), {}) == {"kafka": OPEN}
    assert logins.access(experiment(None), {}) == {}


def test_one_that_is_not_given_is_named_with_its_keys(secrets: dict[str, Path]) -> None:
    del secrets["own"]
    with pytest.raises(SpecificationError) as caught:
        logins.access(experiment(GUARDED), secrets)
    assert str(caught.value) == (
        "spec.systems[0].deploy.existing.tls.clientSecretRef.name: got own; on one machine a Secret is a folder, "
        "here with tls.crt and tls.key; give --secret own=FOLDER"
    )


def test_one_without_a_key_is_named_with_it(secrets: dict[str, Path]) -> None:
    (secrets["login"] / "password").unlink()
    with pytest.raises(SpecificationError, match=r"--secret login: got no file password that can be read in .*login;"):
        logins.access(experiment(GUARDED), secrets)


def test_one_that_nobody_names_is_refused(secrets: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match=r"--secret: got logn; the experiment's systems name the Secrets"):
        logins.access(experiment(GUARDED), {**secrets, "logn": tmp_path})


@pytest.mark.parametrize("option", ["login", "login=", "=folder"])
def test_an_option_is_a_name_and_a_folder(option: str) -> None:
    with pytest.raises(SpecificationError, match="it is NAME=FOLDER"):
        logins.given([option])


def test_a_name_has_one_folder() -> None:
    assert logins.given(["a=/x", "b=/y=z"]) == {"a": Path("/x"), "b": Path("/y=z")}
    with pytest.raises(SpecificationError, match="a Secret has one folder"):
        logins.given(["a=/x", "a=/y"])


def test_a_program_cannot_log_in_but_may_be_led_to_brokers_that_ask_for_tls_alone() -> None:
    tls = {name: GUARDED[name] for name in ("bootstrap", "tls")}
    logins.check_clients(experiment(tls, library="franz-go"))
    logins.check_clients(experiment(GUARDED))
    with pytest.raises(SpecificationError, match="a program is given no password and no token"):
        logins.check_clients(experiment(GUARDED, library="franz-go"))


def test_java_is_needed_where_a_broker_is_started_or_spark_judges() -> None:
    there = experiment({"bootstrap": "k:9092"})
    assert not experiments.needs_java(there) and experiments.judges_locally(there)
    large = there.with_changes(messages=1_000_001)
    assert experiments.needs_java(large) and not experiments.judges_locally(large)
    assert experiments.needs_java(experiment(None)) and not experiments.judges_locally(experiment(None))
