"""`dedup explore` before real brokers: a pass that was interrupted meanwhile, and a defect that is found and shrunk."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.lab.pointed import bootstrap, dedup, gone

from dedup.experiment.endpoints import Endpoints
from dedup.experiment.points import Action
from dedup.experiment.spec import load
from dedup.judgement.verdicts import Verdict
from dedup_lab.exploring import grounds
from dedup_lab.exploring.crews import Crew
from dedup_lab.exploring.explorations import Exploring, Options, worker
from dedup_lab.exploring.folders import VISITS, Folder
from dedup_lab.exploring.visits import PREFIX, Ground
from dedup_lab.systems import kafka, labs
from dedup_runners import admins
from dedup_runners.interposer.speeches import SPEECHES
from dedup_runners.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

COMMAND_S = 400.0
SEEDED = Path(__file__).parents[2] / "examples" / "explore" / "seeded-defect.yaml"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        yield kafka.start(lab, version="4.3.1", proxied=False)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.is_file() else 0


def test_an_exploration_is_interrupted_and_gone_on_with_and_passes(
    system: Endpoints, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    kept = tmp_path / "kept"
    asked = ("explore", f"kafka://{bootstrap(system)[0]}", "--messages", "4", "--format", "json")
    program = dedup(tmp_path, *asked, "--out", str(kept))
    until(lambda: lines(kept / VISITS) >= 6, COMMAND_S, "some points are visited")
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=COMMAND_S)
    assert program.returncode == 130, err
    assert "Traceback" not in err and f"--resume {kept}" in err
    gone(system, PREFIX)
    before = lines(kept / VISITS)
    out, err = dedup(tmp_path, *asked, "--resume", str(kept)).communicate(timeout=COMMAND_S)
    assert out, err
    said: dict[str, Any] = json.loads(out)
    assert said["verdict"] == "pass", said["reasons"]
    produce = [row for row in said["rows"] if row["api"] == "Produce"]
    assert [(row["points"], row["clean"]) for row in produce] == [(4, 4)] * (len(Action) - 2), (
        "no transaction is next, and no place is taken again"
    )
    assert [row["control"] for row in produce if row["action"] == "lose_reply"] == ["4 of 4"]
    assert said["points"] == said["points_visited"] >= 4 * 5 + 5
    assert lines(kept / VISITS) >= said["points"] + 4 + 3 and said["visits"] >= said["points"] + 4 + 3 - before
    gone(system, PREFIX)
    tell(f"{said['points']} points, {said['points_a_minute']} visits a minute")


def test_a_producer_without_idempotence_is_caught_and_the_witness_is_one_message(
    system: Endpoints, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    experiment, _ = grounds.of_file(load(SEEDED), "seeded", grounds.Shape(messages=4))
    experiment, settings = grounds.stepped(experiment)
    cancelled = Event()
    with admins.connect(system) as admin:
        treatment, control = grounds.variants_of(experiment, "seeded")
        brokers = SPEECHES[system.system].brokers(system.client_bootstrap)
        ground = Ground(experiment, treatment, control, system, brokers, admin, cancelled)
        folder = Folder(tmp_path)
        crew = Crew(worker(ground), folder.visits, 8, cancelled)
        try:
            found = Exploring("t", grounds.Site(ground, settings, ()), Options(), folder, crew, lambda _: None).run()
        finally:
            crew.close()
    assert found.verdict is Verdict.FAIL
    struck = {(each.visit.schedule[0].exchange.api, each.visit.schedule[0].action): each for each in found.alarms[::-1]}
    lost = struck["Produce", Action.LOSE_REPLY]  # on a slow machine others are alarmed, too, and come to nothing
    assert lost.counts and lost.shrunk is not None
    assert (lost.shrunk.messages, len(lost.shrunk.schedule)) == (1, 1)
    assert (tmp_path / "witnesses" / lost.visit.name / "conversation.parquet").is_file()
    gone(system, PREFIX)
    tell(f"{len(found.alarms)} kinds of alarms, {found.visits} runs in {found.seconds:.0f} s")
