"""How long an experiment takes: guessed before it begins, from stated speeds; later from the runs that are finished.

The speeds are those of `make demo` on a machine with two cores, rounded. Another machine is faster or slower; the
estimate only separates minutes from hours.
"""

import statistics
from collections.abc import Sequence
from typing import Final

from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, System
from dedup.wire.manifests import Record
from dedup_lab.systems import existing
from dedup_lab.systems.running import PRODUCTS

RUN_S: Final = 12.0
"""What every run takes beside its messages and faults: a topic, two clients, proofs that all is healed and at rest."""
SENT_A_SECOND: Final = 50_000
BYTES_A_SECOND: Final = 25_000_000
"""Of larger messages: three brokers on one disk store each of them three times."""
READ_A_SECOND: Final = 150_000
VERIFY_S: Final = 15.0
"""To start Spark."""
JUDGED_A_SECOND: Final = 100_000


class Estimate(Record):
    """Seconds, by what takes them."""

    provision_s: float
    runs_s: float
    verify_s: float

    @property
    def seconds(self) -> float:
        return self.provision_s + self.runs_s + self.verify_s


def of(experiment: Experiment) -> Estimate:
    """The guess before anything has begun."""
    systems = {system.name: system for system in experiment.spec.systems}
    runs = plan(experiment)
    messages = experiment.spec.workload.messages
    return Estimate(
        provision_s=sum(
            PRODUCTS[system.kind].PROVISION_S if system.existing is None else existing.PROVISION_S
            for system in systems.values()
        ),
        runs_s=sum(_run_s(experiment, systems[run.system]) for run in runs),
        verify_s=VERIFY_S + len(runs) * messages / JUDGED_A_SECOND,
    )


def _run_s(experiment: Experiment, system: System) -> float:
    workload = experiment.spec.workload
    latency_s = system.network.latency_s
    # No more is sent in a round trip than may be unacknowledged.
    rate = min(SENT_A_SECOND, workload.in_flight / latency_s) if latency_s else SENT_A_SECOND
    rate = min(rate, workload.messages_per_second or rate, BYTES_A_SECOND / (workload.payload_bytes or 1))
    faults_s = sum(fault.lasts_s for fault in experiment.spec.all_faults)
    return RUN_S + workload.messages / rate + faults_s + workload.messages / READ_A_SECOND


def left(took_s: Sequence[float], runs: int) -> float | None:
    """How long so many more runs take, by what finished ones took; None before the first."""
    return statistics.fmean(took_s) * runs if took_s else None


def words(seconds: float) -> str:
    """`40 s`, `12 min`, `2 h 5 min`: no finer than a guess is."""
    if seconds < 59.5:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
