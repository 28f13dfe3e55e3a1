"""TLS and log-ins, as each library wants to be told of them.

A system that is deployed for an experiment speaks in the open, within the cluster. One that is there already may ask
for TLS, and who we are. What the answer is lies in files, which a Secret filled (`Security` of
`dedup.experiment.endpoints` names them); it is read here, handed to a library, and never written down: not to a log,
not to a history, not to an error.
"""

import re
import ssl
from pathlib import Path
from typing import Any, Final, NamedTuple

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Security

MAX_BYTES: Final = 64 << 10
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


class Certificate(NamedTuple):
    """The files with our certificate and its key."""

    certificate: Path
    key: Path


class Login(NamedTuple):
    """Who we are to Kafka."""

    username: str
    password: str


def librdkafka(security: Security) -> dict[str, str]:
    """librdkafka's settings; none for a system in the open."""
    found = {} if security.ca is None else {"ssl.ca.location": str(_there(security.ca))}
    if security.ca is not None and (own := certificate(security)) is not None:
        found |= {"ssl.certificate.location": str(own.certificate), "ssl.key.location": str(own.key)}
    if security.sasl is not None:
        username, password = login(security)
        found |= {"sasl.username": username, "sasl.password": password}
    return found | told(security)


def told(security: Security) -> dict[str, str]:
    """What of it may be told in a history: how, and not who."""
    if security.sasl is not None:
        protocol = "SASL_PLAINTEXT" if security.ca is None else "SASL_SSL"
        return {"security.protocol": protocol, "sasl.mechanism": security.sasl}
    return {} if security.ca is None else {"security.protocol": "SSL"}


def pulsar_client(security: Security) -> dict[str, Any]:
    """pulsar-client's arguments; none for a system in the open."""
    import pulsar

    found: dict[str, Any] = {}
    if security.ca is not None:
        found |= {"tls_trust_certs_file_path": str(_there(security.ca)), "tls_validate_hostname": True}
    if (said := token(security)) is not None:
        found["authentication"] = pulsar.AuthenticationToken(said)
    elif (own := certificate(security)) is not None:  # also where a proxy shows it: the greeting names how we log in
        found["authentication"] = pulsar.AuthenticationTLS(str(own.certificate), str(own.key))
    if security.ca is not None and (own := certificate(security)) is not None:
        found |= {"tls_certificate_file_path": str(own.certificate), "tls_private_key_file_path": str(own.key)}
    return found


def tls(security: Security) -> ssl.SSLContext | None:
    """Trust the authorities alone, insist on the brokers' names, and show our own certificate; None without TLS."""
    if security.ca is None:
        return None
    try:
        context = ssl.create_default_context(cafile=str(_there(security.ca)))
    except ssl.SSLError:
        raise _unusable(security.ca, "no certificates", "it holds certificates as PEM") from None
    if (own := certificate(security)) is not None:
        try:
            context.load_cert_chain(own.certificate, own.key, password=_no_password)
        except (ssl.SSLError, ValueError):
            rule = "it is the private key of our certificate, both as PEM, without a password"
            raise _unusable(own.key, f"no key that fits {own.certificate.name}", rule) from None
    return context


def certificate(security: Security) -> Certificate | None:
    """Our own certificate and its key; None where there is none."""
    if security.certificate is None or security.key is None:
        return None
    return Certificate(_there(security.certificate), _there(security.key))


def login(security: Security) -> Login:
    """The user and password of Kafka's log-in."""
    assert security.login is not None
    return Login(_said(security.login / "username"), _said(security.login / "password"))


def token(security: Security) -> str | None:
    """Pulsar's token; None where there is none."""
    if security.token is None:
        return None
    if not _TOKEN.fullmatch(said := _said(security.token)):
        raise _unusable(security.token, "other characters than a token has", "a token is one word of plain ASCII")
    return said


def _no_password() -> str:
    """Nobody is there to be asked for one."""
    return ""


def _said(path: Path) -> str:
    """What a Secret says there, without the end of line that editors leave."""
    try:
        said = _there(path).read_bytes()[:MAX_BYTES].decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise _unusable(path, "bytes that are not UTF-8 text", "it is text") from None
    if not said or "\0" in said:
        raise _unusable(path, "nothing" if not said else "a zero byte", "it says something, as text")
    return said


def _there(path: Path) -> Path:
    if not path.is_file():
        raise _unusable(path, "no file", "a Secret of the experiment's namespace fills it")
    return path


def _unusable(path: Path, got: str, rule: str) -> PlatformError:
    return PlatformError(where=str(path), got=got, rule=rule, todo=f"see the key {path.name} of the Secret")
