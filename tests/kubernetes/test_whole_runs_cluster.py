"""Whole runs in pods, from the first message to Spark's counts: leaders killed or connections cut, in both variants.

The experiments are those of examples/, smaller: each variant once, and both faults of a system in one run. Histories of
Pulsar go to the cluster's object store, those of Kafka to a volume. How long each pod took, and for what, is among the
closing lines.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest
from testbed.cluster.clusters import Cluster
from tests.kubernetes import whole_runs
from tests.kubernetes.whole_runs import Judged, Place
from tests.lab import harness

from dedup.experiment.assignments import EXIT_CLAIMED
from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment
from dedup.faults.records import missed
from dedup.judgement.verdicts import Verdict
from dedup_operator.objects.__main__ import printed
from dedup_operator.objects.settings import Settings

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

MESSAGES: Final = 300_000
S3: Final = {"s3": {"bucket": whole_runs.BUCKET, "endpoint": "http://minio.minio:9000", "secret": whole_runs.SECRET}}
VOLUME: Final = {"volume": {"claim": "histories"}}


class Asked(NamedTuple):
    """The first example, with the faults of the others besides, and where its histories go.

    Cut connections nearly always leave copies, a kill only now and then.
    """

    examples: tuple[str, ...]
    store: dict[str, Any]


ASKED: Final = (
    Asked(("kafka-kill-leader", "kafka-kill-tcp"), VOLUME),
    Asked(("pulsar-kill-topic-owner", "pulsar-kill-tcp"), S3),
)
MOST_SEEDS: Final = 4
"""Now and then no fault of a control run leaves a copy, or one misses the traffic: then once more, and told why."""
LATER: Final = 2 * MESSAGES // 3
"""The message at which the second fault comes: the first has healed for the producer by then."""


class Done(NamedTuple):
    """An experiment, carried out and judged."""

    experiment: Experiment
    place: Place
    runs: dict[str, Judged]
    earlier: tuple[str, ...]
    """What came of the seeds before this one, a line a run."""

    def of(self, variant: str) -> Judged:
        return next(each for each in self.runs.values() if each.run.variant == variant)


@pytest.fixture(scope="module", params=ASKED, ids=lambda asked: asked.examples[0])
def done(request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    asked = request.param
    first, *others = (harness.document(example, messages=MESSAGES) for example in asked.examples)
    for other in others:
        first["spec"]["faults"] += [fault | {"at": {"message": LATER}} for fault in other["spec"]["faults"]]
    earlier: tuple[str, ...] = ()
    for seed in range(MOST_SEEDS):
        experiment = harness.experiment(first | {"spec": first["spec"] | {"seed": seed}}).with_changes(runs=1)
        kind = experiment.spec.systems[0].kind
        with whole_runs.at(cluster, settings(kind, asked.store), tmp_path_factory.mktemp("home"), [kind]) as place:
            runs = carried_out(place, experiment, tmp_path_factory.mktemp("results"))
            made = Done(experiment, place, runs, earlier)
            said = made.of("control").evidence.said
            met = not any(each.evidence.manifest and missed(each.evidence.manifest.faults) for each in runs.values())
            if seed == MOST_SEEDS - 1 or (met and said and said.counts.values_with_duplicates):
                yield made
                return
            earlier += tuple(f"seed {seed}: {line}" for line in whole_runs.told(place, runs.values()))


def settings(kind: str, store: dict[str, Any]) -> Settings:
    namespace = f"runs-{uuid4().hex[:8]}"
    if "s3" in store:  # an attempt that was claimed stays claimed, and other tests may have had the same
        store = {"s3": {**store["s3"], "prefix": namespace}}
    charts = {kind: whole_runs.chart_of(kind)}
    return Settings.model_validate({"namespace": namespace, "artifacts": store, "charts": charts})


def carried_out(place: Place, experiment: Experiment, results: Path) -> dict[str, Judged]:
    (system,) = experiment.spec.systems
    place.apply(printed("accounts", None, 1, experiment, place.settings))
    place.install(experiment, system)
    for run in plan(experiment):
        place.carry_out(experiment, run)
    place.verify(experiment)
    place.fetch(experiment, results)
    return whole_runs.judged(experiment, results, place.settings.artifacts.root(experiment.name))


def test_both_judges_say_the_same_of_the_same_files(done: Done) -> None:
    assert done.runs
    for each in done.runs.values():
        assert each.evidence.spark is not None and each.evidence.oracle is not None
        assert each.evidence.spark.counts == each.evidence.oracle.counts
        assert each.evidence.spark.counts.send == MESSAGES


def test_every_run_passes_which_none_does_whose_fault_missed(done: Done, tell: Callable[[str], None]) -> None:
    for line in (*done.earlier, *whole_runs.told(done.place, done.runs.values())):
        tell(line)
    for each in done.runs.values():
        assert each.verdict.verdict is Verdict.PASS, each.verdict


def test_deduplication_is_proven_from_the_broker(done: Done) -> None:
    for each in done.runs.values():
        assert each.evidence.manifest is not None
        assert each.evidence.manifest.deduplication.in_force is (each.run.variant == "dedup")


def test_nothing_is_read_twice_or_lost_with_deduplication(done: Done) -> None:
    said = done.of("dedup").evidence.said
    assert said is not None
    assert (said.counts.values_with_duplicates, said.counts.not_received) == (0, 0)


def test_something_is_read_twice_without(done: Done) -> None:
    said = done.of("control").evidence.said
    assert said is not None
    assert said.counts.values_with_duplicates > 0


def test_a_second_start_of_an_attempt_sends_nothing_and_leaves_its_history_alone(done: Done, tmp_path: Path) -> None:
    first = done.runs[plan(done.experiment)[0].run_id]
    assert done.place.start_again(done.experiment, first.run) == EXIT_CLAIMED
    again = done.place.fetch(done.experiment, tmp_path) / "runs" / first.run.run_id / first.folder.name
    assert contents(again) == contents(first.folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}
