"""What the promises cost: a producer with and without deduplication, with one request in flight, in transactions.

One producer sends messages of 1 KiB to one partition, as S4 did with the OpenMessaging Benchmark: as fast as it goes,
which gives the throughput, and at a fixed rate, which gives the latency. The first quarter of the messages, and the
latencies of the first second, do not count: until librdkafka's idempotent producer has its id from a broker, for up to
half a second, it sends nothing, and that is paid once in a producer's life. Every setting has its turn in each round,
on the same brokers; every second round goes backwards. A ratio is the median over all pairs, with the interval that
holds the truth with 90 % confidence (dedup.experiment.statistics.ratio_of).

    python bench/cost [--system kafka|pulsar] [--setting NAME] [--rounds N] [--messages N] [--json FILE]

*No measurable loss* holds if the whole interval lies within 5 % of 1; it is refuted if all of it lies below; else the
rounds were too few, or too unlike, to tell. Exits with 0 whatever it finds: a cost is no error.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq

from dedup.experiment.endpoints import Endpoints
from dedup.experiment.statistics import Ratio, ratio_of
from dedup.history.histories import CLOCK_SENT
from dedup.history.latencies import NAME as LATENCIES
from dedup.judgement.latencies import MS, percentile
from dedup.wire.manifests import ProducerReport
from dedup_lab import java
from dedup_lab.systems import jars, kafka, labs, pulsar
from dedup_runners import admins
from dedup_runners.admins import Admin

MESSAGE_BYTES: Final = 1024
WARM_UP_ROUNDS: Final = 2
UNCOUNTED: Final = 4
"""One in so many messages, the first ones of a run, does not count."""
DOUBT: Final = Fraction(1, 10)
NEAR: Final = 0.05
TIMEOUT_S: Final = 600.0
VERSIONS: Final = {"kafka": "4.3.1", "pulsar": "4.2.4"}


class Setting(NamedTuple):
    """One way to send, as changes to the producer's config, held against another one."""

    name: str
    beside: str | None
    changes: dict[str, Any]
    share: float = 1.0
    """Of the messages, where it is so slow that fewer tell as much."""
    tool: bool = False
    """Sent by Kafka's own ProducerPerformance, which is Java's client: its throughput only."""


PLAIN, ON = "no deduplication", "deduplication"
JAVA: Final = "Java's client: "
JAVA_BATCHES: Final = {"batch.size": "1000000", "linger.ms": "5", "acks": "all"}
"""As librdkafka has them."""


def transactions(size: int, share: float) -> Setting:
    changes = {"deduplication": True, "sends": True, "transactions": {"size": size}}
    return Setting(f"transactions of {size:,}", ON, changes, share)


SETTINGS: Final = {
    "kafka": (
        Setting(PLAIN, None, {"deduplication": False}),
        Setting(ON, PLAIN, {"deduplication": True}),
        Setting(
            "deduplication, 1 request in flight",
            ON,
            {"deduplication": True, "properties": {"max.in.flight.requests.per.connection": "1"}},
        ),
        Setting("deduplication, 1 message in flight", ON, {"deduplication": True, "in_flight": 1}, 0.002),
        transactions(10, 0.005),
        transactions(100, 0.05),
        transactions(1_000, 0.4),
        transactions(10_000, 1),
        Setting(f"{JAVA}{PLAIN}", None, {"deduplication": False}, tool=True),
        Setting(f"{JAVA}{ON}", f"{JAVA}{PLAIN}", {"deduplication": True}, tool=True),
    ),
    "pulsar": (
        Setting(PLAIN, None, {"deduplication": False}),
        Setting(ON, PLAIN, {"deduplication": True}),
        Setting("deduplication, 1 message in flight", ON, {"deduplication": True, "in_flight": 1}, 0.002),
    ),
}


class Sample(NamedTuple):
    """What one setting did in one round.

    Latencies are None where it cannot keep up with twice the rate, and in transactions: what was acknowledged in one
    can be read only when all of it is committed.
    """

    rate: float
    p50_ms: float | None
    p99_ms: float | None


class Contest(NamedTuple):
    """One system's brokers, and how much is sent."""

    system: str
    endpoints: Endpoints
    admin: Admin
    folder: Path
    messages: int
    rate: int
    seconds: float

    def sample(self, setting: Setting) -> Sample:
        if setting.tool:
            return Sample(self._by_tool(setting), None, None)
        reached, _ = self._produced(setting, max(100, round(self.messages * setting.share)), None)
        if reached < 2 * self.rate or "transactions" in setting.changes:
            return Sample(reached, None, None)
        _, latencies = self._produced(setting, round(self.rate * self.seconds), self.rate)
        return Sample(reached, *(percentile(latencies, each) / MS for each in (50, 99)))

    def _produced(self, setting: Setting, messages: int, rate: int | None) -> tuple[float, dict[int, int]]:
        """Messages a second of one run, and how long its acknowledgements took: nanoseconds -> how many."""
        topic = self._topic(bool(setting.changes["deduplication"]))
        folder = self.folder / f"r-{uuid.uuid4().hex[:12]}"
        folder.mkdir()
        config = {
            "run_id": folder.name,
            "folder": str(folder),
            "endpoints": self.endpoints.model_dump(mode="json"),
            "topic": topic,
            "library": {"kafka": "confluent-kafka", "pulsar": "pulsar-client"}[self.system],
            "payload_bytes": MESSAGE_BYTES,
            "producer_name": folder.name,
            "messages": messages,
            "messages_per_second": rate,
            **setting.changes,
        }
        done = subprocess.run(
            [sys.executable, "-m", "dedup_runners.producer", "-"],
            input=json.dumps(config),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{setting.name}: exit code {done.returncode}: {done.stderr[-500:]}")
        report = ProducerReport.model_validate_json((folder / ProducerReport.FILE).read_bytes())
        if not report.complete or report.ok != messages:
            raise RuntimeError(f"{setting.name}: {report.ok} of {messages} acknowledged: {report.problems}")
        found = Counter[int]()
        if (folder / LATENCIES).exists():
            rows = pq.read_table(folder / LATENCIES).to_pylist()
            began_s = min(row["second"] for row in rows)
            for row in rows:
                if row["second"] > began_s + 1:  # whole seconds of a clock: the first one may be a part
                    found[row["upper_ns"]] += row["count"]
        ticks = pq.read_table(folder / "clock.parquet").to_pylist()
        first, began_ns = min(
            (tick["index"], tick["monotonic_ns"])
            for tick in ticks
            if tick["kind"] == CLOCK_SENT and tick["index"] >= messages // UNCOUNTED
        )
        shutil.rmtree(folder)
        self.admin.delete_topic(topic)
        return (messages - first) * 1e9 / (report.last_acknowledgement_ns - began_ns), found

    def _by_tool(self, setting: Setting) -> float:
        """Messages a second by ProducerPerformance, the first quarter of them not counted."""
        topic = self._topic(bool(setting.changes["deduplication"]))
        properties = {
            **JAVA_BATCHES,
            "bootstrap.servers": self.endpoints.client_bootstrap,
            "enable.idempotence": str(setting.changes["deduplication"]).lower(),
        }
        command = [
            *(java.find(), "-Xmx1g", "org.apache.kafka.tools.ProducerPerformance", "--topic", topic),
            *("--num-records", str(self.messages), "--warmup-records", str(self.messages // UNCOUNTED)),
            *("--record-size", str(MESSAGE_BYTES), "--throughput", "-1", "--reporting-interval", "3600000"),
            *("--command-property", *(f"{name}={value}" for name, value in properties.items())),
        ]
        environment = {**os.environ, "CLASSPATH": jars.classpath("kafka", VERSIONS["kafka"])}
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment)
        if done.returncode:
            raise RuntimeError(f"{setting.name}: exit code {done.returncode}: {done.stderr[-500:]}")
        self.admin.delete_topic(topic)
        *_, rate = re.findall(r"([\d.]+) records/sec", done.stdout)
        return float(rate)

    def _topic(self, deduplication: bool) -> str:
        topic = self.admin.topic_name(f"cost-{uuid.uuid4().hex[:12]}", deduplication=deduplication)
        self.admin.create_topic(topic, partitions=1, deduplication=deduplication)
        return topic


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--system", choices=sorted(SETTINGS), action="append")
    parser.add_argument("--setting", action="append", metavar="NAME", help="only this one, and what else is named so")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--messages", type=int, default=300_000, help="of a run as fast as it goes")
    parser.add_argument("--rate", type=int, default=5_000, help="messages a second where latencies are measured")
    parser.add_argument("--seconds", type=float, default=6, help="how long")
    parser.add_argument("--json", type=Path, help="a file for every sample")
    asked = parser.parse_args()
    all_samples = {}
    for system in asked.system or SETTINGS:
        with tempfile.TemporaryDirectory(prefix="dedup-bench-") as name, labs.create(Path(name)) as lab:
            module = kafka if system == "kafka" else pulsar
            endpoints = module.start(lab, version=VERSIONS[system], proxied=False)
            with admins.connect(endpoints) as admin:
                contest = Contest(system, endpoints, admin, Path(name), asked.messages, asked.rate, asked.seconds)
                settings = [each for each in SETTINGS[system] if each.name in (asked.setting or [each.name])]
                all_samples[system] = samples = in_turns(contest, settings, asked.rounds)
        show(system, samples, asked)
        if asked.json is not None:
            told = {
                name: {each: [s._asdict() for s in found] for each, found in by.items()}
                for name, by in all_samples.items()
            }
            asked.json.write_text(json.dumps(told, indent=1) + "\n")
    return 0


def in_turns(contest: Contest, settings: Sequence[Setting], rounds: int) -> dict[str, list[Sample]]:
    """One sample a setting and round, after rounds that warm the brokers up; every second round goes backwards."""
    samples: dict[str, list[Sample]] = {setting.name: [] for setting in settings}
    for number in range(1 - WARM_UP_ROUNDS, rounds + 1):
        for setting in settings[:: 1 if number % 2 else -1]:
            sample = contest.sample(setting)
            if number > 0:
                samples[setting.name].append(sample)
            print(f"  round {number}: {setting.name}: {sample.rate:,.0f}/s", file=sys.stderr)
    return samples


def show(system: str, samples: dict[str, list[Sample]], asked: argparse.Namespace) -> None:
    """Print a table in Markdown: medians, and each ratio with its interval and what it says of the claim."""
    print(
        f"\n{system}: {asked.messages:,} messages of {MESSAGE_BYTES} bytes as fast as it goes, and {asked.rate:,}/s for"
    )
    print(f"{asked.seconds:g} s; medians of {asked.rounds} rounds in turns, ratios with 90 % intervals\n")
    print("| setting | messages/s | p50 | p99 | beside | throughput | no measurable loss | p50 | p99 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for setting in (each for each in SETTINGS[system] if each.name in samples):
        own, other = samples[setting.name], samples.get(setting.beside or "", [])
        columns = [[getattr(each, field) for each in own] for field in Sample._fields]
        medians = [f"{median(columns[0]):,.0f}", *(_ms(column) for column in columns[1:])]
        ratios = [_ratio(other, own, field) for field in Sample._fields]
        beside = [setting.beside, _text(ratios[0]), claim(ratios[0]), _text(ratios[1]), _text(ratios[2])]
        print(f"| {' | '.join([setting.name, *medians, *(beside if setting.beside else [''] * 5)])} |")


def claim(ratio: Ratio | None) -> str:
    """What a ratio of throughputs says of "no measurable loss"."""
    if ratio is None or not ratio.sure:
        return "too few rounds"
    if ratio.low >= 1 - NEAR and ratio.high <= 1 + NEAR:
        return "holds"
    return "refuted" if ratio.high < 1 - NEAR else "not shown"


def _ratio(other: list[Sample], own: list[Sample], field: str) -> Ratio | None:
    sides = [[getattr(each, field) for each in side] for side in (other, own)]
    return None if any(None in side for side in sides) else ratio_of(sides[0], sides[1], DOUBT)


def _text(ratio: Ratio | None) -> str:
    return "–" if ratio is None else f"{ratio.middle:.2f} × ({ratio.low:.2f} to {ratio.high:.2f})"


def _ms(values: list[float | None]) -> str:
    known = [each for each in values if each is not None]
    return f"{median(known):.1f} ms" if len(known) == len(values) and known else "–"


if __name__ == "__main__":
    sys.exit(main())
