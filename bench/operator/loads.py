"""Experiments that are looked at again and again: runs that go on, and what stalls until somebody mends it.

Suspended experiments cost an operator nothing, since it does not look at them. One that runs is looked at every few
seconds, for its time limits; one that is stalled, to find out whether it was mended.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import measuring
from testbed.cluster.api_servers import ApiServer
from testbed.played import PlayedCluster, namespace_on, playing
from testbed.specs import changed
from testbed.worlds import Player

from dedup_operator.clusters import Object
from dedup_runners.waiting import until

MEMORY_MIB: Final = 300
RUNNING_SHARE: Final = 0.5
BEGIN_S: Final = 600.0
NO_SECRET: Final = {"s3": {"bucket": "results", "secretRef": {"name": "nobody-made-it"}}}


class Keeping(Player):
    """A cluster in which runs begin and never end."""

    def _move_job(self, made: Object) -> None:
        is_run = made["metadata"]["labels"].get("dedup.dev/component") == "run"
        if not (is_run and (made.get("status") or {}).get("ready")):
            super()._move_job(made)


def running(name: str) -> dict[str, Any]:
    """Two runs, of which the first goes on, on a Kafka that is there already: a look at them is the same."""
    kafka = {"name": "kafka", "kafka": {}, "deploy": {"existing": {"bootstrap": "kafka:9092"}}}
    return changed(("metadata/name", name), ("spec/systems", [kafka]), ("spec/faults", []))


def stalled(name: str) -> dict[str, Any]:
    """It names a Secret that is not there."""
    return changed(("metadata/name", name), ("spec/artifacts", NO_SECRET))


def measured(server: ApiServer, cluster: PlayedCluster, namespace: str, asked: argparse.Namespace) -> bool:
    """Measure, tell, and say whether every target was met."""
    at_a_time = max(1, asked.running)
    with (
        tempfile.TemporaryDirectory(prefix="dedup-bench-") as folder,
        measuring.operator(server, namespace, Path(folder), at_a_time) as watched,
    ):
        begun_s = begun(server, cluster, namespace, asked.running)
        marks = measuring.Marks()
        names = [f"s-{number:04d}" for number in range(asked.stalled)]
        with measuring.in_background(lambda stop: marks.watch(server, namespace, stop)):
            measuring.applied_at_once(server, namespace, names, marks, stalled)
            until(lambda: marks.applied.keys() <= marks.seen.keys(), BEGIN_S, "a condition of each", 0.5)
        time.sleep(asked.settle_s)
        before, took, began = watched.sums(), watched.cpu_s(), time.monotonic()
        time.sleep(asked.idle_s)
        lasted_s = time.monotonic() - began
        share = (watched.cpu_s() - took) / lasted_s
        sums = watched.sums()
    looks, look_s = (sums[name] - before[name] for name in ("look_seconds_count", "look_seconds_sum"))
    peak_mib = watched.peak_bytes / (1 << 20)
    rows = (
        ("peak memory", f"{peak_mib:.0f} MiB", f"{MEMORY_MIB} MiB", peak_mib < MEMORY_MIB),
        (f"of a core, for {asked.idle_s:g} s", f"{share:.1%}", f"{RUNNING_SHARE:.0%}", share < RUNNING_SHARE),
        ("looks a second", f"{looks / lasted_s:.1f}", "", True),
        ("a look takes, on average", f"{1000 * look_s / max(1, looks):.0f} ms", "", True),
        ("looks that crashed", f"{sums['crashes_total']:g}", "0", sums["crashes_total"] == 0),
        ("keys that wait for a look, at the end", f"{sums['queue_length']:g}", "", True),
    )
    print(f"{asked.running} experiments run (begun in {begun_s:.0f} s), {asked.stalled} are stalled")
    for what, figure, target, met in rows:
        print(f"  {what:42}{figure:>12}   {f'at most {target}' if target else '':18}{'' if met else 'MISSED'}")
    return all(met for *_, met in rows)


def begun(server: ApiServer, cluster: PlayedCluster, namespace: str, many: int) -> float:
    """Have so many begin, and play until the first run of each goes on. Seconds that it took."""
    names = [f"r-{number:03d}" for number in range(many)]
    began, player = time.monotonic(), Keeping(cluster, namespace)
    measuring.applied_at_once(server, namespace, names, measuring.Marks(), running)

    def all_run() -> bool:
        player.move()
        live = cluster.list("DedupExperiment", namespace, "")
        return sum(_runs(each) for each in live) >= many

    if many:
        until(all_run, BEGIN_S, "a run of each", 1.0)
    return time.monotonic() - began


def _runs(live: Object) -> bool:
    """Whether its run has begun, and only goes on."""
    state = (live.get("status") or {}).get("state") or {}
    return bool(state.get("cursor", 0) >= 2)


def main() -> int:
    """Measure; the exit code is 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python bench/operator", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--experiments", type=int, default=200, metavar="N")
    parser.add_argument("--go", type=int, default=5, metavar="N", help="how many are let go to their verdict")
    parser.add_argument("--at-a-time", type=int, default=4, metavar="N", help="how many of these may run at a time")
    parser.add_argument("--idle-s", type=float, default=60.0, metavar="S")
    words = "after which the first condition is late; more, where other work is done beside it"
    parser.add_argument("--first-condition-s", type=float, default=measuring.FIRST_CONDITION_S, metavar="S", help=words)
    parser.add_argument(
        "--settle-s", type=float, default=measuring.SETTLE_S, metavar="S", help="before the measurement begins"
    )
    words = "instead: so many whose runs go on, and nothing ends"
    parser.add_argument("--running", type=int, default=0, metavar="N", help=words)
    words = "instead, or beside these: so many that cannot begin until somebody mends something"
    parser.add_argument("--stalled", type=int, default=0, metavar="N", help=words)
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE")
    asked = parser.parse_args()
    with (
        measuring.api_server(asked.kubeconfig) as server,
        playing(server) as cluster,
        namespace_on(cluster) as namespace,
    ):
        if asked.running or asked.stalled:
            return 0 if measured(server, cluster, namespace, asked) else 1
        return 0 if measuring.measured(server, cluster, namespace, asked) else 1
