"""`dedup check` without a broker: each mistake is one line, and says what to do."""

import os
import socket
import tempfile
from pathlib import Path

import pytest
from tests.lab.conftest import Command, one_line

from dedup.errors import PlatformError, SpecificationError
from dedup_lab.checks import _creating, addresses


@pytest.mark.parametrize(
    ("url", "brokers"),
    [
        ("kafka://localhost:9092", ["localhost:9092"]),
        ("kafka://a.example.com:1,b:65535/", ["a.example.com:1", "b:65535"]),
    ],
)
def test_a_url_names_brokers(url: str, brokers: list[str]) -> None:
    assert [str(each) for each in addresses(url)] == brokers


@pytest.mark.parametrize(
    "url", ["localhost:9092", "pulsar://h:6650", "kafka://", "kafka://h", "kafka://h:", "kafka://h:0", "kafka://h:70000",
            "kafka://h:9092,", "kafka://:9092", "kafka://h:9092/topic", "kafka://h: 9092"]
)  # fmt: skip
def test_what_is_no_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(SpecificationError, match=r"write kafka://HOST:9092"):
        addresses(url)


def test_a_password_in_a_url_is_not_shown(dedup: Command) -> None:
    said = dedup("check", "kafka://user:hunter2@h:9092")
    assert said.code == 4
    assert "hunter2" not in one_line(said) and "log-in" in one_line(said)


def test_brokers_that_do_not_answer_are_named_and_nothing_is_left(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("dedup_lab.checks.FOUND_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    said = dedup("check", f"kafka://127.0.0.1:{port}")
    assert said.code == 4
    assert one_line(said).startswith(f"error kafka://127.0.0.1:{port}: got ") and "refused" in one_line(said)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_there_is_not_written_to(dedup: Command, tmp_path: Path) -> None:
    said = dedup("check", "kafka://127.0.0.1:1", "--out", tmp_path)
    assert (said.code, os.listdir(tmp_path)) == (4, [])
    assert one_line(said).startswith(f"error --out: got {tmp_path}")


def test_the_help_teaches(dedup: Command) -> None:
    said = dedup("check", "--help")
    assert said.code == 0
    for word in ("kafka://localhost:9092", "inconclusive", "dedup-check-", "Plaintext", "Ctrl-C"):
        assert word in said.out


def test_a_refused_topic_says_what_must_be_allowed() -> None:
    rule = r"creating topic t: got no; .* named dedup-check-\*.*; allow this client to create"
    with pytest.raises(PlatformError, match=rule), _creating("t"):
        raise PlatformError(where="creating t", got="no", rule="", todo="")
    with pytest.raises(PlatformError, match="elsewhere: got no"), _creating("t"):
        raise PlatformError(where="elsewhere", got="no", rule="", todo="")
