"""What a cluster, and a test of pages, needs of the machine: programs that Debian packages, found or installed.

Kubernetes itself is built from its modules (binaries.py). The programs between it and the kernel come from the
distribution: containerd and runc, which make containers, CNI plugins, which wire them, and iptables. On Debian,
root installs what is missing; on any other Linux the same programs do, wherever they come from.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dedup.errors import EnvironmentError_

INSTALL: Final = "DEDUP_INSTALL"
"""An environment variable: what it says of installing packages on this machine. Unset: they may be."""
REFUSED: Final = "no"
INSTALL_TIMEOUT_S: Final = 600.0
PATH: Final = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))
CNI_FOLDERS: Final = (Path("/usr/lib/cni"), Path("/usr/libexec/cni"), Path("/opt/cni/bin"))
CLUSTER: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ptp": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "openssl": "openssl",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
    "hostname": "hostname",
}
"""The programs that a cluster needs, and the Debian package of each."""
IMAGES: Final = {"buildah": "buildah", "debootstrap": "debootstrap", "unshare": "util-linux"}
"""The programs that building images needs, and the Debian package of each."""
POLICIES: Final = {"nft": "nftables"}
"""What a cluster needs whose network is to enforce NetworkPolicies (enforcing.py)."""
BROWSER: Final = {"chromium": "chromium"}
"""What the tests of the report's page look at it with (testbed/browser)."""
ELSEWHERE: Final = "name another cluster's kubeconfig file in DEDUP_TEST_KUBECONFIG"


def check(programs: Mapping[str, str]) -> None:
    """EnvironmentError_ unless we are root on Linux and every program is there, or can be installed."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise EnvironmentError_(
            where="cluster",
            got=f"user {os.geteuid()} on {sys.platform}",
            rule="only root on Linux can run pods",
            todo=f"run as root on Linux, or {ELSEWHERE}",
        )
    check_installable(programs, where="cluster", otherwise=ELSEWHERE)


def check_installable(programs: Mapping[str, str], *, where: str, otherwise: str = "") -> None:
    """EnvironmentError_ unless every program is there, or root can install it here and may."""
    if not (lacking := _lacking(programs)):
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise EnvironmentError_(
            where=where,
            got=f"no {', '.join(lacking)}",
            rule=f"it needs the Debian packages {', '.join(_packages(lacking))}, which root can install with apt-get",
            todo=f"install them{otherwise and f', or {otherwise}'}",
        )
    if os.environ.get(INSTALL) == REFUSED:
        raise EnvironmentError_(
            where=where,
            got=f"no {', '.join(lacking)}, and {INSTALL}={REFUSED}",
            rule="what is missing is installed only where that is allowed",
            todo=f"install {', '.join(_packages(lacking))}, or unset {INSTALL}",
        )


def intended(*, browser: bool = False) -> str | None:
    """What the tests of a cluster, and of pages in a browser, will install on this machine, in one line.

    None: nothing, or none of them is run here.
    """
    lacking: dict[str, str] = {}
    try:
        check(CLUSTER | IMAGES | POLICIES)
        lacking |= _lacking(CLUSTER | IMAGES | POLICIES)
    except EnvironmentError_:
        pass
    try:
        if browser:
            check_installable(BROWSER, where="browser")
            lacking |= _lacking(BROWSER)
    except EnvironmentError_:
        pass
    if not lacking:
        return None
    return f"apt-get will install {', '.join(_packages(lacking))}; {INSTALL}={REFUSED} leaves those tests out instead"


def install(programs: Mapping[str, str]) -> None:
    """Install the packages of the programs that a cluster lacks. EnvironmentError_ when that fails."""
    check(programs)
    provide(programs, where="cluster", otherwise=ELSEWHERE)


def provide(programs: Mapping[str, str], *, where: str, otherwise: str = "") -> None:
    """Install the packages of the programs that are missing. EnvironmentError_ when that fails."""
    check_installable(programs, where=where, otherwise=otherwise)
    if not (lacking := _lacking(programs)):
        return
    print(f"install {', '.join(_packages(lacking))}", flush=True)
    _apt("update")
    _apt("install", "--yes", "--no-remove", "--no-install-recommends", *_packages(lacking))


def unpack(package: str, folder: Path) -> None:
    """Put a package's files into an empty folder; nothing is installed. EnvironmentError_ when that fails."""
    check({"apt-get": "apt", "dpkg-deb": "dpkg"})
    _apt("update")
    _apt("download", package, folder=folder)
    (downloaded,) = folder.glob("*.deb")
    _run(["dpkg-deb", "--extract", str(downloaded), str(folder)], folder)


def _apt(*argv: str, folder: Path | None = None) -> None:
    _run(["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", *argv], folder)


def _run(command: list[str], folder: Path | None) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
    )
    if done.returncode != 0:
        raise EnvironmentError_(
            where=" ".join(command),
            got=(done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1][:300],
            rule="what the tests need of this machine comes from Debian",
            todo="check the network and apt's sources, then run again",
        )


def find(program: str) -> str:
    """The absolute path of a program that `check` has found or `install` installed."""
    path = shutil.which(program, path=PATH)
    assert path is not None, f"{program} is in the table above and was installed"
    return path


def cni_folder() -> Path:
    """Where the CNI plugins lie."""
    return next(folder for folder in CNI_FOLDERS if (folder / "ptp").exists())


def _lacking(programs: Mapping[str, str]) -> dict[str, str]:
    path = os.pathsep.join((PATH, *map(str, CNI_FOLDERS)))
    return {name: package for name, package in programs.items() if shutil.which(name, path=path) is None}


def _packages(programs: Mapping[str, str]) -> list[str]:
    return sorted(set(programs.values()))


if __name__ == "__main__":
    if line := intended(browser="browser" in sys.argv[1:]):
        print(line)
