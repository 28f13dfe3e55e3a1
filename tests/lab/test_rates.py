"""How fast a run went: in a silence messages waited, and nothing is told that the clock does not hold."""

from pathlib import Path

import numpy as np
import pytest
from tests.builders import History, write_history

from dedup.judgement.latencies import Latency
from dedup.judgement.summaries import RunRow
from dedup.judgement.verdict_kinds import Verdict
from dedup.wire.manifests import FaultRecord
from dedup_report import captions
from dedup_report.latencies import Latencies
from dedup_report.rates import Rates, Recovery, Silence, rates_of

MS = 1_000_000
SENT = [(0, value) for value in range(1, 101)]
OK = [(0, value, 0, 0, 0, value, 0) for value in range(1, 101)]
SENDS = [(0, 50, 10 * MS), (0, 100, 20 * MS)]
CUT = FaultRecord(name="cut", kind="killTCP", requested_message=5, injected_ns=15 * MS, healed_ns=2_000 * MS)
RUN = RunRow(
    run_id="kafka-dedup-001", attempt=1, system="kafka", variant="dedup", run=1, verdict=Verdict.PASS, reasons=(),
    effective=True, void=False, counts=None,
)  # fmt: skip


def rates(folder: Path, clock: list[tuple[int, int, int]], *faults: FaultRecord, failed: int = 0) -> Rates | None:
    """`failed`: so many of the last outcomes are errors."""
    outcomes = [(*row[:2], int(row[1] > 100 - failed), *row[3:]) for row in OK]
    return rates_of(folder, write_history(folder, History(SENT, outcomes, clock=clock), faults=faults))


def test_a_time_without_an_acknowledgement_while_messages_wait_is_a_pause(tmp_path: Path) -> None:
    found = rates(tmp_path, [*SENDS, (1, 40, 30 * MS), (1, 100, 1_030 * MS)])
    assert found is not None and found.silences == (Silence(0.03, 1.03),)


def test_nothing_waits_between_two_messages_of_a_slow_producer(tmp_path: Path) -> None:
    found = rates(tmp_path, [(0, 50, 10 * MS), (1, 50, 30 * MS), (0, 100, 1_010 * MS), (1, 100, 1_030 * MS)])
    assert found is not None and not found.silences


def test_a_chunk_that_waited_for_room_has_no_tick_of_its_own_and_waited_all_the_same(tmp_path: Path) -> None:
    found = rates(tmp_path, [(0, 50, 10 * MS), (1, 50, 30 * MS), (0, 100, 1_030 * MS), (1, 100, 1_030 * MS)])
    assert found is not None and found.silences == (Silence(0.03, 1.03),)


def test_rows_count_where_they_were_noted_and_are_not_spread_over_the_pause(tmp_path: Path) -> None:
    found = rates(tmp_path, [*SENDS, (1, 40, 30 * MS), (1, 100, 1_200 * MS)])
    assert found is not None
    assert [round(rate * 0.01) for rate in found.acknowledged if rate] == [40, 60]


def test_an_error_is_no_acknowledgement(tmp_path: Path) -> None:
    clock = [*SENDS, (1, 40, 30 * MS), (1, 60, 500 * MS), (1, 100, 1_030 * MS)]
    found, twin = rates(tmp_path / "errors", clock, failed=60), rates(tmp_path / "twin", clock)
    assert found is not None and twin is not None
    assert (found.errors.sum(), found.acknowledged.sum()) == pytest.approx((60 / 1.03 * 120, 40 / 1.03 * 120))
    assert not twin.errors.any() and [silence.begin_s for silence in twin.silences] == [0.5]


def test_what_is_never_acknowledged_again_is_a_silence_to_the_end(tmp_path: Path) -> None:
    clock = [*SENDS, (1, 40, 30 * MS), (1, 100, 5_030 * MS)]
    found = rates(tmp_path / "lost", clock, CUT, failed=60)
    assert found is not None and found.silences == (Silence(0.03, 5.03, answered=False),)
    ((fault, seconds, answered),) = found.recoveries
    assert fault == "cut" and seconds == pytest.approx(5.015) and not answered
    told = " ".join(captions.of_timeline(found, "", RUN))
    assert "Longest silence: 5.00 s" in told and "lasted to the end, 5.02 s after its injection" in told
    twin = rates(tmp_path / "twin", clock, CUT)
    assert twin is not None and twin.silences == (Silence(0.03, 5.03),) and twin.recoveries[0].answered
    assert "ended 5.02 s after its injection" in " ".join(captions.of_timeline(twin, "", RUN))


def test_a_run_without_any_acknowledgement_is_one_silence(tmp_path: Path) -> None:
    found = rates(tmp_path, [*SENDS, (1, 100, 5_030 * MS)], failed=100)
    assert found is not None and found.silences == (Silence(0.01, 5.03, answered=False),)


def test_nothing_waits_before_the_last_send_of_a_slow_producer(tmp_path: Path) -> None:
    """The last messages have no outcome, as of a producer that was killed."""
    found = rates(tmp_path, [(0, 50, 10 * MS), (1, 50, 30 * MS), (0, 100, 1_010 * MS)])
    assert found is not None and not found.silences


def test_recovery_is_told_from_the_injection_to_the_end_of_the_last_pause(tmp_path: Path) -> None:
    clock = [*SENDS, (1, 40, 30 * MS), (1, 60, 1_030 * MS), (1, 100, 1_830 * MS)]
    found = rates(tmp_path / "cut", clock, CUT)
    assert found is not None
    ((fault, seconds, answered),) = found.recoveries
    assert fault == "cut" and seconds == pytest.approx(1.815) and answered
    later = CUT.model_copy(update={"injected_ns": 1_900 * MS})
    twin = rates(tmp_path / "twin", clock, later)
    assert twin is not None and twin.recoveries == (Recovery("cut", None),)


def test_a_fault_in_force_for_the_whole_run_has_no_recovery(tmp_path: Path) -> None:
    latency = CUT.model_copy(update={"name": "latency", "requested_message": None})
    found = rates(tmp_path, [*SENDS, (1, 100, 1_030 * MS)], latency)
    assert found is not None and not found.recoveries and [span.whole for span in found.spans] == [True]


@pytest.mark.parametrize(("messages", "n"), [(1, "(n = 1)"), (1_000_000, "(n = 1,000,000)")])
def test_percentiles_are_told_with_the_number_of_acknowledgements_that_they_are_of(messages: int, n: str) -> None:
    whole = Latency(messages=messages, p50_ms=2.0, p99_ms=2.0, max_ms=2.0)
    assert n in captions.of_latencies(Latencies(np.array([2.0]), np.array([2.0]), whole))


@pytest.mark.parametrize("clock", [[], [(0, 0, 0), (0, 100, 1)]], ids=["no tick", "one instant"])
def test_without_ticks_there_are_no_rates(clock: list[tuple[int, int, int]], tmp_path: Path) -> None:
    assert rates(tmp_path, clock or [(0, 0, 5)]) is None


def test_what_the_client_noticed_is_told_by_kind(tmp_path: Path) -> None:
    clock = [*SENDS, (1, 100, 1_030 * MS)]
    tmp_path.joinpath("disturbances.jsonl").write_text(
        '{"kind": "retry", "detail": "x", "monotonic_ns": 20000000}\n{"kind": "retry", "detail": "cut sh'
    )
    found = rates(tmp_path, clock)
    assert found is not None and found.noticed["retry"].tolist() == [0.02]
