"""The `dedup` command as a user meets it, called in this process."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from dedup_lab import cli, isolation
from dedup_lab.systems.own_network import Own


class Said(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Said]


@pytest.fixture
def dedup(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command, in this process."""

    def call(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["dedup", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code
        return Said(code if isinstance(code, int) else int(code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.fixture(scope="session")
def namespaces() -> None:
    """A machine that lets us have networks of our own. It is tried when the first test asks, not at collection."""
    if (why := isolation.lack()) is not None:
        pytest.skip(f"no namespaces: {why}")


@pytest.fixture(scope="session")
def own_disks() -> None:
    """A machine that lets us have disks of our own."""
    if (why := isolation.lack((Own.DISKS,))) is not None:
        pytest.skip(f"no namespaces: {why}")


def one_line(said: Said) -> str:
    assert "Traceback" not in said.err
    lines = said.err.strip().splitlines()
    assert len(lines) == 1, said.err
    return lines[0]
