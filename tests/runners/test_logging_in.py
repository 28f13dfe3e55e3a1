"""TLS and log-ins: what each library is told, and that our own lines to Kafka speak both."""

from pathlib import Path
from typing import Any

import pytest
from kafka.net.sasl import get_sasl_mechanism
from tests.runners import guarded_brokers
from tests.runners.guarded_brokers import PASSWORD, USER, broker, security
from tests.runners.witnesses import Seen

from dedup.errors import PlatformError
from dedup.experiment.deployments import SaslMechanism
from dedup.experiment.endpoints import OPEN, Endpoints, Security
from dedup_runners import credentials
from dedup_runners.admins import NotLetIn
from dedup_runners.admins.discoveries import discovered
from dedup_runners.admins.views import view
from dedup_runners.admins.wire import receive
from dedup_runners.clients import confluent_kafka, pulsar
from dedup_runners.configs import ProducerConfig

OTHER_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgvhI8Cxfg4ndG25sa
0HOh9Yq6J93owKhp/aLnSLwq0rOhRANCAATJ9FN88B+1Lc/aHlewIQafIQEeTo2K
FRYgKm7oM7rgsccMg7QkIYZaY/ahSRbDAuUDNjV87HCK3JfCfNCDnOL/
-----END PRIVATE KEY-----
"""
LOCKED_KEY = """\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAh+aT9OGRg0dQICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEENakXttAEOa5jAJ4k6mXHCsEgZDh
W7uSSsnXn95far8xE0f0XmzDV34mzXvuXkHy22aCBXIcMBlpR4XoXyut3L4nKTTW
iuX1r+VLF+uKon98Cz5m5vHdL6U8ul9b2/e3hTFills+Z8fkBDfv6b1ZXVf7WGog
gKCbd5Oz6ftfpCKTaV9dbXZTetotk9ToqIjkQ08m/jSRjOZbTXjlsAE/QAaD474=
-----END ENCRYPTED PRIVATE KEY-----
"""
"""Keys that guard nothing; the second is behind the password x."""
MECHANISMS: tuple[SaslMechanism, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


# --- what libraries are told ---------------------------------------------------------------------------------------


def test_a_system_in_the_open_changes_no_setting() -> None:
    assert credentials.librdkafka(OPEN) == credentials.pulsar_client(OPEN) == {}
    assert credentials.tls(OPEN) is None and credentials.token(OPEN) is None


@pytest.mark.parametrize(
    ("tls", "sasl", "protocol"),
    [(True, None, "SSL"), (False, "PLAIN", "SASL_PLAINTEXT"), (True, "SCRAM-SHA-512", "SASL_SSL")],
)
def test_librdkafka_is_told_how_and_who(tls: bool, sasl: SaslMechanism | None, protocol: str, tmp_path: Path) -> None:
    told = credentials.librdkafka(security(tmp_path, tls=tls, sasl=sasl))
    assert told.pop("security.protocol") == protocol
    assert told.pop("ssl.ca.location", None) == (str(tmp_path / "ca.crt") if tls else None)
    who = {"sasl.mechanism": sasl, "sasl.username": USER, "sasl.password": PASSWORD}
    assert told == (who if sasl else {})


def with_token(folder: Path, token: str) -> Security:
    (folder / "token").write_text(token)
    return security(folder, tls=True, sasl=None).model_copy(update={"token": folder / "token"})


def test_pulsars_client_is_told_whom_to_trust_and_who_we_are(tmp_path: Path) -> None:
    told = credentials.pulsar_client(with_token(tmp_path, "eyJ.abc.-_\n"))
    assert told.pop("authentication") is not None
    assert told == {"tls_trust_certs_file_path": str(tmp_path / "ca.crt"), "tls_validate_hostname": True}
    assert credentials.token(with_token(tmp_path, "eyJ.abc.-_\n")) == "eyJ.abc.-_"


@pytest.mark.parametrize("token", ["", "\n", "one\r\nX-Admin: two", "two words", "t\0ken", "töken"])
def test_what_is_no_token_is_refused_and_not_shown(token: str, tmp_path: Path) -> None:
    with pytest.raises(PlatformError) as caught:
        credentials.token(with_token(tmp_path, token))
    assert "see the key token of the Secret" in str(caught.value)
    assert not token.strip() or token not in str(caught.value)


def test_a_secret_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match=r"username: got no file; .* see the key username of the Secret"):
        credentials.librdkafka(Security(sasl="PLAIN", login=tmp_path))
    with pytest.raises(PlatformError, match=r"ca\.crt: got no file"):
        credentials.librdkafka(Security(ca=tmp_path / "ca.crt"))


def test_authorities_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("nothing")
    with pytest.raises(PlatformError, match=r"ca\.crt: got no certificates"):
        credentials.tls(Security(ca=tmp_path / "ca.crt"))


def with_certificate(folder: Path) -> Security:
    guarded_brokers.own_certificate(folder)
    found = security(folder, tls=True, sasl=None)
    return found.model_copy(update={"certificate": folder / "tls.crt", "key": folder / "tls.key"})


def test_librdkafka_shows_a_certificate_of_our_own_where_it_speaks_tls(tmp_path: Path) -> None:
    own = with_certificate(tmp_path)
    told = credentials.librdkafka(own)
    assert told["ssl.certificate.location"] == str(tmp_path / "tls.crt")
    assert told["ssl.key.location"] == str(tmp_path / "tls.key")
    assert credentials.librdkafka(own.behind_tls) == {}, "a proxy shows it"


def test_pulsars_client_logs_in_by_the_certificate_unless_there_is_a_token(tmp_path: Path) -> None:
    own = with_certificate(tmp_path)
    for told in (credentials.pulsar_client(own), credentials.pulsar_client(own.behind_tls)):
        assert type(told["authentication"]).__name__ == "AuthenticationTLS"
    (tmp_path / "token").write_text("eyJ")
    both = own.model_copy(update={"token": tmp_path / "token"})
    assert type(credentials.pulsar_client(both)["authentication"]).__name__ == "AuthenticationToken"
    assert credentials.pulsar_client(both)["tls_private_key_file_path"] == str(tmp_path / "tls.key")
    (tmp_path / "tls.key").unlink()  # a producer in a pod that is led has its token, and nothing else
    assert set(credentials.pulsar_client(both.behind_tls)) == {"authentication"}


@pytest.mark.parametrize(
    ("key", "about"), [("nothing", "no PEM"), (OTHER_KEY, "another's"), (LOCKED_KEY, "behind a password")]
)
def test_a_key_that_does_not_fit_is_refused_and_nobody_is_asked_for_a_password(
    key: str, about: str, tmp_path: Path
) -> None:
    own = with_certificate(tmp_path)
    assert credentials.tls(own) is not None
    (tmp_path / "tls.key").write_text(key)
    with pytest.raises(PlatformError, match=r"tls\.key: got no key that fits tls\.crt; .* without a password"):
        credentials.tls(own)


# --- clients under test --------------------------------------------------------------------------------------------


def config(folder: Path, system: str, found: Security) -> ProducerConfig:
    address = "127.0.0.1:1" if system == "kafka" else "pulsar+ssl://127.0.0.1:1"
    return ProducerConfig.model_validate(
        {
            "run_id": "r",
            "folder": folder,
            "topic": "t",
            "deduplication": True,
            "producer_name": "p",
            "library": "confluent-kafka" if system == "kafka" else "pulsar-client",
            "messages": 1,
            "endpoints": Endpoints.model_validate(
                {
                    "system": system,
                    "client_bootstrap": address,
                    "direct_bootstrap": address,
                    "brokers": [],
                    "security": found,
                }
            ),
        }
    )


def test_a_producer_logs_in_and_its_report_does_not_tell_as_whom(tmp_path: Path) -> None:
    told = config(tmp_path, "kafka", security(tmp_path, tls=True, sasl="SCRAM-SHA-512"))
    producer = confluent_kafka.Producer(told, lambda _: None, Seen())
    producer.close()
    assert producer.effective_config["security.protocol"] == "SASL_SSL"
    assert producer.effective_config["sasl.mechanism"] == "SCRAM-SHA-512"
    shown = told.model_dump_json() + str(producer.effective_config)
    assert USER not in shown and PASSWORD not in shown


def test_pulsars_producer_does_neither(tmp_path: Path) -> None:
    told = config(tmp_path, "pulsar", with_token(tmp_path, "eyJhbGc"))
    producer = pulsar.Producer(told, lambda _: None, Seen())
    producer.close()
    log = tmp_path / "producer.client.log"
    shown = told.model_dump_json() + str(producer.effective_config) + (log.read_text() if log.exists() else "")
    assert "eyJhbGc" not in shown


# --- our own lines -------------------------------------------------------------------------------------------------


def scram(mechanism: str, username: str, password: str, nonce: str) -> Any:
    found = get_sasl_mechanism(mechanism)(
        sasl_mechanism=mechanism, sasl_plain_username=username, sasl_plain_password=password
    )
    found._scram_client.nonce = nonce.encode()
    return found


def test_scram_is_what_its_rfc_shows() -> None:
    """RFC 7677, section 3."""
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    for signature in (b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", b"7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="):
        asked = scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
        assert asked.auth_bytes() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
        receive(asked, f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
        assert asked.auth_bytes() == f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
        if signature.startswith(b"6"):
            receive(asked, b"v=" + signature)
            assert asked.is_authenticated()
        else:
            with pytest.raises(PlatformError, match="a signature that is not this server's"):
                receive(asked, b"v=" + signature)


@pytest.mark.parametrize(
    "answer",
    [b"r=mine2,s=c2FsdA==,i=0", b"r=mine2,s=c2FsdA==,i=9999999", b"r=theirs,s=c2FsdA==,i=1", b"r=mine2", b"\xff", b""],
)
def test_an_answer_that_is_not_scrams_is_refused(answer: bytes) -> None:
    asked = scram("SCRAM-SHA-512", "u", "p", "mine")
    asked.auth_bytes()
    with pytest.raises(PlatformError, match="logging in to Kafka"):
        receive(asked, answer)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("tls", [False, True], ids=["in the open", "over TLS"])
def test_a_line_logs_in(mechanism: SaslMechanism, tls: bool, tmp_path: Path) -> None:
    with broker(tmp_path, mechanism, tls=tls) as address:
        found = view(address, None, security(tmp_path, tls=tls, sasl=mechanism))
    assert found.brokers == {"7": address}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_and_not_shown(mechanism: SaslMechanism, tmp_path: Path) -> None:
    wrong = security(tmp_path, tls=False, sasl=mechanism, password="falsch")
    with broker(tmp_path, mechanism, tls=False) as address, pytest.raises(NotLetIn, match="error 58") as caught:
        view(address, None, wrong)
    assert "falsch" not in str(caught.value) and USER not in str(caught.value)


def test_a_mechanism_that_the_listener_lacks_is_refused(tmp_path: Path) -> None:
    with (
        broker(tmp_path, "PLAIN", tls=False) as address,
        pytest.raises(NotLetIn, match="the listener has SCRAM-SHA-512"),
    ):
        view(address, None, security(tmp_path, tls=False, sasl="PLAIN").model_copy(update={"sasl": "OTHER"}))


def test_a_broker_that_does_not_know_the_password_is_another(tmp_path: Path) -> None:
    told = security(tmp_path, tls=False, sasl="SCRAM-SHA-256")
    with (
        broker(tmp_path, "SCRAM-SHA-256", tls=False, knows=False) as address,
        pytest.raises(PlatformError, match="a signature that is not this server's"),
    ):
        view(address, None, told)


# --- who the brokers are -------------------------------------------------------------------------------------------


def existing(address: tuple[str, int], found: Security, **more: Any) -> Endpoints:
    bootstrap = f"{address[0]}:{address[1]}"
    return Endpoints(
        system="kafka", client_bootstrap=bootstrap, direct_bootstrap=bootstrap, security=found, brokers=[], **more
    )


def test_kafkas_brokers_are_asked_of_one(tmp_path: Path) -> None:
    with broker(tmp_path, "PLAIN", tls=True) as address:
        found = discovered(existing(address, security(tmp_path, tls=True, sasl="PLAIN"), topic_prefix="dedup-x-"))
    (only,) = found.brokers
    assert (only.id, only.host, only.client_port) == ("7", *address)
    assert found.direct_bootstrap == f"127.0.0.1:{address[1]}" and found.topic_prefix == "dedup-x-"
    assert discovered(found) is found


def test_a_certificate_for_another_name_is_refused_at_once(tmp_path: Path) -> None:
    """The very broker is asked by an address that its certificate does not have."""
    told = security(tmp_path, tls=True, sasl="PLAIN")
    with (
        broker(tmp_path, "PLAIN", tls=True, host="127.0.0.2") as address,
        pytest.raises(PlatformError, match="a certificate that cannot be trusted: IP address mismatch"),
    ):
        discovered(existing(address, told))


def test_nobody_at_the_address_is_told_in_one_line(tmp_path: Path) -> None:
    with broker(tmp_path, "PLAIN", tls=False) as address:
        pass
    with pytest.raises(PlatformError, match=r"got 127\.0\.0\.1:\d+: .*refused; a broker says who"):
        discovered(existing(address, OPEN), timeout_s=0)
