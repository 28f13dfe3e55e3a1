"""`dedup check` without a broker: each mistake is one line, and says what to do."""

import os
import socket
import tempfile
from pathlib import Path

import pytest
from tests.lab.conftest import Command, one_line
from tests.runners import guarded_brokers

from dedup.errors import PlatformError, SpecificationError
from dedup.experiment.endpoints import OPEN, Broker, Endpoints, Security
from dedup_lab.checks import COMMAND, _creating, _folder
from dedup_lab.targets import access_by, found, target


@pytest.mark.parametrize(
    ("url", "brokers"),
    [
        ("kafka://localhost:9092", ["localhost:9092"]),
        ("kafka://a.example.com:1,b:65535/", ["a.example.com:1", "b:65535"]),
        ("pulsar://h:6650", ["h:6650"]),
        (f"kafka://my_broker:1,10.0.0.1:2,{'a' * 63}.b:3", ["my_broker:1", "10.0.0.1:2", f"{'a' * 63}.b:3"]),
    ],
)
def test_a_url_names_brokers(url: str, brokers: list[str]) -> None:
    assert [str(each) for each in target(url, COMMAND, ("kafka", "pulsar")).brokers] == brokers


@pytest.mark.parametrize(
    "url", ["localhost:9092", "pulsar+ssl://h:6651", "kafka://", "kafka://h", "kafka://h:", "kafka://h:0", "kafka://h:70000",
            "kafka://h:9092,", "kafka://:9092", "kafka://h:9092/topic", "kafka://h: 9092", "kafka://a..b:9092",
            f"kafka://{'a' * 64}:9092"]
)  # fmt: skip
def test_what_is_no_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(SpecificationError, match=r"write kafka://HOST:9092"):
        target(url, COMMAND, ("kafka", "pulsar"))


def test_an_option_for_the_other_protocol_is_refused() -> None:
    kafka = target("kafka://h:9092", COMMAND, ("kafka", "pulsar"))
    with pytest.raises(SpecificationError, match=r"--admin: got a URL of kafka"):
        found(kafka, OPEN, "http://a:1")


def test_a_password_in_a_url_is_not_shown(dedup: Command) -> None:
    said = dedup("check", "kafka://user:hunter2@h:9092")
    assert said.code == 4
    assert "hunter2" not in one_line(said) and "log-in" in one_line(said)


def test_brokers_that_do_not_answer_are_named_and_nothing_is_left(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("dedup_lab.targets.FOUND_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    said = dedup("check", f"kafka://127.0.0.1:{port}")
    assert said.code == 4
    assert one_line(said).startswith(f"error kafka://127.0.0.1:{port}: got ") and "refused" in one_line(said)
    assert os.listdir(tmp_path) == []


def test_options_of_a_log_in_belong_together(tmp_path: Path) -> None:
    login, ca = tmp_path / "login", tmp_path / "ca.crt"
    login.mkdir()
    ca.touch()
    for tls, authorities, sasl, folder, where in (
        (False, tmp_path / "none.crt", None, None, "--ca"),
        (False, ca, "SCRAM-SHA-512", None, "--sasl"),
        (False, ca, None, login, "--login"),
        (False, ca, "SCRAM-SHA-512", login, "--login"),
    ):
        with pytest.raises(SpecificationError) as raised:
            access_by(tls, authorities, sasl, folder)  # type: ignore[arg-type]
        assert raised.value.where == where
    for name in ("username", "password"):
        (login / name).write_text("x")
    assert access_by(False, ca, "PLAIN", login) == Security(ca=ca, sasl="PLAIN", login=login)
    with pytest.raises(SpecificationError, match="clear text"):
        access_by(False, None, "PLAIN", login)
    assert access_by(False, None, None, None) == Security()


def test_a_certificate_and_its_key_belong_together_and_to_tls(tmp_path: Path) -> None:
    ca, cert, key = (tmp_path / name for name in ("ca.crt", "tls.crt", "tls.key"))
    for each in (ca, cert, key):
        each.touch()
    assert access_by(False, ca, None, None, own=(cert, key)) == Security(ca=ca, certificate=cert, key=key)
    for authorities, own, where in (
        (ca, (cert, None), "--cert"),
        (ca, (None, key), "--key"),
        (ca, (tmp_path / "none", key), "--cert"),
        (None, (cert, key), "--cert"),
    ):
        with pytest.raises(SpecificationError) as raised:
            access_by(False, authorities, None, None, own=own)
        assert raised.value.where == where


def test_a_broker_that_does_not_let_us_in_is_not_asked_again_and_the_password_is_not_shown(
    dedup: Command, tmp_path: Path
) -> None:
    security = guarded_brokers.security(tmp_path, tls=True, sasl="SCRAM-SHA-512", password="hunter2")
    with guarded_brokers.broker(tmp_path, "SCRAM-SHA-512", tls=True) as (host, port):
        options = ("--ca", security.ca, "--sasl", security.sasl, "--login", security.login)
        said = dedup("check", f"kafka://{host}:{port}", *options)
    assert said.code == 4
    assert "Authentication failed" in one_line(said) and "TLS, SCRAM-SHA-512" in one_line(said)
    assert "hunter2" not in one_line(said)


def test_a_broker_that_advertises_what_cannot_be_reached_is_named(
    dedup: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        ports = [each.getsockname()[1] for each in (there, gone)]
        gone.close()
        brokers = [Broker(id=str(id), host="127.0.0.1", client_port=port) for id, port in enumerate(ports)]
        found = Endpoints(system="kafka", client_bootstrap="", direct_bootstrap="", brokers=brokers)
        monkeypatch.setattr("dedup_lab.targets.discovered", lambda asked, timeout_s: found)
        said = dedup("check", f"kafka://127.0.0.1:{ports[0]}")
    assert said.code == 4
    assert one_line(said).startswith(f"error broker 1, 127.0.0.1:{ports[1]}: got ")
    assert "advertised.listeners" in one_line(said)


def test_a_folder_that_is_there_is_not_written_to(dedup: Command, tmp_path: Path) -> None:
    said = dedup("check", "kafka://127.0.0.1:1", "--out", tmp_path)
    assert (said.code, os.listdir(tmp_path)) == (4, [])
    assert one_line(said).startswith(f"error --out: got {tmp_path}")


def test_a_check_that_could_not_begin_leaves_no_folder_and_one_that_left_something_does(tmp_path: Path) -> None:
    with _folder(tmp_path / "ck"):
        pass
    assert not (tmp_path / "ck").exists()
    with _folder(tmp_path / "ck") as folder:
        (folder / "kafka-control-001").mkdir()
    assert (tmp_path / "ck").is_dir()


def test_the_help_teaches(dedup: Command) -> None:
    said = dedup("check", "--help")
    assert said.code == 0
    for word in ("kafka://localhost:9092", "inconclusive", "dedup-check-", "--login", "Ctrl-C"):
        assert word in said.out


def test_a_refused_topic_says_what_must_be_allowed() -> None:
    rule = r"creating topic t: got no; .* named dedup-check-\*.*; allow this client to create"
    with pytest.raises(PlatformError, match=rule), _creating("t"):
        raise PlatformError(where="creating t", got="no", rule="", todo="")
    with pytest.raises(PlatformError, match="elsewhere: got no"), _creating("t"):
        raise PlatformError(where="elsewhere", got="no", rule="", todo="")
