"""`dedup probe` before real brokers: what they do is what is expected of them, and nothing of it is left."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from tests.lab.pointed import dedup, topics

from dedup.experiment.endpoints import Endpoints
from dedup_lab.probes import probed, probes_of
from dedup_lab.systems import kafka, labs, pulsar
from dedup_runners.probes import PREFIX
from dedup_runners.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

COMMAND_S: Final = 300.0
Left = Callable[[], set[str]]


class Asked:
    """Running brokers, the arguments that point at them, and what of ours is left there."""

    def __init__(self, endpoints: Endpoints) -> None:
        self.endpoints, self.protocol = endpoints, endpoints.system
        first = endpoints.direct_bootstrap.removeprefix("pulsar://").split(",")[0]
        self.url = f"{self.protocol}://{first}"
        self.options = ("--admin", endpoints.admin_urls[0]) if endpoints.admin_urls else ()

    def left(self) -> set[str]:
        if self.protocol == "kafka":
            return topics(self.endpoints, PREFIX)
        names: list[str] = httpx.get(
            f"{self.endpoints.admin_urls[0]}/admin/v2/namespaces/public", trust_env=False
        ).json()
        return {name for name in names if PREFIX in name}


START: Final[dict[str, Callable[[labs.Lab], Endpoints]]] = {
    "kafka": lambda lab: kafka.start(lab, version="4.3.1", proxied=False),
    "pulsar": lambda lab: pulsar.start(lab, version="4.2.4", proxied=False, brokers=1, bookies=1),
}


@pytest.fixture(scope="module", params=START)
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield Asked(START[request.param](lab))


@pytest.mark.smoke
def test_running_brokers_are_as_expected(brokers: Asked, tmp_path: Path, tell: Callable[[str], None]) -> None:
    program = dedup(tmp_path, "probe", brokers.url, *brokers.options, "--format", "json")
    out, err = program.communicate(timeout=COMMAND_S)
    assert program.returncode == 0, f"{out}{err}"
    said: dict[str, Any] = json.loads(out)
    assert [each["name"] for each in said["rows"]] == [each.rule.name for each in probes_of(brokers.protocol)]
    assert {each["as_expected"] for each in said["rows"]} == {True}
    assert said["rows"][0]["seen"] == "acknowledged; stored twice", "the control"
    assert said["version"] == {"kafka": "4.3", "pulsar": "4.2.4"}[brokers.protocol]
    tell(f"{said['seconds']} s")
    until(lambda: not brokers.left(), COMMAND_S, "its topics are gone")
    assert os.listdir(tmp_path) == []


def test_nothing_is_left_of_a_probe_that_was_interrupted(brokers: Asked, tmp_path: Path) -> None:
    program = dedup(tmp_path, "probe", brokers.url, *brokers.options)
    until(brokers.left, COMMAND_S, "its first topic is there")
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=COMMAND_S)
    assert (program.returncode, out) == (130, ""), err
    assert "Traceback" not in err and "may be left" not in err
    until(lambda: not brokers.left(), COMMAND_S, "its topics are gone")


def test_an_older_kafka_is_as_expected_of_it(tmp_path: Path) -> None:
    with labs.create(tmp_path) as lab:
        result = probed(kafka.start(lab, version="3.9.0", proxied=False, brokers=1), "kafka://lab")
    assert (result.version, result.exit_code) == ("3.9", 0), result.unexpected
