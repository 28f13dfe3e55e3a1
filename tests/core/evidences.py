"""Evidence made by hand: a clean run of 1,000 messages through one cut, and what to change to make it anything else."""

from collections.abc import Mapping
from typing import Any, Final

from dedup.experiment.plans import Run, plan
from dedup.experiment.spec import Expectation, Experiment, parse
from dedup.judgement.anomalies import OrderEvent, Verification, Witness
from dedup.judgement.counts import Counts, Jump
from dedup.judgement.demands import PlannedFault
from dedup.judgement.verdicts import Demand, Evidence, RunVerdict, Verdict, judge_run
from dedup.wire.manifests import ConsumerReport, Deduplication, EndPosition, FaultRecord, Manifest, ProducerReport

MESSAGES: Final = 1_000
JUMPS: Final = {
    "jump_forward": Jump.FORWARD,
    "jump_backward": Jump.BACKWARD,
    "duplicate_jump_forward": Jump.DUPLICATE_FORWARD,
    "duplicate_jump_backward": Jump.DUPLICATE_BACKWARD,
}
WITNESSED: Final = (
    "not_received",
    "received_no_ack",
    "values_with_duplicates",
    "phantom",
    "failed_but_received",
    "ack_mismatch",
    "misplaced",
    "send_backwards",
    "processed_twice",
    "never_processed",
    "reread_below_commit",
    "skipped_above_commit",
    "aborted_read",
    "torn_transaction",
)

CUT: Final = FaultRecord(
    name="cut",
    kind="killTCP",
    requested_message=100,
    triggered_message=100,
    effect_message=120,
    unacknowledged=80,
    remaining=880,
    injected_ns=1_000_000_000,
    healed_ns=3_500_000_000,
    target="broker 1",
    injector={"duration_s": 2.0},
    target_witness={"lost": 3},
    client_witness={"disconnect": 2},
    heal_proven=True,
)


RUN = Run(run_id="kafka-dedup-001", system="kafka", variant="dedup", number=1, seed=7)
PLANNED_CUT = PlannedFault(name="cut", kind="killTCP", message=100, settings={"duration_s": 2.0})
EXACTLY_ONCE = Demand(expectation=Expectation.EXACTLY_ONCE, planned=RUN, deduplication=True, faults=(PLANNED_CUT,))
CONTROL = Demand(expectation=Expectation.DUPLICATES, planned=RUN, deduplication=False, faults=(PLANNED_CUT,))
BACKWARD = {"jump_forward": 1, "jump_backward": 1}
ANOMALIES: dict[str, dict[str, int]] = {
    "values_with_duplicates": {"values_with_duplicates": 2, "extra_copies": 2, "received": MESSAGES + 2},
    "not_received": {"not_received": 1, "received": MESSAGES - 1},
    "phantom": {"phantom": 1, "received_no_ack": 1, "received": MESSAGES + 1},
    "failed_but_received": {
        "failed_but_received": 1,
        "received_no_ack": 1,
        "positive_ack": MESSAGES - 1,
        "negative_ack": 1,
    },
    "ack_mismatch": {"ack_mismatch": 1},
    "misplaced": {"misplaced": 1},
    "send_backwards": {"send_backwards": 1},
    "processed_twice": {"processed_twice": 3},
    "reread_below_commit": {"reread_below_commit": 2},
    "skipped_above_commit": {"skipped_above_commit": 2},
    "aborted_read": {"aborted_read": 1},
    "torn_transaction": {"torn_transaction": 1},
    "hanging_transaction": {"hanging_transaction": 1},
    "jump_backward": {"jump_backward": 1},
    "duplicate_jump_backward": {"duplicate_jump_backward": 1},
}


def experiment(**spec: Any) -> Experiment:
    """One Kafka, a control and a treatment, two runs each, one fault; `spec` replaces keys."""
    return parse(
        {
            "apiVersion": "dedup.dev/v1alpha1",
            "kind": "DedupExperiment",
            "metadata": {"name": "trial"},
            "spec": {
                "systems": [{"name": "kafka", "kafka": {}}],
                "workload": {"messages": MESSAGES},
                "variants": [
                    {"name": "control", "deduplication": "Disabled", "expect": "Duplicates"},
                    {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"},
                ],
                "runs": 2,
                "faults": [{"name": "cut", "at": {"message": 100}, "killTCP": {"duration": "2s"}}],
            }
            | spec,
        },
        source="the test",
    )


def counts(**changes: int) -> Counts:
    clean = {"send": MESSAGES, "ack": MESSAGES, "positive_ack": MESSAGES, "received": MESSAGES}
    return Counts(**(clean | changes))


def verification(engine: str = "spark", /, **changes: int) -> Verification:
    """What a judge says of the clean run with these counts changed: each with a witness, each jump with an event."""
    counted = counts(**changes)
    events = tuple(
        OrderEvent(jump=jump, partition=0, stream=0, last=500, value=600 if "forward" in name else 400, arrival=500)
        for name, jump in JUMPS.items()
        for _ in range(getattr(counted, name))
    )
    witnesses = tuple(
        Witness(anomaly=name, stream=0, value=400, positions=("0/0:400:0", "0/0:500:0"))
        for name in WITNESSED
        if getattr(counted, name)
    )
    return Verification(
        path="runs/x",
        engine=engine,
        counts=counted,
        events=events,
        events_total=len(events),
        witnesses=witnesses,
        block_lengths={copies: 1} if (copies := counted.values_with_duplicates) else {},
        copies_during={"cut": copies},
        hanging=("partition 0: producer 7, epoch 0, from offset 900 on",) * counted.hanging_transaction,
    )


def duplicates(copies: int = 50) -> dict[str, int]:
    """The counts of a run in which one block of so many values was stored twice."""
    return {
        "values_with_duplicates": copies,
        "extra_copies": copies,
        "received": MESSAGES + copies,
        "duplicate_jump_backward": 1,
    }


LIBRARIES: Final = {"kafka": "confluent-kafka", "pulsar": "pulsar-client"}


def manifest(
    run: Run,
    /,
    *,
    deduplication: bool = True,
    producer: Mapping[str, Any] | None = None,
    consumer: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Manifest:
    """The manifest of a clean run; `producer` and `consumer` replace fields of their reports."""
    made = Manifest(
        experiment="trial",
        spec_digest="0" * 64,
        run_id=run.run_id,
        attempt=1,
        system=run.system,
        kind="kafka",
        variant=run.variant,
        run=run.number,
        seed=run.seed,
        messages=MESSAGES,
        streams=1,
        stream_partitions=(0,),
        topic=f"{run.run_id}-1",
        versions={"broker": "4.3.1", "dedup": "0.1.0"},
        producer=ProducerReport(
            complete=True,
            library=LIBRARIES[changes.get("kind", "kafka")],
            library_version="2.16.0",
            effective_config={"acks": "all", "enable.idempotence": str(deduplication), "client.id": f"{run.run_id}-1"},
            sent=MESSAGES,
            ok=MESSAGES,
            fail=0,
            unknown=0,
            segments=(),
            first_send_ns=0,
            last_acknowledgement_ns=1,
        ),
        consumer=ConsumerReport(
            complete=True,
            reached_end=True,
            library=LIBRARIES[changes.get("kind", "kafka")],
            library_version="2.16.0",
            effective_config={},
            received=MESSAGES,
            end=(EndPosition(partition=0),),
            segments=(),
        ),
        deduplication=Deduplication(asked=deduplication, in_force=deduplication, proof="producer ids in the batches"),
        faults=(CUT,),
        files=(),
        stage_seconds={"prepare": 0.5, "produce": 3.0, "heal": 2.0, "settle": 0.25, "consume": 1.0, "manifest": 0.125},
    )
    return made.model_copy(
        update={
            "producer": made.producer.model_copy(update=dict(producer or {})),
            "consumer": made.consumer.model_copy(update=dict(consumer or {})),
            **changes,
        }
    )


def evidence(run: Run, counted: Mapping[str, int] | None = None, /, *, attempt: int = 1, **changes: Any) -> Evidence:
    """A whole, undamaged history that both judges agree on. `counted` changes counts, `changes` fields of the manifest.

    The runners' reports follow the counts, as they do in a real run.
    """
    said = counts(**(counted or {}))
    producer = {
        "sent": said.send,
        "ok": said.positive_ack,
        "fail": said.negative_ack,
        "unknown": said.unknown - said.outcomes_missing,
    } | dict(changes.pop("producer", {}))
    consumer = {"received": said.received + said.re_reads} | dict(changes.pop("consumer", {}))
    made = manifest(run, producer=producer, consumer=consumer, attempt=attempt, **changes)
    return Evidence(
        run_id=run.run_id,
        attempt=attempt,
        manifest=made,
        spark=verification(**(counted or {})),
        oracle=verification("oracle", **(counted or {})),
        vacuous={fault.name: None for fault in made.faults},
    )


def all_evidence(made: Experiment, **by_variant: Mapping[str, int]) -> list[Evidence]:
    """Evidence of every planned run: clean with deduplication, a duplicate block without, or as `by_variant` says."""
    switches = {variant.name: variant.deduplication == "Enabled" for variant in made.spec.variants}
    return [
        evidence(
            run,
            by_variant.get(run.variant, {} if switches[run.variant] else duplicates()),
            deduplication=switches[run.variant],
            spec_digest=made.digest(),
        )
        for run in plan(made)
    ]


def judged(counted: dict[str, int] | None = None, demand: Demand = EXACTLY_ONCE, **changes: Any) -> RunVerdict:
    """The verdict on the evidence of `RUN`."""
    return judge_run(evidence(RUN, counted, **changes), demand)


def codes(verdict: RunVerdict, of: Verdict | None = None) -> list[str]:
    return [reason.code for reason in verdict.reasons if of in (None, reason.verdict)]
