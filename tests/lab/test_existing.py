"""A system that is there already: its names, its addresses, and who is asked first. Runs: test_existing_live.py."""

from pathlib import Path

import pytest

from dedup.experiment.endpoints import OPEN, Broker, Endpoints, Security
from dedup.experiment.spec import System
from dedup_lab.systems import existing
from dedup_runners.interposer.protocols import Address


def system(**at: str) -> System:
    kind = "pulsar" if "serviceUrl" in at else "kafka"
    return System.model_validate({"name": "s", kind: {}, "deploy": {"existing": at}}, by_alias=True)


def test_names_are_nobody_elses_and_stay_in_the_results(tmp_path: Path) -> None:
    mine = existing.names_in(tmp_path / "one")
    assert mine.startswith("dedup-run-") and existing.names_in(tmp_path / "one") == mine
    assert existing.names_in(tmp_path / "other") != mine


def test_names_that_somebody_has_spoilt_are_not_believed(tmp_path: Path) -> None:
    """What begins with them is removed: it must never be what others have."""
    (tmp_path / existing.NAMES).write_text("\n")
    assert existing.names_in(tmp_path).startswith("dedup-run-")


def test_all_names_begin_with_them() -> None:
    asked = existing.asked(system(bootstrap="k:9092"), OPEN, "dedup-run-1")
    assert (asked.names, asked.topic_prefix, asked.brokers) == ("dedup-run-1", "dedup-run-1-", [])
    both = {"serviceUrl": "pulsar://b:6650", "adminUrl": "http://b:8080"}
    found = existing.asked(system(**both), Security(token=Path("t")), "dedup-run-1")
    assert (found.client_bootstrap, found.admin_urls) == ("pulsar://b:6650", ["http://b:8080"])


def endpoints(protocol: str, bootstrap: str, brokers: list[Broker]) -> Endpoints:
    return Endpoints.model_validate(
        {"system": protocol, "client_bootstrap": bootstrap, "direct_bootstrap": bootstrap, "brokers": brokers}
    )


def test_a_kafkas_clients_ask_every_broker_by_the_address_that_it_gives() -> None:
    brokers = [Broker(id="1", host="a", client_port=1), Broker(id="2", host="b", client_port=2)]
    assert existing.entrances(endpoints("kafka", "elsewhere:9", brokers), brokers) == [Address("a", 1), Address("b", 2)]


@pytest.mark.parametrize(
    ("given", "first"),
    [
        ("pulsar+ssl://localhost:6651", Address("127.0.0.1", 6651)),
        ("pulsar://127.0.0.1:6651", Address("127.0.0.1", 6651)),
        ("pulsar://127.0.0.1:6652", Address("127.0.0.1", 6652)),
        ("pulsar://no-such-host.invalid:6651", Address("no-such-host.invalid", 6651)),
    ],
    ids=["a broker by another name", "a broker", "something else", "something that is not known here"],
)
def test_a_pulsars_clients_ask_whom_they_are_given_by_the_name_that_it_gives_itself(given: str, first: Address) -> None:
    brokers = [Broker(id="b:8080", host="127.0.0.1", client_port=6651)]
    assert existing.entrances(endpoints("pulsar", given, brokers), brokers) == [first]
