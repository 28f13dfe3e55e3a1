"""S0's tables made again: the experiments have its settings, and the page says on how many runs each figure rests."""

import subprocess
from pathlib import Path
from typing import Final

import pytest
from testbed import experiments
from testbed.s0.batches import KEPT, Batch, Run, missing, of_summary, place, read
from testbed.s0.pages import CONTROL, figures, p_value, page
from testbed.s0.tables import RUNS, TABLES, Figures, experiment
from tests.core.evidences import all_evidence
from tests.core.evidences import experiment as small

from dedup.errors import EvidenceError
from dedup.experiment.statistics import fisher_two_sided
from dedup.judgement.conclusions import conclude
from dedup.judgement.summaries import Summary, summarise
from dedup.judgement.verdicts import Verdict

KILL_TCP: Final = TABLES["kafka-kill-tcp"]
PAGE: Final = KEPT.parent / "s0.md"


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: str(table.name))
def test_a_batch_is_the_example_with_fewer_runs_and_its_own_seed(table: object) -> None:
    assert isinstance(table, type(KILL_TCP))
    first, second = experiment(table, 1), experiment(table, 2)
    workload, (system,) = first.spec.workload, first.spec.systems
    assert (workload.messages, workload.in_flight, first.spec.faults[0].at.message) == (1_000_000, 10_000, 50_000)
    assert {variant.name for variant in first.spec.variants} == {CONTROL, "dedup"}
    assert first.digest() != second.digest() and first.name != second.name
    if system.protocol == "kafka":
        assert (system.library, system.client.properties) == ("kafka-java", {"batch.size": "16384"})


def run(variant: str, values: int = 0, *, effective: bool = True, not_received: int = 0) -> Run:
    return Run(
        variant=variant,
        effective=effective,
        received=1_000_000 + values,
        values=values,
        duplicate_jumps=3 if values else 0,
        jumps_forward=0,
        jumps_backward=1 if values else 0,
        not_received=not_received,
    )


def batch(*runs: Run, table: str = "kafka-kill-tcp", number: int = 1, load: float | None = None) -> Batch:
    told = {"kafka-java": "kafka-clients 4.3.1"}
    return Batch(
        table=table,
        batch=number,
        spec_digest="0" * 64,
        verdict=Verdict.PASS,
        recorded=(None, None),
        versions=told,
        load=load,
        runs=runs,
    )


def test_the_page_has_each_figure_with_its_n_and_the_rate_with_its_p() -> None:
    controls = [run(CONTROL, 4000), run(CONTROL, 2000), run(CONTROL), run(CONTROL, 9, effective=False)]
    found = page([batch(*controls, run("dedup"), run("dedup"))])
    own = found.partition("## kafka-kill-tcp")[2].partition("## ")[0]
    assert "S0 (n = 50) | here (n = 3)" in own
    assert "| runs with duplicates | 45 of 50 | 2 of 3; p = " in own
    assert "| values read more than once, a run | 4,977.9 | 2,000.0 |" in own
    assert "here: 0 of 2 with any, or a loss." in own
    assert "Runs that were not effective, and are in none of these figures: 1 of 6." in own
    assert "Recorded with kafka-java kafka-clients 4.3.1." in own
    assert found.count("Here: not made yet, 0 runs.") == 3


def test_the_page_says_how_busy_the_machine_was_where_that_is_known() -> None:
    known = page([batch(run(CONTROL)), batch(run(CONTROL), number=2, load=1.5), batch(run(CONTROL), number=3, load=4)])
    assert "Load of the machine: 1.5 to 4 a processor." in known
    assert "Load of the machine" not in page([batch(run(CONTROL))])


def test_a_client_is_named_once_whichever_way_its_version_was_kept() -> None:
    kept = ("3.13.0 and pulsar-client 3.13.0", "pulsar-client 3.13.0", "3.13.0 and 3.14.0")
    older, newer, two = ({"versions": {"pulsar-client": told}} for told in kept)
    own = [batch(run(CONTROL), number=number).model_copy(update=told) for number, told in enumerate((older, newer), 1)]
    assert "\nRecorded with pulsar-client 3.13.0.\n" in page(own)
    own.append(own[0].model_copy(update=two))
    assert "\nRecorded with pulsar-client 3.13.0, pulsar-client 3.13.0 and 3.14.0.\n" in page(own)


def test_a_persons_remarks_stand_below_their_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.s0.pages.KEPT", tmp_path)
    (tmp_path / "kafka-kill-tcp").mkdir()
    (tmp_path / "kafka-kill-tcp" / "remarks.txt").write_text("Ours has more.\n")
    own = page([batch(run(CONTROL))]).partition("## kafka-kill-tcp")[2]
    assert "Ours has more." in own.partition("## ")[0]


def test_where_no_run_was_effective_there_is_no_rate_and_no_p() -> None:
    missed = page([batch(run(CONTROL, 1, effective=False), run("dedup", effective=False))])
    own = missed.partition("## kafka-kill-tcp")[2].partition("## ")[0]
    assert "| runs with duplicates | 45 of 50 | no run |" in own and "p = " not in own
    assert "here: no run." in own and "are in none of these figures: 2 of 2." in own


def test_a_loss_or_a_copy_with_deduplication_is_told() -> None:
    found = page([batch(run(CONTROL, 1), run("dedup", 1), run("dedup", not_received=1), run("dedup"))])
    assert "here: 2 of 3 with any, or a loss." in found


def test_a_run_with_deduplication_whose_fault_missed_counts_for_nothing_and_what_it_did_is_told() -> None:
    missed = run("dedup", effective=False)
    assert "here: 0 of 1 with any" in page([batch(run(CONTROL, 1), run("dedup"), missed)])
    found = page([batch(run(CONTROL, 1), run("dedup"), missed, run("dedup", 1, effective=False))])
    assert (
        "here: 0 of 1 with any" in found and "Of these, with deduplication and with duplicates or a loss: 1." in found
    )
    assert "Of these, with deduplication" not in page([batch(run(CONTROL, 1), run(CONTROL, 1, effective=False))])


def test_p_is_that_of_dedup_compare() -> None:
    of, ours = KILL_TCP.of_s0, Figures(35, 35, 0, 0, 0, 0)
    assert p_value(of, ours) == float(fisher_two_sided(45, 50, 35, 35)) < 0.1


def test_equal_rates_do_not_differ_and_opposite_ones_do() -> None:
    of = KILL_TCP.of_s0
    assert p_value(of, Figures(RUNS, 45, 0, 0, 0, 0)) == 1.0
    assert p_value(of, Figures(RUNS, 0, 0, 0, 0, 0)) < 1e-20
    assert p_value(of, figures([])) == 1.0


def summary(**changes: object) -> Summary:
    made = small()
    evidence = all_evidence(made)
    return summarise(made, conclude(made, evidence), evidence).model_copy(update=changes)


def test_what_is_kept_is_what_the_summary_says() -> None:
    told = summary()
    kept = of_summary(KILL_TCP, 3, told)
    assert (kept.table, kept.batch, kept.spec_digest) == ("kafka-kill-tcp", 3, told.spec_digest)
    assert len(kept.runs) == len(told.runs)
    values = {each.variant: each.values for each in kept.runs}
    assert values == {row.variant: row.counts.values_with_duplicates for row in told.runs if row.counts is not None}
    assert values["control"] > 0 == values["dedup"]


def test_a_batch_in_which_a_run_has_no_counts_or_is_an_error_is_not_kept() -> None:
    rows = summary().runs
    for change in ({"counts": None}, {"verdict": Verdict.ERROR}):
        wrong = summary(runs=(rows[0].model_copy(update=change), *rows[1:]))
        with pytest.raises(EvidenceError, match=f"nothing to rely on of {rows[0].run_id}"):
            of_summary(KILL_TCP, 1, wrong)


def test_what_is_kept_is_not_made_again_and_is_read_back(tmp_path: Path) -> None:
    kept = place(KILL_TCP, 2, tmp_path, tmp_path).kept
    kept.parent.mkdir()
    todays = batch(run(CONTROL), number=2).model_copy(update={"spec_digest": experiment(KILL_TCP, 2).digest()})
    kept.write_text(todays.model_dump_json())
    assert list(missing(KILL_TCP, 3, tmp_path)) == [1, 3]
    assert [each.batch for each in read(tmp_path)] == [2]
    kept.with_name("batch-03.json").write_text(todays.model_dump_json())
    with pytest.raises(EvidenceError, match="it is another one's file"):
        read(tmp_path)
    kept.with_name("batch-03.json").unlink()
    kept.write_text(todays.model_copy(update={"spec_digest": "0" * 64}).model_dump_json())
    with pytest.raises(EvidenceError, match="it is of another experiment than today's"):
        read(tmp_path)
    kept.write_text(batch(table="pulsar-kill-tcp").model_dump_json())
    with pytest.raises(EvidenceError, match="lies in another table's folder"):
        read(tmp_path)


@pytest.mark.parametrize("todays", [True, False])
def test_what_lies_in_the_folder_of_another_experiment_is_not_taken_for_this_one(
    todays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `dedup run --resume` leaves it when it refuses to go on with another experiment."""
    made = experiment(KILL_TCP, 1)
    there = summary(spec_digest=made.digest() if todays else "0" * 64)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "summary.json").write_text(there.model_dump_json())
    ended = subprocess.CompletedProcess[bytes]([], 0 if todays else 4)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    document = made.model_dump(mode="json", by_alias=True, exclude_none=True)
    if todays:
        assert experiments.summed("batch 1", document, tmp_path / "out") == there
        return
    with pytest.raises(EvidenceError, match="batch 1: got the summary of another experiment"):
        experiments.summed("batch 1", document, tmp_path / "out")


def test_the_page_is_made_from_what_is_kept() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(read()), "make it again: python -m testbed.s0 --page"
