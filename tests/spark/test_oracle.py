"""The oracle against histories that a person checked with a pencil: each anomaly, and its innocent twin."""

import inspect
from pathlib import Path

import pytest
from tests.builders import Golden, History, golden_histories, write_history, write_pair

from dedup.history import histories, pairs
from dedup.judgement.anomalies import MAX_WITNESSES, Verification
from dedup.judgement.counts import Counts
from dedup.wire.manifests import FaultRecord
from dedup_spark import local, oracle


def said(verification: Verification) -> dict[str, object]:
    """A verification in the words of a golden file."""
    return {
        "counts": {name: number for name, number in verification.counts.model_dump().items() if number},
        "events": [f"{event.value} {event.jump} {abs(event.value - event.last)}" for event in verification.events],
        "blocks": verification.block_lengths,
        "gaps": list(verification.gaps),
        "hanging": list(verification.hanging),
    }


def witnesses_of(verification: Verification, anomaly: str) -> list[str]:
    return [
        f"{witness.stream}/{witness.value}" + (f" at {' '.join(witness.positions)}" if witness.positions else "")
        for witness in verification.witnesses
        if witness.anomaly == anomaly
    ]


@pytest.mark.parametrize("golden", golden_histories(), ids=lambda golden: golden.name)
def test_says_of_a_golden_history_what_its_story_says(golden: Golden, tmp_path: Path) -> None:
    manifest = write_history(tmp_path / "run", golden.history)
    assert histories.damages(tmp_path / "run", manifest) == []
    verification = oracle.judge(tmp_path / "run")
    expected: dict[str, object] = {"counts": {}, "events": [], "blocks": {}, "gaps": [], "hanging": []}
    expected |= {name: part for name, part in golden.expect.items() if name != "witnesses"}
    assert said(verification) == expected
    for anomaly, witnesses in golden.expect.get("witnesses", {}).items():
        assert witnesses_of(verification, anomaly) == witnesses


def test_every_count_is_raised_by_some_golden_history() -> None:
    raised = {name for golden in golden_histories() for name in golden.expect.get("counts", {})}
    assert raised == set(Counts.model_fields)


def test_names_the_lowest_witnesses_and_gaps_and_says_how_many_more(tmp_path: Path) -> None:
    """Every second of 40 entries was read: 20 gaps; and all 20 values are phantoms."""
    rows = [(i, 0, 0, 2 * i + 1, 0, 0, 20 - i) for i in range(20)]
    write_history(tmp_path / "run", History(received=rows))
    verification = oracle.judge(tmp_path / "run")
    assert [witness.value for witness in verification.witnesses if witness.anomaly == "phantom"] == list(range(1, 11))
    assert verification.gaps[0] == "partition 0, ledger 0: entries 0 to 0 were not read"
    assert len(verification.gaps) == MAX_WITNESSES + 1
    assert verification.gaps[-1] == "and 10 more"


SENT = [(0, value) for value in range(1, 7)]
TWICE = History(
    SENT,
    [(*message, 0, 0, 0, message[1] - 1, 0) for message in SENT],
    [(entry, 0, 0, entry, 0, 0, value) for entry, value in enumerate([1, 2, 3, 4, 5, 6, 3, 4])],
    clock=[(kind, index, 10 * index + 25 * kind) for kind in (0, 1) for index in range(7)],
)
"""3 and 4 are stored twice: sent from 20 and 30 on, told of until 55 and 65."""


@pytest.mark.parametrize(
    ("injected_ns", "healed_ns", "copies"),
    [(40, 50, 2), (60, 80, 1), (70, None, 0), (0, 19, 0), (0, 20, 1), (0, None, 2), (None, None, None)],
)
def test_copies_are_put_down_to_the_fault_in_whose_time_they_were_under_way(
    injected_ns: int | None, healed_ns: int | None, copies: int | None, tmp_path: Path
) -> None:
    cut = FaultRecord(name="cut", kind="killTCP", requested_message=1, injected_ns=injected_ns, healed_ns=healed_ns)
    always = FaultRecord(name="latency", kind="latency", requested_message=None, injected_ns=0, healed_ns=90)
    write_history(tmp_path, TWICE, faults=(cut, always))
    said, (other,) = oracle.judge(tmp_path), local.verify([tmp_path]).runs
    assert said.counts.values_with_duplicates == 2
    assert said.copies_during == other.copies_during == ({} if copies is None else {"cut": copies})


def test_without_a_tick_of_the_clock_no_copy_is_put_down_to_a_fault(tmp_path: Path) -> None:
    """A CSV pair has no times: its copies seemed under way in the time of every fault, and a control convinced by them.

    The twin is the first case above: the same history, with its clock.
    """
    cut = FaultRecord(name="cut", kind="killTCP", requested_message=1, injected_ns=40, healed_ns=50)
    write_pair(tmp_path / "pair", TWICE)
    pairs.unpack(tmp_path / "pair", tmp_path / "run")
    manifest = histories.read_manifest(tmp_path / "run").model_copy(update={"faults": (cut,)})
    (tmp_path / "run" / histories.MANIFEST).write_text(manifest.model_dump_json())
    said, (other,) = oracle.judge(tmp_path / "run"), local.verify([tmp_path / "run"]).runs
    assert said.counts.values_with_duplicates == 2
    assert said.copies_during == other.copies_during == {"cut": 0}


@pytest.mark.parametrize("holes", [(2, 5, 6), (6, 5, 2)])
def test_holes_are_the_same_in_whatever_order_a_manifest_names_them(holes: tuple[int, ...], tmp_path: Path) -> None:
    """The engine took those that were out of order for gaps that overlap, so the two judges disagreed."""
    received = [(0, 0, 0, 0, 0, 0, 1), (1, 0, 0, 9, 0, 0, 2)]
    write_history(tmp_path, History(received=received, ends={0: {0: 10}}, holes={0: holes}))
    (other,) = local.verify([tmp_path]).runs
    gaps = [f"partition 0, ledger 0: entries {entries} were not read" for entries in ("1 to 1", "3 to 4", "7 to 8")]
    assert list(oracle.judge(tmp_path).gaps) == list(other.gaps) == gaps


@pytest.mark.parametrize("name", Counts.model_fields)
def test_has_one_function_for_each_count_and_its_docstring_is_the_definition(name: str) -> None:
    assert (name in oracle.VALUES) != (name in oracle.NUMBERS)
    rule = (oracle.VALUES | oracle.NUMBERS)[name]
    assert rule is getattr(oracle, name)
    assert rule.__doc__
    assert len(inspect.getsource(rule).splitlines()) <= 20


@pytest.mark.parametrize("segment_rows", [1, 3, 100])
def test_says_between_which_values_each_stream_sent_and_so_does_the_local_engine(
    segment_rows: int, tmp_path: Path
) -> None:
    """In any order and with gaps; a stream that sent nothing is not there."""
    sent = [(0, 5), (3, 1), (0, 2), (0, 3), (3, 2), (3, 3), (0, 9)]
    write_history(tmp_path / "run", History(sent, [], []), segment_rows=segment_rows)
    assert oracle.judge(tmp_path / "run").sent == {0: (2, 9), 3: (1, 3)}
    (said,) = local.verify([tmp_path / "run"]).runs
    assert said.sent == {0: (2, 9), 3: (1, 3)}


def test_of_nothing_sent_there_are_no_bounds(tmp_path: Path) -> None:
    write_history(tmp_path / "run", History(), empty=True)
    assert oracle.judge(tmp_path / "run").sent == {}
    (said,) = local.verify([tmp_path / "run"]).runs
    assert said.sent == {}
