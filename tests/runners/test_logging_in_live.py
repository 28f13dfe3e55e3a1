"""Runs on real brokers that ask for TLS and a log-in, of which nothing is known but an address; and being turned away.

Kafka by SCRAM over TLS, with a name and a password of the awkward sort; Pulsar by a signed token over TLS. One broker
each: what is shown is that everything that speaks to a system is let in.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.lab.pointed import dedup
from tests.runners import assigned, guarded_brokers
from tests.runners.guarded_systems import HOST, Listener, guarded_kafka, guarded_pulsar, token
from tests.runners.local_pods import LocalPod

from dedup.errors import EXIT_ERROR
from dedup.experiment.endpoints import Endpoints
from dedup.history.histories import damages, read_manifest
from dedup.wire.identities import identity_in
from dedup_lab import cli
from dedup_runners import credentials, leftovers, round_trips
from dedup_runners.admins.rest import http_client
from dedup_spark import oracle

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

MESSAGES: Final = 10_000
RUN_S: Final = 180.0
EXPLORE_S: Final = 400.0


@contextmanager
def kafka(folder: Path) -> Iterator[Endpoints]:
    with guarded_kafka(folder, {"GUARDED": Listener(HOST, mutual=False)}) as running:
        yield running.listeners["GUARDED"]


GUARDED: Final = {"kafka": kafka, "pulsar": guarded_pulsar}


@pytest.fixture(scope="module", params=sorted(GUARDED))
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with GUARDED[request.param](tmp_path_factory.mktemp(request.param)) as running:
        yield running


def round_trip(system: Endpoints, *more: str) -> int:
    return round_trips.main(["existing", "--endpoints", system.model_dump_json(), *more])


def test_a_whole_run_behind_tls_and_a_log_in(system: Endpoints, tmp_path: Path) -> None:
    assert round_trip(system) == 0
    spec: dict[str, Any] = {"systems": [{"name": system.system, system.system: {}}], "workload": {"messages": MESSAGES}}
    told = assigned.assignment(tmp_path / "pod", endpoints=system, **spec)
    with LocalPod(told) as pod:
        codes = pod.ended(RUN_S)
        assert set(codes.values()) == {0}, pod.everything_said()
        said = pod.everything_said()
    manifest = read_manifest(told.folder)
    assert not damages(told.folder, manifest) and not manifest.problems
    counts = oracle.judge(told.folder).counts
    assert (counts.received, counts.values_with_duplicates, counts.not_received) == (MESSAGES, 0, 0)
    recorded = said + "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert not [secret for secret in secrets_of(system) if secret in recorded]


def secrets_of(system: Endpoints) -> list[str]:
    found = system.security
    places = [found.token] if found.token else [found.login / "password"] if found.login else []
    assert places, "there is something to be kept"
    return [place.read_text().strip() for place in places]


def wrong_password(system: Endpoints, folder: Path) -> Endpoints:
    security = guarded_brokers.security(folder, tls=True, sasl="SCRAM-SHA-512", password="another")
    return system.model_copy(update={"security": security})


def wrong_token(system: Endpoints, folder: Path) -> Endpoints:
    (folder / "token").write_text(token(b"another key, just as long as ours"))
    return system.model_copy(update={"security": system.security.model_copy(update={"token": folder / "token"})})


def test_who_is_not_known_is_told_so(system: Endpoints, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wrong: dict[str, Callable[[Endpoints, Path], Endpoints]] = {"kafka": wrong_password, "pulsar": wrong_token}
    assert round_trip(wrong[system.system](system, tmp_path)) == EXIT_ERROR
    said = capfd.readouterr().err
    assert len(said.splitlines()) == 1 and "Secret" in said, said


def access(system: Endpoints) -> list[str]:
    """How a command is pointed at the brokers: their URL, and the options."""
    said, at = system.security, system.client_bootstrap.partition("://")[2] or system.client_bootstrap
    given = {"--ca": said.ca, "--sasl": said.sasl, "--login": said.login, "--token": said.token}
    options = [str(each) for option in given.items() if option[1] for each in option]
    options += ["--admin", *system.admin_urls] if system.admin_urls else []
    return [f"{system.system}://{at}", *options]


def test_brokers_behind_tls_and_a_log_in_are_asked_for_rules(
    system: Endpoints, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["dedup", "probe", *access(system), "--format", "json"]
    with patch("sys.argv", command), pytest.raises(SystemExit) as ended:
        cli.main()
    said = capfd.readouterr()
    assert ended.value.code == 0, said.out + said.err
    assert {row["as_expected"] for row in json.loads(said.out)["rows"]} == {True}
    assert not [secret for secret in secrets_of(system) if secret in said.out + said.err]


SPOKEN: Final = {"kafka": {"SaslHandshake", "SaslAuthenticate", "Produce"}, "pulsar": {"CONNECT", "LOOKUP", "SEND"}}


def test_a_broker_behind_tls_and_a_log_in_is_checked(
    system: Endpoints, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    command = ["dedup", "check", *access(system), "--out", str(kept), "--json"]
    with patch("sys.argv", command), pytest.raises(SystemExit) as ended:
        cli.main()
    said = capfd.readouterr()
    assert ended.value.code == 0, said.err
    halves = json.loads(said.out)["halves"]
    assert [len(half["losses"]) for half in halves] == [10, 10]
    assert halves[0]["counts"]["values_with_duplicates"] > 0 == halves[1]["counts"]["values_with_duplicates"]
    apis = pq.read_table(next(kept.rglob("conversation.parquet")))["api"].to_pylist()
    assert SPOKEN[system.system] <= set(apis)
    recorded = said.out.encode() + b"".join(path.read_bytes() for path in kept.rglob("*") if path.is_file())
    assert not [secret for secret in secrets_of(system) if secret.encode() in recorded]


def test_brokers_behind_tls_and_a_log_in_are_explored(system: Endpoints, tmp_path: Path) -> None:
    """Every point is struck, also replies that are held while their clients are cut off: the broker hears nothing."""
    short = ("--messages", "2", "--partitions", "1", "--out", str(tmp_path / "kept"), "--format", "json")
    exploring = dedup(tmp_path, "explore", *access(system), *short)
    out, err = exploring.communicate(timeout=EXPLORE_S)
    assert exploring.returncode == 0, out + err
    assert "stall_reply" in {row["action"] for row in json.loads(out)["rows"]}
    assert not [secret for secret in secrets_of(system) if secret in out + err]


# --- what an execution of the operator leaves there, and what is removed of it ---

OURS: Final = f"dedup-run-{'a' * 32}"
"""What all that an execution makes begins with."""
OTHERS: Final = (f"dedup-run-{'a' * 31}b", f"{OURS}b", "dedup-run-aaaaaaaa", "theirs")
"""Other executions' names, one of them as `dedup run` makes them, and somebody's own."""
CALL_S: Final = 60.0


def made(system: Endpoints, *names: str) -> None:
    """A topic of a run and one of a round trip, of each of these names."""
    if system.system == "kafka":
        admin = AdminClient({**credentials.librdkafka(system.security), "bootstrap.servers": system.direct_bootstrap})
        topics = [NewTopic(f"{name}-{each}", 1, 1) for name in names for each in ("run", "ready-1")]
        for each in admin.create_topics(topics).values():
            each.result(CALL_S)
        return
    with http_client(system, CALL_S) as http:
        for name in names:
            base = f"{system.admin_urls[0]}/admin/v2"
            for path in (f"namespaces/public/{name}-on", f"persistent/public/{name}-on/run"):
                http.put(f"{base}/{path}").raise_for_status()
            http.put(f"{base}/persistent/public/default/{name}-ready-1").raise_for_status()


def there(system: Endpoints) -> set[str]:
    """What is there that this module has made: by the beginnings of its names."""
    if system.system == "kafka":
        admin = AdminClient({**credentials.librdkafka(system.security), "bootstrap.servers": system.direct_bootstrap})
        found = list(admin.list_topics(timeout=CALL_S).topics)
    else:
        with http_client(system, CALL_S) as http:
            base = f"{system.admin_urls[0]}/admin/v2"
            found = [
                each.rpartition("/")[2]
                for url in ("namespaces/public", "persistent/public/default")
                for each in http.get(f"{base}/{url}").raise_for_status().json()
            ]
    return {name for name in (OURS, *OTHERS) if any(each.startswith(f"{name}-") for each in found)}


def test_what_an_execution_made_is_removed_and_nothing_of_any_other(
    system: Endpoints, capfd: pytest.CaptureFixture[str]
) -> None:
    made(system, OURS, *OTHERS)
    ours = system.model_copy(update={"names": OURS, "brokers": []})
    assert there(system) == {OURS, *OTHERS}
    assert leftovers.main([f"--endpoints={ours.model_dump_json()}"]) == 0, capfd.readouterr().err
    assert there(system) == {*OTHERS}
    assert leftovers.main([f"--endpoints={ours.model_dump_json()}"]) == 0, "harmless twice"


def test_a_round_trip_leaves_word_who_the_system_is_and_no_topic(
    system: Endpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same word by whatever address it is asked, and not the address."""
    word = tmp_path / "word"
    word.touch()
    monkeypatch.setattr(round_trips, "LAST_WORD", word)
    ours = system.model_copy(update={"names": OURS, "brokers": []})
    assert round_trip(ours, "--identify") == 0
    told = identity_in(word.read_text())
    assert told is not None and told.names and all(told.brokers.values())
    assert not any(address in told.names for address in (system.client_bootstrap, *system.admin_urls))
    assert OURS not in there(system)
