"""Real brokers that ask for TLS, and for a log-in or a certificate: small ones, of which others know an address alone.

A Kafka has as many listeners as are wanted, beside those of the lab; each advertises its own host. A Pulsar has one,
for it advertises one address to whoever names no listener.
"""

import base64
import hmac
import json
import secrets
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.runners import guarded_brokers
from tests.runners.guarded_brokers import PASSWORD, USER

from dedup.experiment.endpoints import Endpoints, Security
from dedup_lab.systems import kafka, labs, pulsar
from dedup_lab.systems.ports import free
from dedup_runners.waiting import until

RUN_S: Final = 180.0
HOST: Final = "127.0.0.1"
ROLE: Final = "tester"
KAFKA: Final = "4.3.1"
PULSAR: Final = "4.2.4"


class Listener(NamedTuple):
    """One of a Kafka: the host that it advertises, and whether it asks for a certificate instead of a log-in."""

    host: str
    mutual: bool


class Guarded(NamedTuple):
    """A running system: each listener's address with how it is spoken to, and `plain`, where the lab itself asks."""

    plain: Endpoints
    listeners: Mapping[str, Endpoints]


@contextmanager
def guarded_kafka(folder: Path, wanted: Mapping[str, Listener]) -> Iterator[Guarded]:
    """A broker with these listeners; names are in capitals."""
    ports, usual = dict(zip(wanted, free(len(wanted)), strict=True)), kafka.properties
    certificate = guarded_brokers.certificate(folder)
    logging_in = guarded_brokers.security(folder, tls=True, sasl="SCRAM-SHA-512")
    showing = own(guarded_brokers.security(folder, tls=True, sasl=None), folder)

    def properties(node: kafka.Node, nodes: list[kafka.Node], home: Path) -> str:
        said = dict(line.split("=", 1) for line in usual(node, nodes, home).splitlines())
        for name, listener in wanted.items():
            said["listeners"] += f",{name}://{HOST}:{ports[name]}"
            said["advertised.listeners"] += f",{name}://{listener.host}:{ports[name]}"
            said["listener.security.protocol.map"] += f",{name}:{'SSL' if listener.mutual else 'SASL_SSL'}"
            at = f"listener.name.{name.lower()}"
            said |= {f"{at}.ssl.keystore.type": "PEM", f"{at}.ssl.keystore.location": str(certificate)}
            if listener.mutual:
                said |= {f"{at}.ssl.client.auth": "required", f"{at}.ssl.truststore.type": "PEM"}
                said[f"{at}.ssl.truststore.location"] = str(folder / "ca.crt")
            else:
                said[f"{at}.sasl.enabled.mechanisms"] = "SCRAM-SHA-512"
                scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
                said[f"{at}.scram-sha-512.sasl.jaas.config"] = scram
        return "".join(f"{name}={value}\n" for name, value in said.items())

    with labs.create(folder / "logs") as lab:
        with patch.object(kafka, "properties", properties):
            plain = kafka.start(lab, version=KAFKA, proxied=False, brokers=1)
        admin = AdminClient({"bootstrap.servers": plain.direct_bootstrap})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        added = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, info, PASSWORD.encode())])
        for each in added.values():
            each.result(RUN_S)
        yield Guarded(
            plain,
            {
                name: at(f"{listener.host}:{ports[name]}", showing if listener.mutual else logging_in)
                for name, listener in wanted.items()
            },
        )


def at(address: str, security: Security) -> Endpoints:
    """A Kafka of which an address is known."""
    return Endpoints(system="kafka", client_bootstrap=address, direct_bootstrap=address, security=security, brokers=[])


def own(security: Security, folder: Path) -> Security:
    """The same with a certificate of our own, which the brokers' authority has signed: it is the brokers' own."""
    guarded_brokers.own_certificate(folder)
    return security.model_copy(update={"certificate": folder / "tls.crt", "key": folder / "tls.key"})


def shakes_hands(port: int) -> bool:
    """Whether a program speaks TLS at that port: on a busy machine one listens long before it does."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((HOST, port), timeout=5.0) as raw, context.wrap_socket(raw):
            return True
    except OSError:
        return False


@contextmanager
def guarded_pulsar(folder: Path, host: str = HOST, *, mutual: bool = False) -> Iterator[Endpoints]:
    """A broker that lets nobody in without a token, and speaks TLS beside what its own parts speak.

    `mutual`: without a certificate that its authority has signed, instead.
    """
    binary, web = free(2)
    usual, key = pulsar.broker_settings, secrets.token_bytes(32)
    security = guarded_brokers.security(folder, tls=True, sasl=None)
    if mutual:
        security, login = own(security, folder), _by_certificate(folder)
    else:
        (folder / "token").write_text(f"{token(key)}\n")
        security, login = security.model_copy(update={"token": folder / "token"}), by_token(key)

    def settings(*args: Any, **more: Any) -> dict[str, object]:
        said = usual(*args, **more)
        return said | {
            "brokerServicePortTls": binary,
            "webServicePortTls": web,
            "advertisedListeners": f"{said['advertisedListeners']},internal:pulsar+ssl://{host}:{binary}",
            "tlsCertificateFilePath": folder / "ca.crt",
            "tlsKeyFilePath": guarded_brokers.certificate(folder),
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            **login,
        }

    with labs.create(folder / "logs") as lab:
        with (
            patch.object(pulsar, "broker_settings", settings),
            patch.object(pulsar, "pulsar_round_trip"),  # the lab itself has no token; the test makes the round trip
        ):
            pulsar.start(lab, version=PULSAR, proxied=False, brokers=1, bookies=1)

        def up() -> bool:
            lab.check()
            return shakes_hands(web)

        until(up, RUN_S, "the broker shakes hands")
        address = f"pulsar+ssl://{host}:{binary}"
        yield Endpoints(
            system="pulsar",
            client_bootstrap=address,
            direct_bootstrap=address,
            admin_urls=[f"https://{host}:{web}"],
            security=security,
            brokers=[],
        )


PLUGINS: Final = "org.apache.pulsar.{}.Authentication{}"


def by_token(key: bytes) -> dict[str, object]:
    """What a Pulsar's broker is told that asks for a token signed with this key, and shows one to its like."""
    return {
        "authenticationProviders": PLUGINS.format("broker.authentication", "ProviderToken"),
        "tokenSecretKey": f"data:;base64,{base64.b64encode(key).decode()}",
        "superUserRoles": ROLE,
        "brokerClientAuthenticationPlugin": PLUGINS.format("client.impl.auth", "Token"),
        "brokerClientAuthenticationParameters": f"token:{token(key)}",
    }


def _by_certificate(folder: Path) -> dict[str, object]:
    """Whose common name is a superuser."""
    files = f"tlsCertFile:{folder / 'tls.crt'},tlsKeyFile:{folder / 'tls.key'}"
    return {
        "authenticationProviders": PLUGINS.format("broker.authentication", "ProviderTls"),
        "tlsTrustCertsFilePath": folder / "ca.crt",
        "tlsRequireTrustedClientCertOnConnect": "true",
        "superUserRoles": guarded_brokers.NAME,
        "brokerClientTlsEnabled": "true",
        "brokerClientTrustCertsFilePath": folder / "ca.crt",
        "brokerClientAuthenticationPlugin": PLUGINS.format("client.impl.auth", "Tls"),
        "brokerClientAuthenticationParameters": files,
    }


def token(key: bytes) -> str:
    """A JSON Web Token for our role (RFC 7519), signed by HMAC-SHA256."""

    def part(said: bytes) -> str:
        return base64.urlsafe_b64encode(said).decode().rstrip("=")

    unsigned = ".".join(part(json.dumps(each).encode()) for each in ({"alg": "HS256"}, {"sub": ROLE}))
    return f"{unsigned}.{part(hmac.digest(key, unsigned.encode(), 'sha256'))}"
