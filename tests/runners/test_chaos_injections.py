"""Every kind of fault has a module that does it, and the functions that its chaos experiments name are there."""

import importlib
import json
import threading
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Final
from unittest.mock import MagicMock

import pytest
from tests.runners.test_chaos_cluster_faults import FakeCluster, endpoints, seen

from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.kinds import FaultKind, Platform
from dedup.faults.registry import KINDS, Fault
from dedup.wire.faults import Detail, FaultEvent
from dedup_runners.admins import Ensemble
from dedup_runners.chaos import latency, pings, sessions
from dedup_runners.chaos.experiments import render
from dedup_runners.chaos.faults import message, partition
from dedup_runners.chaos.injections import injection_of
from dedup_runners.chaos.sessions import Scene, Session
from dedup_runners.chaos.sites.protocol import Victim

OWN_EXPERIMENTS = Path(__file__).parents[2] / "examples" / "chaos"
ENDPOINTS = Endpoints(system="kafka", client_bootstrap="127.0.0.1:9", direct_bootstrap="127.0.0.1:9", brokers=[])
SETTINGS: dict[str, dict[str, Any]] = {
    "duration": {"duration": "2s"},
    "delay": {"delay": "1s"},
    "restartAfter": {"restartAfter": "2s"},
    "by": {"by": "NetFilter"},
    "kilobytesPerSecond": {"kilobytesPerSecond": 10},
    "api": {"api": "Produce"},
    "frame": {"frame": "Reply"},
    "action": {"action": "Lose"},
    "experiment": {"experiment": "own.json"},
    "deadline": {"deadline": "2s"},
}
"""Those that have no default, by their keys."""


def example(kind: type[FaultKind]) -> Fault:
    required = [kind.alias(name) for name, field in kind.model_fields.items() if field.is_required()]
    settings = {key: value for name in required for key, value in SETTINGS[name].items()}
    return Fault.model_validate_json(json.dumps({"name": "f", "at": {"message": 1}, kind.key: settings}))


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_experiment_calls_is_there(kind: type[FaultKind], tmp_path: Path) -> None:
    fault = example(kind)
    document = render(fault, folder=tmp_path, endpoints=ENDPOINTS, topic="t")
    assert fault.given.words in document["description"]
    for activity in (*document["method"], *document["rollbacks"]):
        provider = activity["provider"]
        called = getattr(importlib.import_module(provider["module"]), provider["func"])
        signature(called).bind(**provider["arguments"], configuration={})


# What an injector records of its settings: the judge holds it against the plan.

MORE: Final[dict[str, list[dict[str, Any]]]] = {
    "delayTCP": [{"delay": "700ms", "jitter": "300ms", "duration": "2s"}],
    "kill": [{"restartAfter": "2s"}, {"restartAfter": "2s", "target": "Bookie"}],
    "dropTCP": [{"duration": "2s", "direction": way} for way in ("Both", "ToBrokers", "ToClients")],
    "partition": [
        *({"duration": "2s", "by": means} for means in ("NetFilter", "NetworkPolicy")),
        {"duration": "2s", "by": "NetFilter", "between": "Clients", "direction": "FromLeader"},
    ],
    "chaos": [{"experiment": "own.json", "deadline": "2s", "image": "list"}],
    "message": [
        {"api": "Produce", "frame": "Reply", "action": "Lose"},
        {"api": "SEND", "frame": "Request", "action": "Stall", "deadline": "2s", "until": "Retry", "attempt": 2},
    ],
}
"""Several faults of one kind, so that each of its settings is given once, and each way to do it is gone once."""
EVERYWHERE: Final = [
    pytest.param(kind, settings, platform, id=f"{kind.key}-{platform}-{number}")
    for kind in KINDS
    for platform in kind.platforms
    for number, settings in enumerate(MORE.get(kind.key, [{}]))
]
ABOUT: Final[dict[Platform, dict[str, Any]]] = {
    Platform.PROCESSES: {"pid": 7},
    Platform.PODS: {"pod": "kafka-1", "container": "kafka"},
}


class Announced(Exception):
    """The injector has said what it sets out to do. Nothing is done."""


class Stage:
    """The session of a fault that was triggered; broker 1 leads, and what else is asked has some answer."""

    def __init__(self, scene: Scene, platform: Platform) -> None:
        self.said: dict[str, Any] = {}
        self.session = MagicMock(scene=scene, effective=False)
        self.session.announce.side_effect = self._announce
        self.session.recall = partial(Session.recall, self.session)
        self.session._memory = {partition.Deed: partition.Deed(cut=MagicMock())}
        self.session.known_leader.return_value = self.session.leader.return_value = "1"
        self.session.site.victim.return_value = Victim("1", "one", ABOUT[platform])
        self.session.admin.ensemble.return_value = Ensemble(1, ("b1",))
        self.session.cluster.return_value = FakeCluster({f"kafka-{n}": seen(f"kafka-{n}") for n in (0, 1, 2)})

    def _announce(self, event: FaultEvent, **detail: Any) -> None:
        assert event == FaultEvent.INJECTING, "nothing is said before it"
        self.said = Detail(**detail).said()
        raise Announced


def places(platform: Platform, folder: Path) -> Endpoints:
    """Three brokers, and a bookie."""
    bookie = [Broker(id="b1", client_port=9)]
    if platform is Platform.PODS:
        return endpoints(folder).model_copy(update={"bookies": bookie})
    own = {"client_port": 9, "proxy_port": 10, "disk": folder}
    brokers = [Broker(id=str(n), proxy=f"p{n}", **own) for n in (0, 1, 2)]
    return ENDPOINTS.model_copy(update={"brokers": brokers, "bookies": bookie})


@pytest.mark.parametrize(("kind", "settings", "platform"), EVERYWHERE)
def test_an_injector_records_every_setting_that_it_was_given(
    kind: type[FaultKind], settings: dict[str, Any], platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = fault_of(kind, settings) if settings else example(kind)
    document = render(fault, folder=tmp_path, endpoints=places(platform, tmp_path), topic="t")
    stage = Stage(Scene.model_validate(document["configuration"]), platform)
    monkeypatch.setattr(sessions, "_session", lambda configuration: stage.session)
    with pytest.raises(Announced):
        begin(kind, fault, stage, monkeypatch)
    assert {name: stage.said.get(name) for name in fault.given.settings} == fault.given.settings


def fault_of(kind: type[FaultKind], settings: dict[str, Any]) -> Fault:
    return Fault.model_validate_json(json.dumps({"name": "f", "at": {"message": 1}, kind.key: settings}))


def begin(kind: type[FaultKind], fault: Fault, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do the fault until it announces itself. One on a frame is done by the interposer, when a frame matches."""
    injection = injection_of(kind)
    if kind.on_frames:
        interposer = MagicMock()
        monkeypatch.setattr(message, "Interposer", interposer)
        injection.prepare(stage.session)
        _, (rule, *_) = interposer.call_args.args
        interposer.call_args.kwargs["on_strike"](rule, MagicMock(), MagicMock())
    else:
        provider = injection.method(fault.given, 0.0)[0]["provider"]
        getattr(importlib.import_module(provider["module"]), provider["func"])(
            **provider["arguments"], configuration={}
        )


def test_the_links_latency_is_recorded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = render(None, folder=tmp_path, endpoints=places(Platform.PROCESSES, tmp_path), topic="t", latency_s=0.02)
    stage = Stage(Scene.model_validate(document["configuration"]), Platform.PROCESSES)
    monkeypatch.setattr(sessions, "_session", lambda configuration: stage.session)
    monkeypatch.setattr(latency, "measured", lambda session, attempts: {})
    with pytest.raises(Announced):
        latency.slow_down(**document["method"][0]["provider"]["arguments"], configuration={})
    assert stage.said["latency_ms"] == 20.0


def test_brokers_are_pinged_side_by_side_and_one_that_is_silent_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = threading.Barrier(3, timeout=20.0)

    def round_trips_ms(system: str, places: list[pings.Place], *_: Any) -> list[float]:
        everybody.wait()
        if places[0].port == 12:
            raise ConnectionRefusedError("nobody")
        return [float(places[0].port)]

    monkeypatch.setattr(pings, "round_trips_ms", round_trips_ms)
    brokers = [Broker(id=str(n), client_port=n, proxy=f"p{n}", proxy_port=10 + n) for n in (1, 2, 3)]
    session = MagicMock()
    session.scene.targets.return_value = brokers
    assert latency.measured(session, 5) == {"1": 11.0, "3": 13.0}
    session.note.assert_called_once_with(FaultEvent.PING_FAILED, broker="2", error="nobody")


def test_every_setting_of_a_kind_is_given_once() -> None:
    for kind in KINDS:
        faults = [fault_of(kind, each) for each in MORE[kind.key]] if kind.key in MORE else [example(kind)]
        recorded = set().union(*(fault.given.settings for fault in faults))
        assert recorded - {"sha256"} == kind.model_fields.keys() - {"target", "document"}, "of a text its hash"


@pytest.mark.parametrize("path", sorted(OWN_EXPERIMENTS.glob("*.json")), ids=lambda path: path.stem)
def test_activities_in_an_example_of_chaos_toolkit_take_their_arguments(path: Path) -> None:
    """Those of what is installed: our own, and chaostoolkit-kubernetes'."""
    found = json.loads(path.read_text(encoding="utf-8"))
    activities = [*found["steady-state-hypothesis"]["probes"], *found["method"], *found["rollbacks"]]
    providers = [each["provider"] for each in activities if each["provider"]["type"] == "python"]
    known = [each for each in providers if each["module"].startswith(("chaosdedup.", "chaosk8s.", "dedup_runners."))]
    assert known
    for provider in known:
        called = getattr(importlib.import_module(provider["module"]), provider["func"])
        signature(called).bind(**provider["arguments"])
