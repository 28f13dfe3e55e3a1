"""The round trip's command line where nothing answers: bounded, one line, and the exit codes of the house.

That a message goes round is seen where brokers are: tests/lab/test_brokers_live.py, and `helm test` in a cluster.
"""

from pathlib import Path

import pytest

from dedup_lab.systems.ports import free
from dedup_runners import round_trips

KAFKA = ("kafka", "--clients", "{nobody}", "--direct", "{nobody}")
PULSAR = ("pulsar", "--clients", "pulsar://{nobody}", "--admin", "http://{nobody}")


def run(arguments: tuple[str, ...], *more: str) -> int:
    nobody = f"127.0.0.1:{free(1)[0]}"
    return round_trips.main([*(each.format(nobody=nobody) for each in arguments), *more])


@pytest.mark.parametrize(
    ("arguments", "awaited"),
    [(KAFKA, "all Kafka brokers are registered"), (PULSAR, "the Pulsar broker at http://127.0.0.1:")],
    ids=["kafka", "pulsar"],
)
def test_a_system_that_is_not_there_is_given_up_in_one_line(
    arguments: tuple[str, ...], awaited: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, "--timeout-s", "0.1") == 4
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(awaited)
    assert "got nothing within 0.1 s" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [(), KAFKA[:3], PULSAR[:3], ("redpanda",)], ids=lambda each: " ".join(each))
def test_a_wrong_command_line_is_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        run(arguments)
    assert refused.value.code == 2
    assert "usage: python -m dedup_runners.round_trips" in capsys.readouterr().err


def test_an_authority_must_be_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(KAFKA, "--ca", str(tmp_path / "ca.crt"))
    assert "ca.crt; no file that can be read; name a PEM file" in capsys.readouterr().err
