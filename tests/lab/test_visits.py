"""A visit that cannot be done, and clients as threads: nothing is left, and who waits hears why."""

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Endpoints
from dedup.experiment.points import Action, Exchange, Point
from dedup.experiment.spec import load, parse
from dedup_lab.children import Cancelled
from dedup_lab.clients import BUILDERS
from dedup_lab.exploring import grounds, visits
from dedup_lab.exploring.grounds import Shape, of_file
from dedup_lab.exploring.threads import Threads
from dedup_lab.exploring.visits import PREFIX, Ground
from dedup_runners.configs import Program
from dedup_runners.interposer.protocols import Address

EXAMPLE = Path(__file__).parents[2] / "examples" / "explore" / "kafka.yaml"
TOPIC = r"[a-zA-Z0-9._-]{1,249}"


class Refusing:
    """An admin of brokers that let nobody make a topic, or that hang until the exploration is over."""

    def __init__(self, cancelled: threading.Event | None = None) -> None:
        self.made: list[str] = []
        self.deleted: list[str] = []
        self._cancelled = cancelled

    def topic_name(self, run_topic: str, deduplication: bool) -> str:
        return run_topic

    def create_topic(self, topic: str, **_: Any) -> None:
        self.made.append(topic)
        if self._cancelled is not None:
            self._cancelled.set()
            return
        raise PlatformError(where="creating a topic", got="no", rule="r", todo="t")

    def look(self, topic: str, turn: int) -> None:
        return None

    def delete_topic(self, topic: str) -> None:
        self.deleted.append(topic)


def ground(admin: Refusing, cancelled: threading.Event) -> Ground:
    experiment, _ = grounds.stepped(load(EXAMPLE))
    endpoints = Endpoints(system="kafka", client_bootstrap="", direct_bootstrap="127.0.0.1:1", brokers=[])
    variants = grounds.variants_of(experiment, "t")
    return Ground(experiment, *variants, endpoints, [Address("127.0.0.1", 1)], admin, cancelled)  # type: ignore[arg-type]


def points() -> tuple[Point, Point]:
    exchange = Exchange(api="Produce", partition=0, number=1, base_sequence=0)
    return Point(exchange=exchange, action=Action.LOSE_REPLY), Point(
        exchange=exchange, attempt=2, action=Action.STALL_REQUEST_TO_END
    )


def test_a_visit_that_fails_takes_its_topic_away_and_says_why(tmp_path: Path) -> None:
    admin = Refusing()
    with pytest.raises(PlatformError, match="creating a topic"):
        visits.visit(ground(admin, threading.Event()), points(), tmp_path / "visit")
    assert admin.deleted == admin.made and admin.made[0].startswith(PREFIX)


def test_the_name_of_a_pairs_topic_is_one_that_kafka_takes(tmp_path: Path) -> None:
    admin = Refusing()
    with pytest.raises(PlatformError):
        visits.visit(ground(admin, threading.Event()), points(), tmp_path / "visit")
    assert re.fullmatch(TOPIC, admin.made[0])


def test_a_visit_that_is_cancelled_takes_its_topic_away(tmp_path: Path) -> None:
    cancelled = threading.Event()
    admin = Refusing(cancelled)
    with pytest.raises(Cancelled):
        visits.visit(ground(admin, cancelled), points(), tmp_path / "visit")
    assert admin.deleted == admin.made and len(admin.made) == 1


def test_a_topic_that_the_course_could_not_remove_is_removed_or_said_to_be_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The course passes over it: its brokers may be gone next. Those of a URL are not."""

    def judged(*_: object) -> None:
        raise KeyError("judged")

    monkeypatch.setattr(visits._Run, "carry_out", lambda *_: [])
    monkeypatch.setattr(visits, "_judged", judged)
    admin = Refusing()
    with pytest.raises(KeyError, match="judged"):
        visits.visit(ground(admin, threading.Event()), points(), tmp_path / "visit")
    (topic,) = admin.deleted
    assert topic.startswith(PREFIX) and capsys.readouterr().err == ""

    def refused(topic: str) -> None:
        raise PlatformError(where="deleting", got="no", rule="r", todo="t")

    monkeypatch.setattr(admin, "delete_topic", refused)
    with pytest.raises(KeyError, match="judged"):
        visits.visit(ground(admin, threading.Event()), points(), tmp_path / "visit")
    assert "may be left: deleting" in capsys.readouterr().err


def test_a_thread_that_fails_says_why_and_its_end_is_told() -> None:
    ended: list[str] = []
    client = Threads("run", threading.Event(), ended.append).client("producer")
    assert client.code() is None
    client.tell("{}")
    with pytest.raises(PlatformError, match="producer of run: got exit code 1; ValidationError"):
        client.succeed(10.0)
    assert ended == ["producer"]


def test_an_exploration_has_no_other_faults() -> None:
    with pytest.raises(PlatformError, match="take the faults out"):
        Threads("run", threading.Event(), print).fault("cut")


LEFT = """
import atexit, sys
from dedup_lab import cli
from dedup_lab.exploring import threads

def ends():
    if {begun}:
        threads.begin()
    sys.exit(7)

atexit.register(print, "torn down")
cli._carry_out = ends
cli.main()
"""


@pytest.mark.parametrize("begun", [True, False], ids=["clients", "no clients"])
def test_a_process_in_which_clients_worked_ends_without_tearing_them_down(begun: bool) -> None:
    done = subprocess.run([sys.executable, "-c", LEFT.format(begun=begun)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "" if begun else "torn down\n"), done.stderr


@pytest.mark.parametrize(
    ("library", "version", "program"),
    [
        ("kafka-java", "4.3.1", Program(argv=("kafka-java", "4.3.1"))),
        ("confluent-kafka", "2.4.0", Program(argv=("confluent-kafka", "2.4.0"))),
        ("confluent-kafka", None, None),
    ],
)
def test_a_client_that_is_a_program_is_explored_as_one(
    library: str, version: str | None, program: Program | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also another version of a library that is installed: that one would be explored instead."""

    def built(version: str, progress: object) -> Program:
        return Program(argv=(library, version))

    monkeypatch.setitem(BUILDERS, library, built)
    document = load(EXAMPLE).model_dump(mode="json", by_alias=True, exclude_none=True)
    document["spec"]["systems"][0]["client"] = {"library": library} | ({"version": version} if version else {})
    experiment, _ = of_file(parse(document, source="f"), "f", Shape())
    assert grounds._program(experiment, lambda _: None) == program
