"""A run proves the pods of somebody's brokers anew, and waits a little for a name that leads nowhere yet."""

from typing import Any, Final

import pytest
from testbed.specs import changed

from dedup.errors import PlatformError
from dedup.experiment.consents import Candidate
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.experiment.spec import Experiment, parse
from dedup_runners import consents, leftovers
from dedup_runners.consents import in_pods

KILL: Final = {"name": "f", "at": {"message": 1}, "kill": {"restartAfter": "8s"}}
MOVE: Final = {"name": "f", "at": {"message": 1}, "moveLeader": {}}
EXISTING: Final = {"bootstrap": "k:9092", "podSelector": {"matchLabels": {"b": "2", "a": "1"}}}
KAFKA: Final = {"name": "kafka", "kafka": {}, "deploy": {"existing": EXISTING}}
DIRECT: Final = Endpoints(
    system="kafka",
    client_bootstrap="k:9092",
    direct_bootstrap="k:9092",
    brokers=[Broker(id="4", host="k-1.k", client_port=9092), Broker(id="7", host="k-0.k", client_port=9092)],
)
HOSTS: Final = {"k-0.k": {"10.0.0.1"}, "k-1.k": {"10.0.0.2"}}


def experiment(fault: dict[str, Any]) -> Experiment:
    return parse(changed(("spec/systems", [KAFKA]), ("spec/faults", [fault])), source="test")


def candidate(number: int) -> Candidate:
    notes = {"dedup.dev/hold": "/hold"}
    return Candidate("lab", f"k-{number}", frozenset({f"10.0.0.{number + 1}"}), True, ("broker",), notes, True)


class Asked:
    """The API server: which selectors it was asked for."""

    def __init__(self, *pods: Candidate) -> None:
        self.pods, self.selectors = list(pods), list[str]()

    def __call__(self, selector: str) -> list[Candidate]:
        self.selectors.append(selector)
        return self.pods


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Where names lead."""
    known = dict(HOSTS)
    monkeypatch.setattr(consents, "addresses_of", lambda host: known.get(host, set()))
    monkeypatch.setattr(consents, "AGAIN_S", 0.0)
    return known


def placed(asked: Asked, fault: dict[str, Any] = KILL, within_s: float = 0.0) -> Endpoints:
    of = experiment(fault)
    return in_pods(DIRECT, of.spec.systems[0], of.spec, asked, within_s)


@pytest.mark.usefixtures("hosts")
def test_each_broker_has_its_pod() -> None:
    asked = Asked(candidate(0), candidate(1))
    found = placed(asked)
    assert {each.id: each.pod and (each.pod.name, each.pod.hold) for each in found.brokers} == {
        "4": ("k-1", "/hold"),
        "7": ("k-0", "/hold"),
    }
    assert asked.selectors == ["a=1,b=2"]


@pytest.mark.usefixtures("hosts")
def test_each_broker_of_a_pulsar_has_its_pod() -> None:
    """Its id is where its REST interface is, among brokers."""
    existing = {"serviceUrl": "pulsar://k:6650", "adminUrl": "http://k:8080", "podSelector": EXISTING["podSelector"]}
    system = {"name": "pulsar", "pulsar": {}, "deploy": {"existing": existing}}
    of = parse(changed(("spec/systems", [system]), ("spec/faults", [KILL])), source="test")
    brokers = [Broker(id=f"k-{each}.k:8080", host=f"k-{each}.k", client_port=6650) for each in (0, 1)]
    direct = DIRECT.model_copy(update={"system": "pulsar", "brokers": brokers})
    found = in_pods(direct, of.spec.systems[0], of.spec, Asked(candidate(0), candidate(1)), 0.0)
    assert [each.pod and each.pod.name for each in found.brokers] == ["k-0", "k-1"]


@pytest.mark.usefixtures("hosts")
def test_a_fault_of_no_pod_asks_for_none() -> None:
    asked = Asked()
    assert placed(asked, MOVE) is DIRECT and asked.selectors == []


def test_a_name_that_leads_nowhere_yet_is_asked_again(hosts: dict[str, set[str]]) -> None:
    del hosts["k-1.k"]

    class Late(Asked):
        def __call__(self, selector: str) -> list[Candidate]:
            if len(self.selectors) == 2:
                hosts["k-1.k"] = {"10.0.0.2"}
            return super().__call__(selector)

    late = Late(candidate(0), candidate(1))
    assert all(each.pod for each in placed(late, within_s=60).brokers)
    assert len(late.selectors) == 3


def test_what_is_not_proven_in_time_is_an_error_in_words(hosts: dict[str, set[str]]) -> None:
    hosts["k-1.k"] = {"10.96.0.4"}
    with pytest.raises(PlatformError, match=r"broker 4: got an advertised address that leads to 10\.96\.0\.4,"):
        placed(Asked(candidate(0), candidate(1)))


def test_a_removal_wants_the_names_of_one_execution(capsys: pytest.CaptureFixture[str]) -> None:
    """Names that are shared are never removed, nor anything without a system."""
    assert leftovers.main([]) == 2
    assert leftovers.main(["{}"]) == 2 == leftovers.main(["--endpoints={}"])
    assert leftovers.main([f"--endpoints={DIRECT.model_dump_json()}"]) == 4
    assert "only what one execution has made" in capsys.readouterr().err
