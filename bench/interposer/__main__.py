"""What does the interposer cost that has nothing to do, beside Toxiproxy and beside no proxy at all?

The same producer, in a process of its own, sends to the same three brokers of Kafka on each way, in turns: at full
speed in large batches, in batches of 16 KiB, messages of 1 KB; and one message at a time, for the latency.

    python bench/interposer [--rounds N]

It exits with 1 if the interposer passes less than half of what Toxiproxy passes, or adds more than a millisecond at the
99th percentile.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import uuid
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles
from typing import Final, NamedTuple

from dedup.experiment.endpoints import Endpoints
from dedup_lab.systems import kafka, labs
from dedup_runners import admins
from dedup_runners.admins import Admin
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.speeches import SPEECHES

VERSION: Final = "4.3.1"
KNOWN: Final = SPEECHES["kafka"]
LEAST: Final = 0.5
MOST_ADDED_S: Final = 0.001
TIMEOUT_S: Final = 300.0
HERE: Final = Path(__file__).parent


class Load(NamedTuple):
    """What is sent: `how` as sending.py knows it."""

    how: str
    messages: int
    bytes: int
    properties: dict[str, str]


LOADS: Final = {
    "8 bytes, batches of 1 MB": Load("full", 1_000_000, 8, {"linger.ms": "50"}),
    "8 bytes, batches of 16 KiB": Load("full", 1_000_000, 8, {"linger.ms": "50", "batch.size": "16384"}),
    "1 KB, batches of 16 KiB": Load("full", 100_000, 1_000, {"linger.ms": "50", "batch.size": "16384"}),
}
ONE: Final = Load("one", 2_000, 8, {"linger.ms": "0"})
WAYS: Final = ("no proxy", "Toxiproxy", "interposer")


class Contest:
    """Three brokers, each reached on three ways."""

    def __init__(self, system: Endpoints, admin: Admin, interposer: Interposer) -> None:
        self._admin = admin
        doors = interposer.bootstrap("bench", KNOWN.brokers(system.direct_bootstrap))
        ways = (system.direct_bootstrap, system.client_bootstrap, KNOWN.bootstrap(doors))
        self._bootstraps = dict(zip(WAYS, ways, strict=True))

    def sent(self, load: Load, way: str) -> list[float]:
        """The seconds that sending.py says; RuntimeError if it fails."""
        topic = f"bench-{uuid.uuid4().hex[:12]}"
        self._admin.create_topic(topic, partitions=1, deduplication=True)
        asked = {**load._asdict(), "topic": topic, "bootstrap": self._bootstraps[way]}
        done = subprocess.run(
            [sys.executable, str(HERE / "sending.py")],
            input=json.dumps(asked), capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        self._admin.delete_topic(topic)
        if done.returncode:
            raise RuntimeError(f"sending on the way of {way}: {done.stderr[-500:]}")
        return [float(each) for each in json.loads(done.stdout)["seconds"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dedup-bench-") as name, labs.create(Path(name)) as lab:
        system = kafka.start(lab, version=VERSION, proxied=True)
        with admins.connect(system) as admin, Interposer(KNOWN.speech()) as interposer:
            contest = Contest(system, admin, interposer)
            missed = sum(throughput(contest, title, asked.rounds) for title in LOADS) + latency(contest, asked.rounds)
            for problem in interposer.problems:
                print(f"problem: {problem}")
            return int(bool(missed or interposer.problems))


def in_turns(contest: Contest, load: Load, rounds: int) -> dict[str, list[list[float]]]:
    """What each way took in each round, after a round that does not count; every second round goes backwards."""
    took = defaultdict(list)
    for number in range(rounds + 1):
        for way in WAYS[:: 1 if number % 2 else -1]:
            seconds = contest.sent(load, way)
            if number:
                took[way].append(seconds)
    return took


def throughput(contest: Contest, title: str, rounds: int) -> bool:
    """Print the medians of the rates, and the ratio; whether it is too small."""
    load, rates = LOADS[title], {}
    for way, seconds in in_turns(contest, load, rounds).items():
        rates[way] = load.messages / median(took for (took,) in seconds)
    ratio = rates["interposer"] / rates["Toxiproxy"]
    told = ", ".join(f"{way} {rate:,.0f}/s" for way, rate in rates.items())
    print(f"{title}: {told}; interposer : Toxiproxy = {ratio:.2f} (at least {LEAST})", flush=True)
    return ratio < LEAST


def latency(contest: Contest, rounds: int) -> bool:
    """Print the median of the rounds' percentiles; whether the interposer adds too much to the 99th."""
    at: dict[str, tuple[float, float]] = {}
    for way, seconds in in_turns(contest, ONE, rounds).items():
        cuts = [quantiles(each, n=100) for each in seconds]
        at[way] = median(each[49] for each in cuts), median(each[98] for each in cuts)
    for way, (half, most) in at.items():
        print(f"one message at a time, {way}: {half * 1e3:.2f} ms, 99th percentile {most * 1e3:.2f} ms")
    added = at["interposer"][1] - at["no proxy"][1]
    print(f"the interposer adds {added * 1e3:.2f} ms at the 99th percentile (at most {MOST_ADDED_S * 1e3:.0f})")
    return added > MOST_ADDED_S


if __name__ == "__main__":
    sys.exit(main())
