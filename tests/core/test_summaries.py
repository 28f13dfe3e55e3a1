"""The summary adds no judgement: it is the verdict, the counts and the manifests, laid out."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.evidences import CUT, MESSAGES, all_evidence, counts, duplicates, evidence, experiment

from dedup.experiment.plans import plan
from dedup.judgement import tables
from dedup.judgement.anomalies import OrderEvent
from dedup.judgement.conclusions import conclude
from dedup.judgement.counts import Counts, Jump
from dedup.judgement.summaries import COLUMNS, Bin, Summary, cells, histogram, run_row, summarise, total
from dedup.judgement.verdicts import Code, Evidence, demand_of, judge_run
from dedup.wire.manifests import Machine, Manifest


def summary(found: list[Evidence] | None = None) -> Summary:
    made = experiment()
    shown = all_evidence(made) if found is None else found
    return summarise(made, conclude(made, shown), shown)


def test_a_summary_comes_back_from_json_as_it_was() -> None:
    assert Summary.model_validate_json(summary().model_dump_json()) == summary()


def test_what_people_ask_first_is_at_the_top() -> None:
    document = json.loads(summary().model_dump_json())
    assert (document["experiment"], document["verdict"], document["exit_code"]) == ("trial", "pass", 0)
    assert document["spec_digest"] == experiment().digest()
    assert len(document["reasons"]) == 2
    assert document["versions"] == {"kafka": {"broker": "4.3.1", "dedup": "0.1.0", "confluent-kafka": "2.16.0"}}


def told_client(**by_variant: str) -> str:
    """What the summary says of the client, where the tester's own is 2.16.1 and these versions sent."""
    made, found = experiment(), []
    for each in all_evidence(made):
        assert each.manifest is not None
        sender = each.manifest.producer.model_copy(update={"library_version": by_variant[each.manifest.variant]})
        update = {"producer": sender, "versions": {"confluent-kafka": "2.16.1"}}
        found.append(each.model_copy(update={"manifest": each.manifest.model_copy(update=update)}))
    return summary(found).versions["kafka"]["confluent-kafka"]


def test_the_version_of_a_client_is_that_which_sent_and_not_the_one_that_asks_brokers() -> None:
    assert told_client(control="confluent-kafka 2.3.0", dedup="confluent-kafka 2.3.0") == "confluent-kafka 2.3.0"
    assert told_client(control="confluent-kafka 2.16.1", dedup="confluent-kafka 2.16.1") == "confluent-kafka 2.16.1"


@pytest.mark.parametrize("control", ["2.3.0", "2.16.1"])
def test_versions_of_several_variants_are_all_told_in_one_order(control: str) -> None:
    other = {"2.3.0": "2.16.1", "2.16.1": "2.3.0"}[control]
    assert told_client(control=control, dedup=other) == "2.16.1 and 2.3.0"


def test_a_row_for_each_variant() -> None:
    control, treatment = summary().systems
    assert (control.variant, control.deduplication, control.runs_with_copies, control.strength) == (
        "control",
        False,
        2,
        None,
    )
    assert control.sums.values_with_duplicates == 100
    assert control.sums.received == 2 * (MESSAGES + 50)
    assert control.block_lengths == (Bin(first=32, last=63, blocks=2),)
    assert (treatment.sums.send, treatment.sums.values_with_duplicates, treatment.block_lengths) == (
        2 * MESSAGES,
        0,
        (),
    )
    assert treatment.strength == (
        "2 clean effective runs: fewer than 77.7% of runs go wrong (95 % confidence, if runs are independent)"
    )
    assert treatment.rate_bound == pytest.approx(0.7764, abs=1e-4)


def test_a_summary_that_lost_the_runs_of_a_treatment_has_no_merits_of_it() -> None:
    """Nobody but an editor writes one; each report shows what is there."""
    whole = summary()
    kept = tuple(run for run in whole.runs if run.variant != "dedup")
    assert [each.heading for each in tables.merits(whole)] == ["kafka-dedup-002, as every run of kafka dedup:"]
    assert list(tables.merits(whole.model_copy(update={"runs": kept}))) == []


def test_a_row_for_each_run() -> None:
    row = next(row for row in summary().runs if row.run_id == "kafka-dedup-001")
    assert (row.verdict, row.effective, row.void, row.deduplication_in_force) == ("pass", True, False, True)
    assert row.counts == counts()
    (fault,) = row.faults
    assert (fault.name, fault.requested_message, fault.actual_message, fault.seconds) == ("cut", 100, 120, 2.5)
    assert (fault.vacuous, fault.target, fault.client_witness) == (None, "broker 1", {"disconnect": 2})


def test_the_time_that_is_ours_leaves_out_producing_healing_and_consuming() -> None:
    row = summary().runs[0]
    assert row.stage_seconds["produce"] == 3.0
    assert row.fixed_seconds == 0.5 + 0.25 + 0.125


def recorded(each: Evidence, at: str, host: str) -> Evidence:
    assert each.manifest is not None
    told = {"recorded_at": at, "machine": Machine(host=host, os="Linux-6.12-x86_64", java="17.0.12")}
    return each.model_copy(update={"manifest": each.manifest.model_copy(update=told)})


def test_times_and_machines_are_those_of_the_manifests() -> None:
    first, *rest, last = all_evidence(experiment())
    found = [
        recorded(first, "2026-11-21T12:00:00Z", "one"),
        *(recorded(e, "2026-11-21T12:05:00Z", "one") for e in rest),
    ]
    made = summary([*found, recorded(last, "2026-11-22T00:10:00Z", "two")])
    assert (made.first_recorded_at, made.last_recorded_at) == ("2026-11-21T12:00:00Z", "2026-11-22T00:10:00Z")
    assert [(each.host, each.java) for each in made.machines] == [("one", "17.0.12"), ("two", "17.0.12")]
    assert made.runs[0].recorded_at == "2026-11-21T12:00:00Z"


def test_what_older_manifests_and_summaries_do_not_say_is_not_known() -> None:
    made = summary()
    assert (made.first_recorded_at, made.last_recorded_at, made.machines) == (None, None, ())
    new = {"first_recorded_at", "last_recorded_at", "machines"}, {"recorded_at", "expectation", "judges"}
    older = made.model_dump(mode="json", exclude={**dict.fromkeys(new[0], True), "runs": {"__all__": new[1]}})
    assert Summary.model_validate(older).verdict == made.verdict
    manifest = all_evidence(experiment())[0].manifest
    assert manifest is not None
    assert Manifest.model_validate(manifest.model_dump(exclude={"recorded_at", "machine"})) == manifest


def test_each_run_says_what_it_was_held_against_and_who_judged_it() -> None:
    row = next(row for row in summary().runs if row.run_id == "kafka-dedup-001")
    assert (row.expectation, row.judges) == ("ExactlyOnce", ("spark", "oracle"))


def test_a_missing_run_has_a_row_with_nothing_in_it() -> None:
    made = experiment()
    missing, *rest = all_evidence(made)
    row = next(row for row in summary(rest).runs if row.run_id == missing.run_id)
    assert (row.verdict, row.counts, row.path, row.faults, row.fixed_seconds) == ("error", None, None, (), None)
    unfinished = Evidence(run_id=missing.run_id, problem="it crashed")
    row = next(row for row in summary([unfinished, *rest]).runs if row.run_id == missing.run_id)
    assert (row.counts, row.stage_seconds) == (None, {})


def test_sums_leave_out_a_void_run_and_say_so() -> None:
    made = experiment()
    run = next(run for run in plan(made) if run.run_id == "kafka-dedup-001")
    void = evidence(run, {**duplicates(), "position_conflicts": 1}, spec_digest=made.digest())
    found = [void, *(each for each in all_evidence(made) if each.run_id != run.run_id)]
    treatment = summary(found).systems[1]
    assert (treatment.runs, treatment.runs_summed, treatment.sums.values_with_duplicates) == (2, 1, 0)
    rows = {row.heading: row.cells for row in tables.sums(summary(found).systems)}
    assert rows["runs in these sums"] == ("2", "1 of 2")
    assert "runs in these sums" not in {row.heading for row in tables.sums(summary().systems)}


def test_duplicates_of_a_run_that_is_not_effective_are_not_called_those_of_an_effective_one() -> None:
    made = experiment()
    missed = [
        evidence(run, duplicates(), deduplication=run.variant != "control", spec_digest=made.digest()).model_copy(
            update={"vacuous": {"cut": "no client noticed it"}}
        )
        for run in plan(made)
    ]
    rows = {row.heading: row.cells for row in tables.sums(summary(missed).systems)}
    assert (rows["effective runs"], rows["duplicates"]) == (("0 of 2", "0 of 2"), ("100", "100"))
    assert rows["effective runs with duplicates"] == ("0", "0")


def test_a_fault_without_an_end_has_no_length() -> None:
    made = experiment()
    run = plan(made)[0]
    never = evidence(run, faults=(CUT.model_copy(update={"healed_ns": None}),))
    row = run_row(judge_run(never, demand_of(made, run)), never)
    assert row.faults[0].seconds is None


def test_the_columns_are_s0s_and_each_is_a_count() -> None:
    assert list(COLUMNS) == [
        *("send", "ack", "positive", "negative", "received", "missing", "unacked received", "duplicates"),
        *("DJF", "DJB", "JF", "JB"),
    ]
    assert set(COLUMNS.values()) <= set(Counts.model_fields)


def test_cells_show_the_counts_or_dashes() -> None:
    shown = cells(counts(**duplicates(), negative_ack=3))
    assert shown == ["1,000", "1,000", "1,000", "3", "1,050", "0", "0", "50", "0", "1", "0", "0"]
    assert cells(None) == ["-"] * len(COLUMNS)


@pytest.mark.parametrize(
    ("lengths", "bins"),
    [
        ({}, []),
        ({1: 5}, [(1, 1, 5)]),
        ({1: 5, 2: 1, 3: 2}, [(1, 1, 5), (2, 3, 3)]),
        ({9_999: 1}, [(8_192, 16_383, 1)]),
        ({3: 1, 16: 2}, [(2, 3, 1), (4, 7, 0), (8, 15, 0), (16, 31, 2)]),
    ],
)
def test_block_lengths_in_bins_that_double(lengths: dict[int, int], bins: list[tuple[int, int, int]]) -> None:
    assert [(each.first, each.last, each.blocks) for each in histogram(lengths)] == bins


@given(st.dictionaries(st.integers(1, 10**7), st.integers(1, 100)))
def test_no_block_is_lost_and_the_bins_touch(lengths: dict[int, int]) -> None:
    bins = histogram(lengths)
    assert sum(each.blocks for each in bins) == sum(lengths.values())
    assert all(left.last + 1 == right.first for left, right in pairwise(bins))
    for each in bins:
        assert each.blocks == sum(n for length, n in lengths.items() if each.first <= length <= each.last)


def test_the_total_of_counts() -> None:
    assert total([counts(), counts(**duplicates())]) == Counts(
        **{name: getattr(counts(), name) + getattr(counts(**duplicates()), name) for name in Counts.model_fields}
    )
    assert total([]) == Counts()


@pytest.mark.parametrize(("arrival", "place"), [(0, "1"), (1_999, "2,000")])
def test_messages_that_were_read_are_told_from_the_first_on(arrival: int, place: str) -> None:
    """A history counts arrivals from 0: the first message was called "message 0 of all that were read"."""
    jump = OrderEvent(jump=Jump.BACKWARD, partition=1, stream=0, last=5, value=2, arrival=arrival)
    assert tables.backward(jump) == f"JB from 0/5 to 0/2 in partition 1, as message {place} of all that were read"


@pytest.mark.parametrize("doubtful", ["kafka-dedup-001", None])
def test_the_reasons_of_one_run_are_those_of_every_run_only_if_they_are(doubtful: str | None) -> None:
    """A run without a doubt stood for all, though another one had sends of which no loss can be told."""
    made = experiment()
    one = {"unknown": 1, "positive_ack": MESSAGES - 1, "ack": MESSAGES - 1, "received_no_ack": 1}
    run = next(run for run in plan(made) if run.run_id == "kafka-dedup-001")
    other = evidence(run, one, spec_digest=made.digest())
    (told,) = tables.merits(summary([other if each.run_id == doubtful else each for each in all_evidence(made)]))
    assert any(reason.code == Code.UNCERTAIN_SENDS for reason in told.reasons) is bool(doubtful)
    assert told.heading == (
        "kafka-dedup-001, of which more is to be said than of other runs of kafka dedup:"
        if doubtful
        else "kafka-dedup-002, as every run of kafka dedup:"
    )
