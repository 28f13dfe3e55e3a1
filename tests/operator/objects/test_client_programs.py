"""A client that is a program sends from an image of its own; all else of the run's pod is the runners' image."""

from pathlib import Path
from typing import Any, Final

import pytest
from tests.operator.objects.test_objects import OWNER, SETTINGS

from dedup.experiment.clients import CLIENTS
from dedup.experiment.plans import plan
from dedup.experiment.spec import load
from dedup_operator.objects.runs import assignment, run_objects

EXAMPLES: Final = Path(__file__).parents[3] / "examples"


def images(name: str, system: str) -> tuple[str | None, dict[str, str]]:
    """What starts the client of that system's first run, and the image of each container."""
    experiment = load(EXAMPLES / name)
    run = next(each for each in plan(experiment) if each.system == system)
    program = assignment(OWNER, experiment, run, 1, SETTINGS).program
    spec = run_objects(OWNER, experiment, run, 1, SETTINGS)[-1]["spec"]["template"]["spec"]
    made: list[dict[str, Any]] = [*spec["initContainers"], *spec["containers"]]
    return None if program is None else str(program), {each["name"]: each["image"] for each in made}


@pytest.mark.parametrize(
    ("name", "system", "start"),
    [
        ("clients.yaml", "java-2", "/usr/local/dedup/clients/kafka-java-2.8.2/start"),
        ("clients.yaml", "franz-go", "/usr/local/dedup/clients/franz-go-1.22.3/start"),
        ("pulsar-clients.yaml", "java-4", "/usr/local/dedup/clients/pulsar-java-4.2.4/start"),
    ],
)
def test_a_program_is_started_in_the_image_of_programs(name: str, system: str, start: str) -> None:
    program, found = images(name, system)
    assert program == start
    assert found.pop("producer") == SETTINGS.clients_image.reference
    assert set(found.values()) == {SETTINGS.runner_image.reference}


def test_the_installed_client_is_in_the_runners_image() -> None:
    program, found = images("clients.yaml", "librdkafka")
    assert program is None
    assert set(found.values()) == {SETTINGS.runner_image.reference}


def test_every_client_of_the_table_that_is_always_a_program_has_a_version_to_be_found_by() -> None:
    assert [each.library for each in CLIENTS.values() if not (each.versions or each.is_installed)] == []
