"""`dedup probe` without a broker: mistakes in one line, and the table."""

import io
import socket
from pathlib import Path

import pytest
from rich.console import Console
from tests.lab.conftest import Command, one_line

from dedup.errors import SpecificationError
from dedup.experiment.endpoints import Security
from dedup.judgement.probes import STORED_TWICE, Probed, Rule, Seen, row
from dedup_lab.probes import KINDS
from dedup_lab.targets import found, pulsar_at, target
from dedup_lab.terminal.probes import show
from dedup_runners.interposer.protocols import Address


def test_a_url_names_a_protocol_and_brokers() -> None:
    given = target("pulsar://a:6650,b:1", "dedup probe", tuple(KINDS))
    assert (given.protocol, [str(each) for each in given.brokers]) == ("pulsar", ["a:6650", "b:1"])


@pytest.mark.parametrize(
    "url", ["h:9092", "http://h:80", "kafka:h:9092", "pulsar+ssl://h:6651", "pulsar://h", "://h:1"]
)
def test_what_is_no_url_is_refused_with_both_forms(dedup: Command, url: str) -> None:
    said = dedup("probe", url)
    assert said.code == 4
    assert "kafka://HOST:9092 or pulsar://HOST:6650" in one_line(said)


def test_a_password_in_a_url_is_not_shown(dedup: Command) -> None:
    for arguments in (("kafka://u:hunter2@h:1",), ("pulsar://h:1", "--admin", "http://u:hunter2@h:1")):
        said = dedup("probe", *arguments)
        assert said.code == 4 and "hunter2" not in one_line(said)


@pytest.mark.parametrize(
    ("url", "security", "admin", "option"),
    [
        ("kafka://h:1", Security(token=Path("t")), None, "--token"),
        ("kafka://h:1", Security(), "http://h:1", "--admin"),
        ("pulsar://h:1", Security(sasl="SCRAM-SHA-512"), None, "--sasl"),
    ],
)
def test_an_option_of_the_other_protocol_is_refused(
    url: str, security: Security, admin: str | None, option: str
) -> None:
    with pytest.raises(SpecificationError, match=f"{option}: got a URL of .*; leave it out"):
        found(target(url, "dedup probe", tuple(KINDS)), security, admin)


def test_a_token_is_a_file_and_is_shown_over_tls_only(dedup: Command, tmp_path: Path) -> None:
    said = dedup("probe", "pulsar://h:1", "--token", tmp_path / "none")
    assert said.code == 4 and "error --token: got" in one_line(said) and "a file" in one_line(said)
    (tmp_path / "token").write_text("t")
    open_ = dedup("probe", "pulsar://h:1", "--token", tmp_path / "token")
    assert open_.code == 4 and "clear text" in one_line(open_)
    with pytest.raises(SpecificationError, match=r"--admin: got http://h:1; .*clear text"):
        pulsar_at([Address("h", 1)], Security(ca=Path("ca"), token=Path("t")), "http://h:1")


@pytest.mark.parametrize("protocol", KINDS)
def test_brokers_that_do_not_answer_are_named(dedup: Command, monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    monkeypatch.setattr("dedup_lab.targets.FOUND_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    admin = ("--admin", f"http://127.0.0.1:{port}") if protocol == "pulsar" else ()
    said = dedup("probe", f"{protocol}://127.0.0.1:{port}", *admin)
    assert said.code == 4
    assert f"127.0.0.1:{port}" in one_line(said) and "refused" in one_line(said)


@pytest.mark.parametrize(
    "admin",
    [
        "h:8080",
        "ftp://h",
        "http://",
        "8080",
        "http://h:80x",
        "http://h:70000",
        "http://h:0",
        "http://[::1",
        "http://a..b",
    ],
)
def test_an_admin_interface_is_a_url(admin: str) -> None:
    with pytest.raises(SpecificationError, match=r"--admin: got .*http://HOST:PORT"):
        pulsar_at([Address("h", 1)], Security(), admin)


@pytest.mark.parametrize("admin", ["http://[::1]:8080", "https://h", "http://my_host:65535/"])
def test_its_port_and_its_address_may_be_any(admin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dedup_lab.targets.discovered", lambda asked, _: asked)
    assert pulsar_at([Address("h", 1)], Security(), admin).admin_urls == [admin.rstrip("/")]


def test_the_help_teaches(dedup: Command) -> None:
    said = dedup("probe", "--help")
    assert said.code == 0
    for word in (
        "kafka://localhost:9092",
        "pulsar://localhost:6650",
        "as expected",
        "dedup-probes-",
        "Ctrl-C",
        "--token",
    ):
        assert word in said.out


RULE = Rule(name="older", tried="an [old] one", claim=STORED_TWICE, source="S3")


def shown(*seen: Seen | str) -> str:
    rows = tuple(row(RULE, (4, 3), each, 0) for each in seen)
    text = io.StringIO()
    result = Probed(url="kafka://h:1", asked="2026-11-25", product="Kafka", version="4.3", rows=rows, seconds=2)
    show(result, Console(file=text, width=160))
    return text.getvalue()


def test_the_table_says_what_differs_and_what_could_not_be_tried() -> None:
    said = shown(Seen(answer="acknowledged", copies=2), Seen(answer="NO", copies=1), "the [leader] moved")
    assert "as claimed" in said and "differs" in said and "an [old] one" in said
    assert "unexpected older: NO; stored once; expected of Kafka 4.3: acknowledged; stored twice" in said
    assert "not seen older: the [leader] moved" in said
    assert "1 of 3 rules as expected of Kafka 4.3; 1 differ from the claim; 2.0 s" in said
