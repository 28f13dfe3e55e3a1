"""How fast our producer and consumer are, beside the brokers' own tools and beside bare loops over the same clients.

A tester that is slower than the client it tests hides the client's behaviour under load. So every contender runs
against the same brokers in the same minutes, in turns, with the same batch size, linger, compression and number of
requests in flight; what counts is the ratio of the medians, and the processor time a million messages beside it.

    python bench/produce [--messages N] [--rounds N] [--system kafka|pulsar] [--contender NAME]... [--no-memory]
                         [--batch-bytes N] [--in-flight N] [--warm N]

Exits with 1 if a ratio misses its target.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pulsars
from contenders import Contest, Sample

from dedup_lab.systems import kafka, labs, pulsar
from dedup_runners import admins
from dedup_runners.configs import ProducerConfig

Contender = Callable[[Contest], Sample]


class Comparison(NamedTuple):
    """`ours` must reach `target` times the rate of `peer`; `cpu`: at no more than so much of its processor time.

    `warm`: the target where neither counts what its process sends first; None: they are not compared so.
    """

    ours: str
    peer: str
    target: float
    cpu: float | None = None
    warm: float | None = None


CONTENDERS: dict[str, dict[str, Contender]] = {
    "kafka": {
        "our producer, full history": Contest.our_producer,
        "kafka-java, full history": Contest.our_java_producer,
        "ProducerPerformance": Contest.producer_performance,
        "bare C API loop, acks counted": Contest.bare_producer,
        "our consumer, full history": Contest.our_consumer,
        "ConsumerPerformance": Contest.consumer_performance,
    },
    "pulsar": {
        "our producer, full history": Contest.our_producer,
        "pulsar-java, full history": pulsars.our_java_producer,
        "PerformanceProducer": pulsars.performance_producer,
        "bare send_async loop": Contest.bare_producer,
    },
}
COMPARISONS = {
    "kafka": [
        Comparison("our producer, full history", "ProducerPerformance", 1.5, cpu=0.35, warm=1.0),
        Comparison("kafka-java, full history", "ProducerPerformance", 0.85),
        Comparison("our producer, full history", "bare C API loop, acks counted", 0.8, warm=0.8),
        Comparison("our consumer, full history", "ConsumerPerformance", 0.7),
    ],
    "pulsar": [
        Comparison("our producer, full history", "bare send_async loop", 0.8),
        Comparison("pulsar-java, full history", "PerformanceProducer", 0.8),
        Comparison("pulsar-java, full history", "our producer, full history", 2.0),
    ],
}
VERSIONS = {"kafka": "4.3.1", "pulsar": "4.2.4"}
IN_FLIGHT = ProducerConfig.model_fields["in_flight"].default
WARM_UP_ROUNDS = 2
MEMORY_TARGET = 1.2
MEMORY_ROUNDS = 3


class Plan(NamedTuple):
    """What is measured, and how often."""

    messages: int
    rounds: int
    batch_bytes: int
    in_flight: int
    warm: int


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--system", choices=sorted(CONTENDERS), action="append")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--contender", action="append", help="only this one, and what else is named so")
    parser.add_argument("--batch-bytes", type=int, default=16384, help="Kafka's batch.size")
    parser.add_argument("--in-flight", type=int, default=IN_FLIGHT, help="messages that may be unacknowledged")
    parser.add_argument("--warm", type=int, default=0, help="Kafka: messages that a process sends before it counts")
    asked = parser.parse_args()
    missed = 0
    if asked.contender:
        for known in CONTENDERS.values():
            for name in known.keys() - {*asked.contender}:
                del known[name]
    for system in asked.system or CONTENDERS:
        plan = Plan(asked.messages, asked.rounds, asked.batch_bytes, asked.in_flight, asked.warm)
        missed += measure(system, plan, memory=system == "kafka" and not asked.no_memory)
    return 1 if missed else 0


def measure(system: str, plan: Plan, *, memory: bool) -> int:
    """Run one system's contenders in turns and print what they did; how many targets were missed."""
    with tempfile.TemporaryDirectory(prefix="dedup-bench-") as name:
        logs = Path(name)
        with labs.create(logs) as lab:
            module = kafka if system == "kafka" else pulsar
            endpoints = module.start(lab, version=VERSIONS[system], proxied=False)
            with admins.connect(endpoints) as admin:
                contest = Contest(
                    system,
                    endpoints,
                    admin,
                    VERSIONS[system],
                    logs,
                    plan.messages,
                    plan.batch_bytes,
                    plan.in_flight,
                    plan.warm,
                )
                samples = in_turns(contest, CONTENDERS[system], plan.rounds)
                missed = show(system, samples, plan)
                return missed + (show_memory(contest) if memory else 0)


def in_turns(contest: Contest, contenders: dict[str, Contender], rounds: int) -> dict[str, list[Sample]]:
    """One sample a contender and round, after rounds that warm the brokers up; every second round goes backwards.

    The brokers get faster all the time, so whoever always came last would gain by it.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in contenders}
    for number in range(1 - WARM_UP_ROUNDS, rounds + 1):
        for name, run in list(contenders.items())[:: 1 if number % 2 else -1]:
            sample = run(contest)
            if number > 0:
                samples[name].append(sample)
            print(f"  round {number}: {name}: {sample.rate:,.0f}/s", file=sys.stderr)
    return samples


def show(system: str, samples: dict[str, list[Sample]], plan: Plan) -> int:
    """Print the medians and the ratios; how many missed their target."""
    rounds = len(next(iter(samples.values())))
    print(f"\n{system}: {plan.messages:,} messages of 8 bytes, medians of {rounds} rounds in turns")
    print(f"  at most {plan.in_flight:,} of ours and of the bare loop's unacknowledged")
    if system == "kafka":
        print(f"  batches of {plan.batch_bytes:,} bytes; the first {plan.warm:,} messages of a process do not count")
    rates, cpu = {}, {}
    for name, found in samples.items():
        rates[name] = median(sample.rate for sample in found)
        cpu[name] = median(sample.cpu_s_a_million for sample in found)
        print(f"  {name:32} {rates[name]:>12,.0f} messages/s   {cpu[name]:6.2f} client CPU s per million")
    missed = 0
    for each in COMPARISONS[system]:
        target = each.warm if plan.warm else each.target
        if target is None or not {each.ours, each.peer} <= rates.keys():
            continue
        ratio = rates[each.ours] / rates[each.peer]
        missed += ratio < target
        print(f"  {each.ours} : {each.peer} = {ratio:.2f} (target {target:.2f}{'' if ratio >= target else ', MISSED'})")
        if each.cpu is not None:
            share = cpu[each.ours] / cpu[each.peer]
            missed += share > each.cpu
            said = f"target at most {each.cpu:.2f}{'' if share <= each.cpu else ', MISSED'}"
            print(f"  its client CPU s per million : the other's = {share:.2f} ({said})")
    return missed


def show_memory(contest: Contest) -> int:
    """Print the producer's peak memory at 10^6 and 10^7 messages, medians of some runs in turns; 1 if it grew."""
    counts = (10**6, 10**7)
    peaks = [[contest.of(count).our_producer().max_rss_bytes for count in counts] for _ in range(MEMORY_ROUNDS)]
    small, large = (median(column) for column in zip(*peaks, strict=True))
    ratio = large / small
    print(f"  producer memory: {small / 2**20:.0f} MiB at 10^6, {large / 2**20:.0f} MiB at 10^7 messages")
    print(f"  growth = {ratio:.2f} (target at most {MEMORY_TARGET:.2f}{'' if ratio <= MEMORY_TARGET else ', MISSED'})")
    return int(ratio > MEMORY_TARGET)


if __name__ == "__main__":
    sys.exit(main())
