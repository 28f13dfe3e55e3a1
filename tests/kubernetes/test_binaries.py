"""Programs are built once, whole or not at all. Here Go is a script that only pretends, so that seconds are enough."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from testbed.cluster import binaries, control_plane
from testbed.cluster.binaries import ETCD, HELM, KUBE_APISERVER, KUBECTL, KUBELET

from dedup.errors import EnvironmentError_

GO: Final = """#!/bin/sh
echo "$PWD $CGO_ENABLED $*" >>"{calls}"
while [ "$1" != -o ]; do shift; done
folder=$2
shift 2
for package; do echo begun >"$folder$(basename "${{package%/v3}}")"; done
{then}
"""


class FakeGo:
    """A `go` that is alone on PATH, and what it was asked to do."""

    def __init__(self, folder: Path) -> None:
        self._calls = folder / "calls"
        self._program = folder / "go"
        self.then("")

    def then(self, command: str) -> None:
        self._program.write_text(GO.format(calls=self._calls, then=command))
        self._program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []


@pytest.fixture
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return FakeGo(tmp_path)


def test_a_program_is_built_once_from_its_pinned_module(fake_go: FakeGo) -> None:
    assert binaries.find(ETCD) == binaries.find(ETCD) == ETCD.path
    assert ETCD.path.read_text() == "begun\n"
    (call,) = fake_go.calls
    assert call.startswith(f"{binaries.TOOLS / 'etcd'} 0 build -trimpath -mod=readonly")
    assert call.endswith(f" {ETCD.package}")


def test_programs_of_one_module_that_are_missing_are_built_by_one_call(fake_go: FakeGo) -> None:
    binaries.find(KUBECTL)
    binaries.find_all([ETCD, KUBE_APISERVER, KUBECTL, KUBELET])
    assert all(program.path.exists() for program in (ETCD, KUBE_APISERVER, KUBECTL, KUBELET))
    assert len(fake_go.calls) == 3
    assert fake_go.calls[-1].endswith(f" {KUBE_APISERVER.package} {KUBELET.package}")


def test_a_program_says_its_version_as_a_release_does(fake_go: FakeGo) -> None:
    binaries.find(KUBE_APISERVER)
    (call,) = fake_go.calls
    for stamp in ("gitVersion=v1.34.4", "gitMajor=1", "gitMinor=34"):
        assert f"-X k8s.io/component-base/version.{stamp} " in call


def test_helm_takes_charts_to_be_for_our_kubernetes(fake_go: FakeGo) -> None:
    """Unstamped it believes in Kubernetes 1.20, and refuses a chart that asks for 1.29 before any cluster is asked."""
    binaries.find(HELM)
    (call,) = fake_go.calls
    minor = KUBE_APISERVER.version.split(".")[1]
    assert f"-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor={minor} " in call
    assert f"-X helm.sh/helm/v3/internal/version.version={HELM.version} " in call


@pytest.mark.long
def test_a_build_that_fails_leaves_nothing_and_gives_gos_own_words(fake_go: FakeGo) -> None:
    fake_go.then("echo 'no such host' >&2; exit 1")
    with pytest.raises(EnvironmentError_, match=r"go build go\.etcd\.io.*got no such host; .*check `go version`"):
        binaries.find(ETCD)
    assert [path.name for path in ETCD.path.parent.iterdir()] == [".lock"]
    fake_go.then("")
    assert binaries.find(ETCD).exists(), "the next attempt is as good as the first"


def test_a_build_without_an_end_is_said_in_words(fake_go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "BUILD_TIMEOUT_S", 0.2)
    fake_go.then("while :; do :; done")
    with pytest.raises(EnvironmentError_, match=r"go build go\.etcd\.io.*got no end after 0\.2 s; "):
        binaries.find(ETCD)
    assert [path.name for path in ETCD.path.parent.iterdir()] == [".lock"]


def test_who_needs_a_program_that_is_being_built_waits_for_it(fake_go: FakeGo, tmp_path: Path) -> None:
    """The first build goes on until the second has been asked for."""
    fake_go.then(f'until [ -e "{tmp_path}/asked" ]; do :; done')
    with ThreadPoolExecutor() as pool:
        first = pool.submit(binaries.find, ETCD)
        second = pool.submit(binaries.find, ETCD)
        (tmp_path / "asked").touch()
        assert first.result(60) == second.result(60)
    assert len(fake_go.calls) == 1


def test_other_pins_are_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ETCD.path
    shutil.copytree(binaries.TOOLS, tmp_path / "tools")
    monkeypatch.setattr(binaries, "TOOLS", tmp_path / "tools")
    assert ETCD.path == before, "it depends on what is pinned, not on where"
    with (tmp_path / "tools" / "etcd" / "go.sum").open("a") as file:
        file.write("one more\n")
    assert ETCD.path != before


def test_without_go_one_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(EnvironmentError_, match=r"go: got no such program on PATH; .* built with Go; install it: `apt"):
        control_plane.check_machine()


def test_with_everything_built_go_is_not_asked_for(fake_go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in (ETCD, KUBE_APISERVER):
        binaries.find(program)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    control_plane.check_machine()
