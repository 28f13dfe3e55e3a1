"""`dedup explore` before real brokers of Pulsar: every point is clean; one that does not deduplicate is caught.

Both are of few messages. The first is interrupted meanwhile, and gone on with.
"""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.lab.pointed import dedup

from dedup.experiment.endpoints import Endpoints
from dedup.experiment.points import Action
from dedup_lab.exploring.folders import VISITS
from dedup_lab.exploring.visits import PREFIX
from dedup_lab.systems import labs, pulsar
from dedup_runners.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]

COMMAND_S = 900.0
"""On a busy machine; alone it takes two minutes."""
SEEDED = Path(__file__).parents[2] / "examples" / "explore" / "pulsar-seeded-defect.yaml"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield pulsar.start(lab, version="4.2.4", proxied=False)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.is_file() else 0


def left(system: Endpoints) -> list[str]:
    """What is there of ours: namespaces, and topics in them."""
    asking = f"{system.admin_urls[0]}/admin/v2"
    names = [each for each in httpx.get(f"{asking}/namespaces/public", trust_env=False).json() if "/dedup-o" in each]
    topics = [httpx.get(f"{asking}/persistent/{each}/partitioned", trust_env=False).json() for each in names]
    return names + [name for each in topics for name in each if PREFIX in name]


def test_an_exploration_is_interrupted_and_gone_on_with_and_passes(
    system: Endpoints, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    kept = tmp_path / "kept"
    url = f"pulsar://{system.client_bootstrap.split(',')[-1]}"
    asked = ("explore", url, "--admin", system.admin_urls[0], "--messages", "2", "--format", "json")
    program = dedup(tmp_path, *asked, "--out", str(kept))
    until(lambda: lines(kept / VISITS) >= 6 or program.poll() is not None, COMMAND_S, "some points are visited")
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=COMMAND_S)
    assert program.returncode == 130, err
    assert "Traceback" not in err and f"--resume {kept}" in err
    assert left(system) == []
    before = lines(kept / VISITS)
    out, err = dedup(tmp_path, *asked, "--resume", str(kept)).communicate(timeout=COMMAND_S)
    assert out, err
    said: dict[str, Any] = json.loads(out)
    assert said["verdict"] == "pass", said["reasons"]
    sends = [row for row in said["rows"] if row["api"] == "SEND"]
    assert [(row["points"], row["clean"]) for row in sends] == [(2, 2)] * (len(Action) - 1), "no transaction is next"
    assert [row["control"] for row in sends if row["action"] == "lose_reply"] == ["2 of 2"]
    assert {row["api"] for row in said["rows"]} >= {"CONNECT", "LOOKUP", "PARTITIONED_METADATA", "PRODUCER"}
    assert said["points"] == said["points_visited"]
    assert lines(kept / VISITS) > before and left(system) == []
    tell(f"{said['points']} points, {said['points_a_minute']} visits a minute")


def test_one_broker_is_explored_although_all_producers_share_its_connection(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        alone = pulsar.start(lab, version="4.2.4", proxied=False, brokers=1, bookies=1)
        asked = ("explore", alone.client_bootstrap, "--admin", alone.admin_urls[0], "--messages", "2")
        program = dedup(tmp_path, *asked, "--format", "json", "--out", str(tmp_path / "kept"))
        out, err = program.communicate(timeout=COMMAND_S)
    assert out, err
    said: dict[str, Any] = json.loads(out)
    assert said["verdict"] == "pass", said["reasons"]
    assert said["points"] == said["points_visited"]


def test_a_broker_that_does_not_deduplicate_is_caught_and_the_witness_is_one_message(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    kept = tmp_path / "kept"
    asked = ("explore", str(SEEDED), "--messages", "2", "--format", "json", "--out", str(kept))
    out, err = dedup(tmp_path, *asked).communicate(timeout=COMMAND_S)
    assert out, err
    said: dict[str, Any] = json.loads(out)
    assert said["verdict"] == "fail", said["reasons"]
    struck = {
        (point["exchange"]["api"], point["action"]): alarm
        for alarm in said["alarms"][::-1]
        for point in alarm["visit"]["schedule"]
    }
    lost, late = (struck["SEND", each] for each in (Action.LOSE_REPLY, Action.STALL_REQUEST_TO_RETURN))
    for alarm in (lost, late):
        assert alarm["replayed"] >= 9 and alarm["shrunk"]["messages"] == 1
        assert "entry" in alarm["visit"]["explanation"]
    assert (Path(lost["visit"]["folder"]) / "conversation.parquet").is_file()
    tell(f"{len(said['alarms'])} kinds of alarms, {said['visits']} runs in {said['seconds']:.0f} s")
