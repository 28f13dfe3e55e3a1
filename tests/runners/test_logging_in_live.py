"""Runs on real brokers that ask for TLS and a log-in, of which nothing is known but an address; and being turned away.

Kafka by SCRAM over TLS, with a name and a password of the awkward sort; Pulsar by a signed token over TLS. One broker
each: what is shown is that everything that speaks to a system is let in.
"""

import base64
import hmac
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.runners import assigned, guarded_brokers
from tests.runners.guarded_brokers import PASSWORD, USER
from tests.runners.local_pods import LocalPod

from dedup.errors import EXIT_ERROR
from dedup.experiment.endpoints import Endpoints
from dedup.history.histories import damages, read_manifest
from dedup_lab import cli
from dedup_lab.systems import kafka, labs, pulsar
from dedup_lab.systems.ports import free, listening
from dedup_runners import round_trips
from dedup_runners.waiting import until
from dedup_spark import oracle

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

MESSAGES: Final = 10_000
RUN_S: Final = 180.0
HOST: Final = "127.0.0.1"
ROLE: Final = "tester"


@contextmanager
def guarded_kafka(folder: Path) -> Iterator[Endpoints]:
    """A broker with one more listener, which asks for TLS and a log-in."""
    (port,) = free(1)
    certificate, usual = guarded_brokers.certificate(folder), kafka.properties

    def properties(node: kafka.Node, nodes: list[kafka.Node], home: Path) -> str:
        said = dict(line.split("=", 1) for line in usual(node, nodes, home).splitlines())
        said["listeners"] += f",GUARDED://{HOST}:{port}"
        said["advertised.listeners"] += f",GUARDED://{HOST}:{port}"
        said["listener.security.protocol.map"] += ",GUARDED:SASL_SSL"
        own, scram = "listener.name.guarded", "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        said[f"{own}.sasl.enabled.mechanisms"] = "SCRAM-SHA-512"
        said[f"{own}.scram-sha-512.sasl.jaas.config"] = scram
        said[f"{own}.ssl.keystore.type"] = "PEM"
        said[f"{own}.ssl.keystore.location"] = str(certificate)
        return "".join(f"{name}={value}\n" for name, value in said.items())

    with labs.create(folder / "logs") as lab, patch.object(kafka, "properties", properties):
        plain = kafka.start(lab, version="4.3.1", proxied=False, brokers=1)
        admin = AdminClient({"bootstrap.servers": plain.direct_bootstrap})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        added = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, info, PASSWORD.encode())])
        for each in added.values():
            each.result(RUN_S)
        security = guarded_brokers.security(folder, tls=True, sasl="SCRAM-SHA-512")
        address = f"{HOST}:{port}"
        yield Endpoints(
            system="kafka", client_bootstrap=address, direct_bootstrap=address, security=security, brokers=[]
        )


@contextmanager
def guarded_pulsar(folder: Path) -> Iterator[Endpoints]:
    """A broker that lets nobody in without a token, and speaks TLS beside what its own parts speak."""
    binary, web = free(2)
    usual, key = pulsar.broker_settings, secrets.token_bytes(32)
    (folder / "token").write_text(f"{token(key)}\n")
    open_to_all = guarded_brokers.security(folder, tls=True, sasl=None)

    def settings(zookeeper: int, node: pulsar.Node, bookies: int) -> dict[str, object]:
        said = usual(zookeeper, node, bookies)
        plugins = "org.apache.pulsar.{}.Authentication{}Token"
        return said | {
            "brokerServicePortTls": binary,
            "webServicePortTls": web,
            "advertisedListeners": f"{said['advertisedListeners']},internal:pulsar+ssl://{HOST}:{binary}",
            "tlsCertificateFilePath": folder / "ca.crt",
            "tlsKeyFilePath": guarded_brokers.certificate(folder),
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            "authenticationProviders": plugins.format("broker.authentication", "Provider"),
            "tokenSecretKey": f"data:;base64,{base64.b64encode(key).decode()}",
            "superUserRoles": ROLE,
            "brokerClientAuthenticationPlugin": plugins.format("client.impl.auth", ""),
            "brokerClientAuthenticationParameters": f"token:{token(key)}",
        }

    with (
        labs.create(folder / "logs") as lab,
        patch.object(pulsar, "broker_settings", settings),
        patch.object(pulsar, "pulsar_round_trip"),  # the lab itself has no token; the test makes the round trip
    ):
        pulsar.start(lab, version="4.2.4", proxied=False, brokers=1, bookies=1)

        def up() -> bool:
            lab.check()
            return listening(web)

        until(up, RUN_S, "the broker listens")
        address = f"pulsar+ssl://{HOST}:{binary}"
        yield Endpoints(
            system="pulsar",
            client_bootstrap=address,
            direct_bootstrap=address,
            admin_urls=[f"https://{HOST}:{web}"],
            security=open_to_all.model_copy(update={"token": folder / "token"}),
            brokers=[],
        )


def token(key: bytes) -> str:
    """A JSON Web Token for our role (RFC 7519), signed by HMAC-SHA256."""

    def part(said: bytes) -> str:
        return base64.urlsafe_b64encode(said).decode().rstrip("=")

    unsigned = ".".join(part(json.dumps(each).encode()) for each in ({"alg": "HS256"}, {"sub": ROLE}))
    return f"{unsigned}.{part(hmac.digest(key, unsigned.encode(), 'sha256'))}"


GUARDED: Final = {"kafka": guarded_kafka, "pulsar": guarded_pulsar}


@pytest.fixture(scope="module", params=sorted(GUARDED))
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    with GUARDED[request.param](tmp_path_factory.mktemp(request.param)) as running:
        yield running


def round_trip(system: Endpoints) -> int:
    return round_trips.main(["existing", "--endpoints", system.model_dump_json()])


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
