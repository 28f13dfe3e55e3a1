"""The image of clients that are programs: a part for each version, started as the assignment says."""

from pathlib import Path
from typing import Final

import pytest
from testbed.cluster import client_programs
from testbed.cluster.client_programs import FOLDER, LOCKS, GoClient, JavaClient, PythonClient
from testbed.cluster.processes import CHECKOUT

from dedup.experiment.assignments import start_of
from dedup.experiment.clients import CLIENTS
from dedup_lab.caches import silent
from dedup_lab.clients import BUILDERS, jvm
from dedup_runners.configs import Program

PLACES: Final = {f"{FOLDER}/{client.library}-{version}" for client in CLIENTS.values() for version in client.versions}


def test_every_version_of_every_client_has_a_part_and_every_lock_a_version() -> None:
    places = {part.place for part in client_programs.parts()}
    assert places == {LOCKS, *PLACES}
    assert {f"{FOLDER}/{lock.stem}" for lock in (CHECKOUT / LOCKS).glob("*.txt")} <= PLACES


def test_a_version_for_python_is_started_from_where_the_dockerfile_installs_it(tmp_path: Path) -> None:
    PythonClient("confluent-kafka", "2.3.0").put(tmp_path / "confluent-kafka-2.3.0", silent)
    start = (tmp_path / "confluent-kafka-2.3.0" / "start").read_text()
    home = start_of("confluent-kafka", "2.3.0").parent
    assert start.splitlines() == [
        "#!/bin/sh",
        f"here={home}",
        'exec python -P -m dedup_runners.clients.serving confluent-kafka 2.3.0 "$here/site" "$@"',
    ]
    assert f'--target "{home.parent}/$name/site"' in (CHECKOUT / "Dockerfile").read_text()


def test_a_program_in_java_has_its_jars_in_the_order_of_its_class_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes, jars = tmp_path / "classes", [tmp_path / "b.jar", tmp_path / "a.jar"]
    classes.mkdir()
    for path in (classes / "KafkaJavaClient.class", *jars):
        path.write_text(path.name)
    made = Program(argv=("java",), environment={"CLASSPATH": ":".join(map(str, (classes, *jars)))})
    monkeypatch.setitem(BUILDERS, "kafka-java", lambda _version, _progress: made)
    place = tmp_path / "kafka-java-4.3.1"
    JavaClient("kafka-java", "4.3.1").put(place, silent)
    assert sorted(str(each.relative_to(place)) for each in place.rglob("*") if each.is_file()) == [
        "classes/KafkaJavaClient.class",
        "jars/a.jar",
        "jars/b.jar",
        "start",
    ]
    order = '-cp "$here/classes:$here/jars/b.jar:$here/jars/a.jar" KafkaJavaClient "$@"'
    assert order in (place / "start").read_text()


@pytest.mark.parametrize("name", ["FLAGS", "COMPILER"])
def test_a_change_of_how_java_is_started_or_compiled_is_another_image(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = JavaClient("kafka-java", "4.3.1").identity()
    assert JavaClient("kafka-java", "4.3.1").identity() == before
    monkeypatch.setattr(client_programs, name, (*jvm.FLAGS, "-Xint") if name == "FLAGS" else "0")
    assert JavaClient("kafka-java", "4.3.1").identity() != before


def test_a_program_in_go_is_known_by_its_sources() -> None:
    assert "main.go" in GoClient("1.22.3").identity()
