"""Toxiproxy's server is built whole or not at all, and what kept Go from it is told in words."""

from pathlib import Path

import pytest

from dedup.errors import EnvironmentError_
from dedup_lab import golang
from dedup_lab.systems import toxiproxy

ENVIRONMENT = '[ "$1" = env ] && exit\n'


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("exec sleep 20", "got no end within 0.5 s"),
        ("echo module lookup disabled >&2; exit 1", "got module lookup disabled"),
        ("exit 0", "got no server in GOBIN, and no error"),
    ],
)
def test_a_server_that_cannot_be_built_is_an_error_in_words_and_nothing_is_left(
    does: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = _go(tmp_path, does)
    monkeypatch.setattr(golang, "find", lambda _: go)
    monkeypatch.setattr(toxiproxy, "BUILD_TIMEOUT_S", 0.5 if "sleep" in does else 20.0)
    target = tmp_path / "bin" / "server"
    with pytest.raises(EnvironmentError_, match=f"go install .*: {words}; .* is built from its Go module"):
        toxiproxy.build(target)
    assert list(target.parent.iterdir()) == []


def test_its_twin_is_there_when_go_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = _go(tmp_path, 'echo "$GOFLAGS" >"$GOBIN/server"')
    monkeypatch.setattr(golang, "find", lambda _: go)
    target = tmp_path / "bin" / "server"
    toxiproxy.build(target)
    assert target.read_text() == "-mod=mod\n"
    assert list(target.parent.iterdir()) == [target]


def _go(folder: Path, does: str) -> str:
    program = folder / "go"
    program.write_text(f"#!/bin/sh\n{ENVIRONMENT}{does}\n")
    program.chmod(0o755)
    return str(program)
