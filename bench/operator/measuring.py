"""A load of experiments on a real API server, the operator's process beside it, and what it takes.

Experiments are applied at once, suspended; then some are let go, to their verdict. No pod runs: the player of the tests
does what controllers would. The operator is its own program in a process of its own, with the real Helm, whose
processes count as its memory too.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import yaml
from kubernetes.client import CustomObjectsApi
from kubernetes.watch import Watch
from testbed.cluster import api_servers, binaries, control_plane
from testbed.cluster.api_servers import ApiServer
from testbed.played import PlayedCluster
from testbed.requests import ask
from testbed.specs import changed
from testbed.worlds import STORE, Player
from urllib3.exceptions import HTTPError

from dedup_lab.systems.ports import free
from dedup_operator.clusters import path_of
from dedup_operator.schema import crd
from dedup_runners.waiting import until

ROOT: Final = Path(__file__).parents[2]
MEMORY_MIB: Final = 300
IDLE_SHARE: Final = 0.05
FIRST_CONDITION_S: Final = 2.0
APPLIERS: Final = 8
SAMPLE_S: Final = 0.5
SETTLE_S: Final = 10.0
WAIT_S: Final = 120.0
GO_S: Final = 900.0
SETTINGS: Final = {"artifacts": {"s3": {"bucket": "results", "secret": STORE}}}


@dataclass
class Operator:
    """The process, its helpers among them, and what it took so far."""

    process: psutil.Process
    address: str
    peak_bytes: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def sample(self) -> None:
        """Until it is told to stop. Helpers come and go; who has just gone counts nothing."""
        while not self.stop.wait(SAMPLE_S):
            total = 0
            for each in self.family():
                with suppress(psutil.NoSuchProcess):  # a page that several have counts once, as a cgroup counts it
                    total += each.memory_full_info().pss
            self.peak_bytes = max(self.peak_bytes, total)

    def cpu_s(self) -> float:
        """Seconds of a core, with those of helpers that have ended."""
        took = self.process.cpu_times()
        return float(took.user + took.system + took.children_user + took.children_system)

    def sums(self) -> dict[str, float]:
        """Its metrics without labels, by their names."""
        text = httpx.get(f"{self.address}/metrics", trust_env=False, timeout=30).text
        pairs = (line.rpartition(" ") for line in text.splitlines() if line[0] != "#" and "{" not in line)
        return {name.removeprefix("dedup_operator_"): float(value) for name, _, value in pairs}

    def family(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return [self.process, *self.process.children(recursive=True)]
        return []


@dataclass
class Marks:
    """When each experiment was applied, and when its first condition was seen, on one clock."""

    applied: dict[str, float] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)

    def watch(self, server: ApiServer, namespace: str, stop: threading.Event) -> None:
        """Until it is told to stop; a watch that ends is begun again, from what there is then."""
        with server.client() as client:
            listed = CustomObjectsApi(client).list_namespaced_custom_object
            while not stop.is_set():
                kind = (crd.GROUP, crd.VERSION, namespace, crd.PLURAL)
                with suppress(HTTPError):  # the API server goes first, at the end
                    for event in Watch().stream(listed, *kind, timeout_seconds=30):
                        made = event["object"]
                        if (made.get("status") or {}).get("conditions"):
                            self.seen.setdefault(made["metadata"]["name"], time.monotonic())

    def waits_s(self) -> list[float]:
        return sorted(self.seen[name] - self.applied[name] for name in self.applied)


@contextmanager
def api_server(kubeconfig: Path | None) -> Iterator[ApiServer]:
    """Theirs if there is one, else one of our own."""
    theirs = ApiServer(kubeconfig) if kubeconfig else api_servers.named()
    if theirs is not None:
        yield theirs
        return
    control_plane.prepare()
    with tempfile.TemporaryDirectory(prefix="dedup-bench-") as folder, control_plane.running(Path(folder)) as ours:
        yield ours.api_server


@contextmanager
def operator(server: ApiServer, namespace: str, folder: Path, at_a_time: int) -> Iterator[Operator]:
    """The operator, watching one namespace, until the end of the block."""
    (folder / "settings.yaml").write_text(yaml.safe_dump({**SETTINGS, "concurrentExperiments": at_a_time}))
    (folder / "helm").symlink_to(binaries.find(binaries.HELM))
    (port,) = free(1)
    command = [sys.executable, "-m", "dedup_operator", "--namespace", namespace]
    command += ["--lease", "operator", "--lease-namespace", namespace]
    command += ["--settings", str(folder / "settings.yaml"), "--charts", str(ROOT / "charts"), "--port", str(port)]
    environment = {
        **os.environ,
        **api_servers.direct(),
        "KUBECONFIG": str(server.kubeconfig),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        **{name: str(folder / "home") for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")},
    }
    with (folder / "operator.log").open("wb") as log:
        started = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            until(lambda: well(started, port, folder), WAIT_S, "the operator is well")
            made = Operator(psutil.Process(started.pid), f"http://127.0.0.1:{port}")
            sampler = threading.Thread(target=made.sample, daemon=True)
            sampler.start()
            yield made
            made.stop.set()
            sampler.join()
        finally:
            started.terminate()
            started.wait(WAIT_S)


def well(started: "subprocess.Popen[bytes]", port: int, folder: Path) -> bool:
    if started.poll() is not None:
        raise SystemExit(
            f"the operator ended with {started.returncode}:\n{(folder / 'operator.log').read_text()[-2000:]}"
        )
    with suppress(httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200
    return False


def experiment(name: str) -> dict[str, Any]:
    """A Kafka, two runs, suspended."""
    systems = [{"name": "kafka", "kafka": {}}]
    return changed(("metadata/name", name), ("spec/systems", systems), ("spec/suspend", True))


def applied_at_once(
    server: ApiServer,
    namespace: str,
    names: list[str],
    marks: Marks,
    made: Callable[[str], dict[str, Any]] = experiment,
) -> None:
    def apply_some(mine: list[str]) -> None:
        with server.client() as client:
            for name in mine:
                marks.applied[name] = time.monotonic()
                status, said = ask(client, "POST", path_of("DedupExperiment", namespace), made(name))
                assert status == 201, said

    with ThreadPoolExecutor(APPLIERS) as pool:
        list(pool.map(apply_some, [names[number::APPLIERS] for number in range(APPLIERS)]))


def to_their_verdicts(cluster: PlayedCluster, namespace: str, names: list[str]) -> list[str]:
    """Let these go, and play until each has a verdict."""
    for name in names:
        cluster.patch("DedupExperiment", namespace, name, {"spec": {"suspend": False}})
    player = Player(cluster, namespace)

    def verdicts() -> list[str]:
        player.move()
        live = [cluster.get("DedupExperiment", namespace, name) or {} for name in names]
        return [str(verdict) for each in live if (verdict := (each.get("status") or {}).get("verdict"))]

    until(lambda: len(verdicts()) == len(names), GO_S, "every verdict", 1.0)
    return verdicts()


@contextmanager
def in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    stop = threading.Event()
    threading.Thread(target=work, args=(stop,), daemon=True).start()
    try:
        yield
    finally:
        stop.set()


def measured(server: ApiServer, cluster: PlayedCluster, namespace: str, asked: argparse.Namespace) -> bool:
    """Measure, tell, and say whether every target was met."""
    marks = Marks()
    names = [f"e-{number:03d}" for number in range(asked.experiments)]
    with (
        tempfile.TemporaryDirectory(prefix="dedup-bench-") as folder,
        operator(server, namespace, Path(folder), asked.at_a_time) as watched,
        in_background(lambda stop: marks.watch(server, namespace, stop)),
    ):
        first = experiment("first")
        cluster.create({**first, "metadata": {**first["metadata"], "namespace": namespace}})
        until(lambda: "first" in marks.seen, WAIT_S, "the operator sees experiments")
        applied_at_once(server, namespace, names, marks)
        until(lambda: marks.applied.keys() <= marks.seen.keys(), WAIT_S, "a condition of each")
        time.sleep(asked.settle_s)
        began, took = time.monotonic(), watched.cpu_s()
        time.sleep(asked.idle_s)
        share = (watched.cpu_s() - took) / (time.monotonic() - began)
        verdicts = to_their_verdicts(cluster, namespace, names[: asked.go])
    waits = marks.waits_s()
    p95_s = waits[max(0, -(-95 * len(waits) // 100) - 1)]
    peak_mib, first_s = watched.peak_bytes / (1 << 20), asked.first_condition_s
    rows = (
        ("peak memory, Helm's processes with it", f"{peak_mib:.0f} MiB", f"{MEMORY_MIB} MiB", peak_mib < MEMORY_MIB),
        (f"of a core, idle for {asked.idle_s:g} s", f"{share:.1%}", f"{IDLE_SHARE:.0%}", share < IDLE_SHARE),
        ("apply to first condition, median", f"{waits[len(waits) // 2]:.2f} s", "", True),
        ("apply to first condition, 95 %", f"{p95_s:.2f} s", f"{first_s:g} s", p95_s <= first_s),
    )
    print(f"{len(waits)} experiments, then {len(verdicts)} to their verdicts: {', '.join(sorted(set(verdicts)))}")
    for what, figure, target, met in rows:
        print(f"  {what:42}{figure:>12}   {f'at most {target}' if target else '':18}{'' if met else 'MISSED'}")
    return all(met for *_, met in rows) and set(verdicts) <= {"Pass"}
