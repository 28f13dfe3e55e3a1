"""Helm as a process: what its words mean, and that nothing of it goes on when this operator may not act any more."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from dedup_operator.clusters import ClusterError, Forbidden, NotHolder, Refused, Unreachable
from dedup_operator.releases import HelmReleases
from dedup_runners.waiting import until

MARKS: Final = {"dedup.dev/experiment": "e", "dedup.dev/uid": "6f1c"}
HANGS: Final = "touch {0}/begun; exec sleep 300"
WORDS: Final = [
    ("Error: values don't meet the specifications of the schema\"", Refused, "don't meet the specifications"),
    ('Error: services is forbidden: User "o" cannot create resource "services"', Forbidden, "give .* that right"),
    ('Error: StatefulSet.apps "d" is invalid: spec: Forbidden: updates are forbidden', Refused, "are forbidden$"),
    ("Error: Kubernetes cluster unreachable: the server is away", Unreachable, "cluster unreachable"),
    ("Error: etcdserver: leader changed; release: not found", Unreachable, "leader changed"),
    ("Error: uninstall: Release not loaded: r: release: not found", None, ""),
]


def helm(folder: Path, script: str) -> str:
    """A program in Helm's place, which first notes its process and how it was called."""
    program = folder / "helm"
    program.write_text(f'#!/bin/sh\necho $$ >{folder}/pid\necho "$@" >{folder}/called\n{script.format(folder)}\n')
    program.chmod(0o755)
    return str(program)


def is_there(folder: Path) -> bool:
    try:
        os.kill(int((folder / "pid").read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def test_it_installs_and_uninstalls(tmp_path: Path) -> None:
    config = tmp_path / "config"
    releases = HelmReleases(Path("charts"), helm=helm(tmp_path, "cat >{0}/values; echo '{{}}'"), kubeconfig=config)
    releases.install("r", "lab", "kafka", {"brokers": 3}, MARKS)
    called = (tmp_path / "called").read_text()
    assert called.startswith("upgrade r charts/kafka --history-max 2 --install")
    assert "--namespace lab" in called
    assert called.endswith(f"--labels dedup.dev/experiment=e,dedup.dev/uid=6f1c --kubeconfig {config}\n")
    assert (tmp_path / "values").read_text() == '{"brokers": 3}'
    releases.uninstall("r", "lab")
    assert (tmp_path / "called").read_text().startswith("uninstall r --timeout 180s --namespace lab")


@pytest.mark.parametrize("what", ["install", "uninstall"])
def test_it_is_killed_when_the_lease_is_lost(tmp_path: Path, what: str) -> None:
    """Here: as soon as it has begun."""
    begun = tmp_path / "begun"
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, HANGS), held=lambda: not begun.exists())
    with pytest.raises(NotHolder, match="ended with the lease"):
        releases.install("r", "lab", "kafka", {}, MARKS) if what == "install" else releases.uninstall("r", "lab")
    assert not is_there(tmp_path)


def test_it_is_not_asked_to_end_which_it_might_not(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    deaf = f"trap '' TERM INT; {HANGS.replace('exec ', '')}"
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, deaf), held=lambda: not begun.exists())
    with pytest.raises(NotHolder):
        releases.install("r", "lab", "kafka", {}, MARKS)
    assert not is_there(tmp_path)


def test_it_is_not_begun_when_the_lease_was_lost_before(tmp_path: Path) -> None:
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, HANGS), held=lambda: False)
    with pytest.raises(NotHolder):
        releases.install("r", "lab", "kafka", {}, MARKS)
    assert not (tmp_path / "pid").exists()


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[HelmReleases]:
    """Where one Helm works at a time, and the first works until there is a file `enough`, or the lease is lost."""
    script = "echo $2 >>{0}/begun; until [ -e {0}/enough ]; do sleep 0.05; done; echo '{{}}'"
    releases = HelmReleases(
        tmp_path, helm=helm(tmp_path, script), held=lambda: not (tmp_path / "lost").exists(), at_a_time=1, patience_s=1
    )
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(releases.install, "first", "lab", "kafka", {}, MARKS)
        until(lambda: begun(tmp_path) == ["first"], 30, "the first works")
        yield releases
        (tmp_path / "enough").touch()
        assert first.exception() is None or (tmp_path / "lost").exists()


def begun(folder: Path) -> list[str]:
    told = folder / "begun"
    return told.read_text().split() if told.exists() else []


def test_it_waits_for_its_turn(busy: HelmReleases, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="others were at work for 1 s"):
        busy.install("second", "lab", "kafka", {}, MARKS)
    assert begun(tmp_path) == ["first"]
    (tmp_path / "enough").touch()
    until(lambda: installed(busy), 30, "its turn")
    assert begun(tmp_path) == ["first", "second"]


def installed(releases: HelmReleases) -> bool:
    try:
        releases.install("second", "lab", "kafka", {}, MARKS)
    except Unreachable:
        return False
    return True


def test_it_waits_for_nothing_when_the_lease_is_lost(busy: HelmReleases, tmp_path: Path) -> None:
    (tmp_path / "lost").touch()
    with pytest.raises(NotHolder):
        busy.install("second", "lab", "kafka", {}, MARKS)
    assert begun(tmp_path) == ["first"]


@pytest.mark.parametrize(("words", "kind", "told"), WORDS)
def test_what_it_says_is_understood(tmp_path: Path, words: str, kind: type[ClusterError] | None, told: str) -> None:
    (tmp_path / "words").write_text(words)
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, "cat {0}/words >&2; exit 1"))
    if kind is None:
        releases.uninstall("r", "lab")
        return
    with pytest.raises(kind, match=told):
        releases.uninstall("r", "lab")


def test_killed_by_somebody_else_it_refused_nothing(tmp_path: Path) -> None:
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, "kill -KILL $$"))
    with pytest.raises(Unreachable, match="ended by signal 9"):
        releases.uninstall("r", "lab")


def test_no_helm_is_told(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No such file"):
        HelmReleases(tmp_path, helm=str(tmp_path / "nothing")).uninstall("r", "lab")
