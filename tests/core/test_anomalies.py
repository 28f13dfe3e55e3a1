"""What a judge reports survives being written down, unchanged, and nothing else passes for it."""

import pytest
from pydantic import ValidationError

from dedup.judgement.anomalies import OrderEvent, Verification, Witness
from dedup.judgement.counts import Counts, Jump


def report() -> Verification:
    return Verification(
        path="runs/x",
        engine="spark",
        counts=Counts(send=3, ack=3, positive_ack=3, received=4, values_with_duplicates=1, duplicate_jump_backward=1),
        events=(OrderEvent(jump=Jump.DUPLICATE_BACKWARD, partition=0, stream=0, last=3, value=2, arrival=3),),
        events_total=1,
        witnesses=(Witness(anomaly="values_with_duplicates", stream=0, value=2, positions=("0/0:1:0", "0/0:3:0")),),
        block_lengths={1: 1},
        gaps=("partition 0, ledger 0: entries 4 to 4 were not read",),
    )


def test_a_report_comes_back_from_json_as_it_was() -> None:
    assert Verification.model_validate_json(report().model_dump_json()) == report()


def test_the_jumps_are_named_as_s0_names_them() -> None:
    assert [str(jump) for jump in Jump] == ["JF", "JB", "DJF", "DJB"]


def test_every_jump_has_a_count() -> None:
    assert {
        f"{'duplicate_' if 'D' in jump else ''}jump_{'forward' if 'F' in jump else 'backward'}" for jump in Jump
    } <= set(Counts.model_fields)


def test_a_history_of_nothing_counts_nothing() -> None:
    assert set(Counts().model_dump().values()) == {0}


@pytest.mark.parametrize("change", [{"lost": 1}, {"counts": {"sent": 1}}, {"events": [{"jump": "JX"}]}])
def test_a_report_of_another_version_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Verification.model_validate(report().model_dump() | change)


def test_a_report_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        report().counts.send = 0  # type: ignore[misc]
