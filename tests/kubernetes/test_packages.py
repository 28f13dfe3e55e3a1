"""What a cluster needs of the machine is said before anything is begun, in one sentence that helps."""

import os
import shutil
from pathlib import Path

import pytest
from testbed.cluster import packages, processes

from dedup.errors import EnvironmentError_

NEEDED = {"sh": "dash", "no-such-runtime": "runtime-package", "no-such-tool": "runtime-package"}


def test_who_is_not_root_is_told_what_else_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentError_, match=r"got user 1000 on .*; only root on Linux .*DEDUP_TEST_KUBECONFIG"):
        packages.check({"sh": "dash"})


def test_what_cannot_be_installed_is_named(as_root: Path) -> None:
    with pytest.raises(EnvironmentError_, match=r"got no no-such-runtime, no-such-tool; .* packages runtime-package"):
        packages.check(NEEDED)


def test_what_can_be_installed_is_no_hindrance(as_root: Path) -> None:
    script(as_root / "apt-get", "")
    packages.check(NEEDED)


def test_who_refuses_installations_is_told_what_is_missing(as_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(as_root / "apt-get", "exit 100")
    monkeypatch.setenv(packages.INSTALL, packages.REFUSED)
    with pytest.raises(EnvironmentError_, match=r"got no no-such.* DEDUP_INSTALL=no; .*install runtime-package"):
        packages.check(NEEDED)
    assert packages.intended() is None
    packages.check({"sh": "dash"})


def test_what_will_be_installed_is_said_before(as_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(as_root / "apt-get", "")
    monkeypatch.setattr(packages, "CLUSTER", NEEDED)
    said = packages.intended()
    assert (
        said is not None and "apt-get will install" in said and "runtime-package" in said and "DEDUP_INSTALL=no" in said
    )
    monkeypatch.setattr(packages, "CLUSTER", {"sh": "dash"})
    for programs in ("IMAGES", "POLICIES"):
        monkeypatch.setattr(packages, programs, {"sh": "dash"})
    assert packages.intended() is None, "nothing is missing"


def test_a_browser_is_installed_where_tests_of_pages_are_run(as_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(as_root / "apt-get", "")
    for programs in ("CLUSTER", "IMAGES", "POLICIES"):
        monkeypatch.setattr(packages, programs, {"sh": "dash"})
    monkeypatch.setattr(packages, "BROWSER", {"no-such-browser": "browser-package"})
    assert packages.intended() is None
    assert "install browser-package; DEDUP_INSTALL=no" in (packages.intended(browser=True) or "")
    script(as_root / "no-such-browser", "")
    assert packages.intended(browser=True) is None, "it is there"


def test_a_browser_that_is_there_needs_no_root(as_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(as_root / "apt-get", "")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    packages.check_installable({"sh": "dash"}, where="browser")
    with pytest.raises(EnvironmentError_, match=r"browser: got no no-such-tool.* root can install .*; install them$"):
        packages.check_installable({"no-such-tool": "tool"}, where="browser")


def test_programs_of_others_know_nothing_of_our_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python that debootstrap installs would take its own warnings for errors."""
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("NO_PYTHON", "known")
    said = processes.run(["env"], {"PYTHONUNBUFFERED": "asked for"}, 60.0, "a rule").splitlines()
    assert not [line for line in said if line.startswith("PYTHONWARNINGS=")]
    assert {"NO_PYTHON=known", "PYTHONUNBUFFERED=asked for"} <= set(said)


def test_what_is_missing_is_installed_and_nothing_else(as_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(as_root / "apt-get", f'echo "$*" >>{as_root}/calls')
    packages.install(NEEDED)
    update, install = (as_root / "calls").read_text().splitlines()
    assert update.endswith(" update")
    assert install.endswith(" install --yes --no-remove --no-install-recommends runtime-package")
    assert capsys.readouterr().out == "install runtime-package\n"
    packages.install({"sh": "dash"})
    assert len((as_root / "calls").read_text().splitlines()) == 2, "nothing was missing"


def test_an_installation_that_fails_gives_apts_own_words(as_root: Path) -> None:
    script(as_root / "apt-get", "echo 'E: no such host' >&2; exit 100")
    with pytest.raises(EnvironmentError_, match=r"apt-get .* update: got E: no such host; .*check the network"):
        packages.install(NEEDED)


def test_a_package_is_unpacked_without_being_installed(as_root: Path) -> None:
    folder = as_root / "unpacked"
    folder.mkdir()
    script(as_root / "apt-get", f'echo "$*" >>{as_root}/calls; case "$*" in *" download "*) : >busybox_1.deb;; esac')
    script(as_root / "dpkg-deb", ': >"$3/busybox"')
    packages.unpack("busybox-static", folder)
    assert [line.split()[3] for line in (as_root / "calls").read_text().splitlines()] == ["update", "download"]
    assert sorted(path.name for path in folder.iterdir()) == ["busybox", "busybox_1.deb"]


def test_without_apt_nothing_can_be_unpacked(as_root: Path) -> None:
    with pytest.raises(EnvironmentError_, match=r"got no apt-get, dpkg-deb; .* packages apt, dpkg"):
        packages.unpack("busybox-static", as_root)


@pytest.fixture
def as_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, but for the shell."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv(packages.INSTALL, raising=False)
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(packages, "PATH", str(tmp_path))
    return tmp_path


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
