"""A system that is there already: its names, its addresses, and who is asked first. Runs: test_existing_live.py."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import OPEN, Broker, Endpoints, Security
from dedup.experiment.spec import System
from dedup_lab.systems import existing
from dedup_runners import admins, doors
from dedup_runners.admins import removals
from dedup_runners.interposer.protocols import Address


def system(**at: str) -> System:
    kind = "pulsar" if "serviceUrl" in at else "kafka"
    return System.model_validate({"name": "s", kind: {}, "deploy": {"existing": at}}, by_alias=True)


def test_names_are_nobody_elses_and_stay_in_the_results(tmp_path: Path) -> None:
    mine = existing.names_in(tmp_path / "one")
    assert mine.startswith("dedup-run-") and existing.names_in(tmp_path / "one") == mine
    assert existing.names_in(tmp_path / "other") != mine


@pytest.mark.parametrize("kept", ["\n", "dedup-run", "dedup-run-", "dedup-run-1a2b", "orders"])
def test_names_that_somebody_has_spoilt_are_not_believed(kept: str, tmp_path: Path) -> None:
    """What begins with them is removed: it must never be what others have."""
    (tmp_path / existing.NAMES).write_text(kept)
    made = existing.names_in(tmp_path)
    assert made != kept.strip() and made.startswith("dedup-run-")


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
    assert doors.entrances(endpoints("kafka", "elsewhere:9", brokers), brokers) == [Address("a", 1), Address("b", 2)]


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
    assert doors.entrances(endpoints("pulsar", given, brokers), brokers) == [first]


# --- the end -------------------------------------------------------------------------------------------------------


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[existing.ExistingSystem, Mock, list[str]]:
    """A system that was found, what stands for its removals, and what is told of it."""
    notes: list[str] = []
    remove = Mock()
    monkeypatch.setattr(existing, "_found", lambda asked: asked)
    monkeypatch.setattr(admins, "connect", Mock())
    monkeypatch.setattr(removals, "remove", remove)
    return existing.ExistingSystem(system(bootstrap="k:9092"), OPEN, tmp_path, notes.append), remove, notes


def test_at_the_end_everything_is_removed(there: tuple[existing.ExistingSystem, Mock, list[str]]) -> None:
    found, remove, notes = there
    found.close()
    assert [call.args[0].names for call in remove.call_args_list] == [found.endpoints.names] and not notes


def test_what_cannot_be_removed_is_told_and_ends_nothing(
    there: tuple[existing.ExistingSystem, Mock, list[str]],
) -> None:
    found, remove, notes = there
    remove.side_effect = PlatformError(where="removing", got="still there: topic t", rule="r", todo="t")
    found.close()
    assert notes == ["s: removing: got still there: topic t; r; t"]


def test_whatever_fails_at_the_end_or_the_beginning_the_rest_is_done(
    there: tuple[existing.ExistingSystem, Mock, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found, remove, _ = there
    monkeypatch.setattr(found.site, "close", Mock(side_effect=TimeoutError))
    with pytest.raises(TimeoutError):
        found.close()
    assert remove.call_count == 1
    monkeypatch.undo()
    monkeypatch.setattr(removals, "remove", remove)
    monkeypatch.setattr(found.admin, "round_trip", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        found.open(False, tmp_path, lambda *_: None)
    assert remove.call_count == 3, "what an earlier process has left, and what we have made"


def test_what_the_interposer_could_not_do_is_a_death(
    there: tuple[existing.ExistingSystem, Mock, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _, _ = there
    assert found.dead() is None
    monkeypatch.setattr(found, "_doors", Mock(problems=["a frame that is no Kafka"]))
    assert found.dead() == "the interposer: a frame that is no Kafka"


@pytest.mark.parametrize("shared", [True, False])
def test_brokers_of_one_address_cannot_be_told_apart(shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Pulsar says where a topic's owner is: two topics may have one owner, or all brokers one address."""
    brokers = [Broker(id=each, client_port=1, admin_url=f"http://{each}") for each in ("a:8080", "b:8080")]
    asked = endpoints("pulsar", "pulsar://a:1", brokers)
    owners = iter(["pulsar://a:6650", "pulsar://a:6650" if shared else "pulsar://b:6650"])
    monkeypatch.setattr("dedup_runners.admins.rest.client_url", lambda endpoints, topic: next(owners))
    if shared:
        with pytest.raises(PlatformError, match="each broker gives clients an address of its own"):
            doors.advertised(asked)
    else:
        assert [each.host for each in doors.advertised(asked)] == ["a", "b"]
