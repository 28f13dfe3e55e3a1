"""The tester, tested: where there is nothing to conclude it must say so, and where deduplication is off it must notice.

Each case runs a real experiment on real brokers with one thing changed behind the experiment's back.
"""

import functools
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.lab import harness

from dedup.experiment.endpoints import OURS
from dedup.experiment.stages import State, drive
from dedup.history import reports
from dedup.judgement.endings import Kind
from dedup.judgement.summaries import Summary
from dedup.judgement.verdicts import Code, Verdict
from dedup.wire.clients import Look
from dedup.wire.manifests import Manifest
from dedup.workloads.keys import Keys
from dedup_lab import experiments, results
from dedup_lab.platform import LocalPlatform
from dedup_runners.admins.pulsar import PulsarAdmin, namespace_of
from dedup_runners.attempt.courses import Hooks
from dedup_runners.attempt.looks import OFF
from dedup_runners.chaos.experiments import render
from dedup_runners.chaos.sessions import BYSTANDER
from dedup_runners.configs import ProducerConfig
from dedup_runners.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]

BOUND_S = 120.0


def treatment_only(name: str, **workload: int) -> dict[str, Any]:
    """One treatment run of an example, its faults short."""
    found = harness.document(name, **workload)
    found["spec"] |= {"variants": found["spec"]["variants"][1:], "runs": 1}
    return found


def run(found: dict[str, Any], folder: Path, hooks: Hooks) -> Summary:
    experiment = harness.experiment(found)
    kept = results.create(folder, experiment)
    quiet = harness.Quiet()
    platform = LocalPlatform(experiment, kept, quiet, experiments.Finish(experiment, kept, quiet), hooks)
    try:
        drive(experiment, State(digest=experiment.digest()), platform, kept.save)
    finally:
        platform.close()
    assert not quiet.failures
    return reports.write(experiment, reports.gather(experiment, kept.root), kept.root)


def codes(summary: Summary, verdict: Verdict) -> set[str]:
    return {reason.code for each in summary.runs for reason in each.reasons if reason.verdict is verdict}


def without_idempotence(config: ProducerConfig) -> ProducerConfig:
    return config.model_copy(update={"deduplication": False})


def test_deduplication_flipped_off_with_duplicates_fails(tmp_path: Path) -> None:
    found = treatment_only("kafka-kill-tcp", messages=300_000)
    summary = run(found, tmp_path / "results", Hooks(configure=without_idempotence))
    (only,) = summary.runs
    assert only.counts is not None
    if only.counts.values_with_duplicates:
        assert summary.verdict is Verdict.FAIL
        assert Code.NOT_IN_FORCE in codes(summary, Verdict.FAIL)
    else:  # it left no witness: nothing to accuse the broker of, but nothing to conclude either
        assert summary.verdict is Verdict.ERROR
        assert Code.NOT_IN_FORCE in codes(summary, Verdict.ERROR)


def test_deduplication_flipped_off_without_a_witness_is_an_error(tmp_path: Path) -> None:
    found = treatment_only("kafka-kill-tcp", messages=20_000)
    found["spec"]["faults"] = []
    summary = run(found, tmp_path / "results", Hooks(configure=without_idempotence))
    assert summary.verdict is Verdict.ERROR
    assert codes(summary, Verdict.ERROR) == {Code.NOT_IN_FORCE}


def off_for_a_while(config: ProducerConfig) -> ProducerConfig:
    """Turns Pulsar's switch off while the producer runs, and on again once the tester has seen it."""

    def turn() -> None:
        with PulsarAdmin(config.endpoints) as admin:
            switch = f"/admin/v2/namespaces/{namespace_of(OURS, True)}/deduplication"
            until(lambda: "start" in (config.folder / "marks.jsonl").read_text(), BOUND_S, "the producer sends", 0.1)
            admin._ask("POST", switch, body=False)
            until(lambda: OFF in (config.folder / Look.FILE).read_text(), BOUND_S, "the tester has seen it", 0.1)
            admin._ask("POST", switch, body=True)

    (config.folder / "marks.jsonl").touch()
    threading.Thread(target=turn, daemon=True).start()
    return config


def test_deduplication_that_was_off_for_a_while_was_not_in_force(tmp_path: Path) -> None:
    found = treatment_only("pulsar-kill-tcp", messages=1_000_000)
    found["spec"]["faults"] = []
    summary = run(found, tmp_path / "results", Hooks(configure=off_for_a_while))
    assert Code.NOT_IN_FORCE in {reason.code for each in summary.runs for reason in each.reasons}
    assert summary.verdict in (Verdict.ERROR, Verdict.FAIL)
    (manifest,) = (tmp_path / "results").rglob("manifest.json")
    said = Manifest.model_validate_json(manifest.read_bytes()).deduplication
    assert said.proof.split("; before, ")[0].endswith(": Enabled"), "at the end it was on again"


def test_a_stubbed_fault_is_inconclusive_and_so_is_the_run_that_replaces_it(tmp_path: Path) -> None:
    found = treatment_only("kafka-kill-tcp", messages=200_000)
    found["spec"]["replacements"] = 1
    summary = run(found, tmp_path / "results", Hooks(render=functools.partial(render, pretend=True)))
    assert summary.verdict is Verdict.INCONCLUSIVE
    assert codes(summary, Verdict.INCONCLUSIVE) == {Code.FAULT_VACUOUS}
    (replaced,) = summary.repetitions
    assert (replaced.attempt, replaced.kind, summary.runs[0].attempt) == (1, Kind.MISSED, 2)
    assert "the target shows no effect" in replaced.reason


def test_a_fault_after_the_last_message_is_inconclusive(tmp_path: Path) -> None:
    found = treatment_only("kafka-kill-leader", messages=60_000)
    found["spec"]["faults"][0]["at"]["message"] = 60_000
    found["spec"]["faults"][0]["kill"]["restartAfter"] = "2s"
    summary = run(found, tmp_path / "results", Hooks())
    assert summary.verdict is Verdict.INCONCLUSIVE
    assert codes(summary, Verdict.INCONCLUSIVE) == {Code.FAULT_VACUOUS}


def test_a_fault_on_a_broker_without_the_topic_is_inconclusive(tmp_path: Path) -> None:
    found = treatment_only("kafka-kill-leader", messages=400_000)
    found["spec"]["faults"][0]["kill"]["restartAfter"] = "2s"
    summary = run(found, tmp_path / "results", Hooks(render=functools.partial(render, broker=BYSTANDER)))
    assert summary.verdict is Verdict.INCONCLUSIVE
    assert codes(summary, Verdict.INCONCLUSIVE) == {Code.FAULT_VACUOUS}


@pytest.mark.parametrize("partitioner", ["consistent", "murmur2"])
def test_keys_that_the_client_puts_elsewhere_than_it_should_fail(tmp_path: Path, partitioner: str) -> None:
    """The plan expects CRC-32, and the client is told a function behind its back. Half a minute each."""
    found = treatment_only("workloads/keys", messages=1000)
    found["spec"] |= {"systems": found["spec"]["systems"][:1], "faults": []}
    hooks = Hooks(configure=lambda config: config.model_copy(update={"properties": {"partitioner": partitioner}}))
    summary = run(found, tmp_path / "results", hooks)
    (only,) = summary.runs
    expected, put = (Keys(count=7).homes("confluent-kafka", asked, 3) for asked in ({}, {"partitioner": partitioner}))
    elsewhere = sum(home != other for home, other in zip(expected, put, strict=True))
    assert only.counts is not None
    assert (only.counts.misplaced > 0) == (elsewhere > 0) == (partitioner == "murmur2")
    assert only.verdict is (Verdict.FAIL if elsewhere else Verdict.PASS), only.reasons
