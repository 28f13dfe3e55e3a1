"""The two files that S0's readers know, held against every line that S0 shows."""

from pathlib import Path
from typing import Final

import pytest
from tests.core.evidences import all_evidence, duplicates, evidence, experiment

from dedup.experiment.plans import plan
from dedup.judgement.anomalies import OrderEvent, Verification
from dedup.judgement.conclusions import conclude
from dedup.judgement.counts import Counts, Jump
from dedup.judgement.exports import (
    HEADER,
    Exported,
    closing_lines,
    dedup_line,
    dedup_output,
    export,
    order_line,
    order_output,
)

JUMPS: Final = [
    line.split()
    for line in (Path(__file__).parent / "s0_jumps.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
WORDS: Final = {
    "JF": "JUMP FORWARDS",
    "JB": "JUMP BACKWARDS",
    "DJF": "DUPLICATE BLOCK - JUMP FORWARDS",
    "DJB": "DUPLICATE BLOCK - JUMP BACKWARDS",
}


def event(jump: str, last: int, value: int, arrival: int = 0) -> OrderEvent:
    return OrderEvent(jump=Jump(jump), partition=0, stream=0, last=last, value=value, arrival=arrival)


def exported(
    counts: Counts, *events: OrderEvent, run: int = 1, deduplication: bool = False, total: int | None = None
) -> Exported:
    said = Verification(
        path="x", engine="spark", counts=counts, events=events, events_total=len(events) if total is None else total
    )
    return Exported(variant="v", deduplication=deduplication, run=run, verification=said)


def test_s0_shows_86_jumps() -> None:
    assert len(JUMPS) == 86


@pytest.mark.parametrize(("run", "jump", "size", "last", "value"), JUMPS)
def test_every_jump_that_s0_shows(run: str, jump: str, size: str, last: str, value: str) -> None:
    line = order_line(int(run), event(jump, int(last), int(value)))
    assert line == f"Test run: {run} {WORDS[jump]} {size} ({last} -> {value})"


@pytest.mark.parametrize(
    ("last", "value", "jump", "line"),
    [
        (87108, 85327, "JB", "Test run: 1 JUMP BACKWARDS 1781 (87108 -> 85327)"),
        (85326, 83545, "DJB", "Test run: 1 DUPLICATE BLOCK - JUMP BACKWARDS 1781 (85326 -> 83545)"),
        (83544, 87109, "JF", "Test run: 1 JUMP FORWARDS 3565 (83544 -> 87109)"),
        (101000, 91001, "DJB", "Test run: 1 DUPLICATE BLOCK - JUMP BACKWARDS 9999 (101000 -> 91001)"),
        (3, 7, "DJF", "Test run: 1 DUPLICATE BLOCK - JUMP FORWARDS 4 (3 -> 7)"),
        (5, 5, "DJB", "Test run: 1 DUPLICATE BLOCK - JUMP BACKWARDS 0 (5 -> 5)"),
    ],
)
def test_a_line_of_each_kind_in_full(last: int, value: int, jump: str, line: str) -> None:
    assert order_line(1, event(jump, last, value)) == line


def test_the_worked_example_has_s0s_sizes() -> None:
    story = [("JF", 10, 30), ("JB", 40, 15), ("JB", 29, 11), ("DJB", 14, 5), ("DJB", 10, 2), ("JF", 4, 41)]
    lines = [order_line(1, event(*each)) for each in story]
    assert [int(line.split(" (")[0].split()[-1]) for line in lines] == [20, 25, 18, 9, 8, 37]


@pytest.mark.parametrize(
    "line",
    [
        "false,1,1000000,1000000,1000000,0,1009000,0,0,9000,0,1,0,0",
        "false,3,1000000,1000000,1000000,0,1000000,0,0,0,0,0,0,0",
        "false,8,1000000,1000000,1000000,0,1006619,0,0,6619,0,8,8,8",
        "false,1,1000000,1000000,1000000,0,1000819,0,0,819,0,1,1,3",
        "true,50,1000000,1000000,1000000,0,1000000,0,0,0,0,0,0,0",
        "false,7,1,2,3,4,5,6,7,8,9,10,11,12",
    ],
)
def test_a_line_of_the_csv(line: str) -> None:
    enabled, run, *numbers = line.split(",")
    names = [
        "send",
        "ack",
        "positive_ack",
        "negative_ack",
        "received",
        "not_received",
        "received_no_ack",
        "values_with_duplicates",
        "duplicate_jump_forward",
        "duplicate_jump_backward",
        "jump_forward",
        "jump_backward",
    ]
    counts = Counts(**dict(zip(names, map(int, numbers), strict=True)))
    assert dedup_line(exported(counts, run=int(run), deduplication=enabled == "true")) == line


def test_the_header_is_s0s() -> None:
    columns = "DedupEnabled TestRun SendCount AckCount PosAckCount NegAckCount Received NotReceived ReceivedNoAck"
    assert HEADER.split(",") == [*columns.split(), "MsgsWithDups", "DJF", "DJB", "JF", "JB"]
    assert dedup_output([]) == HEADER + "\n"


def test_what_the_script_printed_at_the_end_of_a_run() -> None:
    """The example that S0 gives, with its line for what was sent."""
    counts = Counts(
        send=1_000_000,
        ack=1_000_000,
        positive_ack=1_000_000,
        received=1_000_000,
        values_with_duplicates=1376,
        duplicate_jump_forward=4,
        duplicate_jump_backward=4,
        jump_forward=4,
    )
    numbers = dict(line.split(": ") for line in closing_lines(counts))
    assert numbers == {
        "Final send count": "1000000",
        "Final ack count": "1000000",
        "Final positive ack count": "1000000",
        "Final negative ack count": "0",
        "Messages received": "1000000",
        "Acked messages missing": "0",
        "Non-acked messages received": "0",
        "Duplicates": "1376",
        "Duplicate Jump Forward": "4",
        "Duplicate Jump Back": "4",
        "Non-Duplicate Jump Forward": "4",
        "Non-Duplicate Jump Back": "0",
    }


def test_a_list_of_jumps_that_was_cut_off_says_so() -> None:
    jumps = [event("JF", 1, 3), event("DJB", 3, 2)]
    assert order_output([exported(Counts(), *jumps)]).count("\n") == 2
    cut_off = order_output([exported(Counts(), *jumps, total=3, run=4)])
    assert cut_off.endswith("(3 -> 2)\nTest run: 4 ONLY THE FIRST 2 OF 3 JUMPS ARE LISTED\n")


def test_one_system_has_one_pair_of_files_with_the_control_first() -> None:
    made = experiment(runs=3)
    found = all_evidence(made)
    files = export(made, conclude(made, found).runs, found)
    assert set(files) == {"trial_dedup_output.txt", "trial_order_output.txt"}
    assert files["trial_dedup_output.txt"].splitlines() == [
        HEADER,
        *(f"false,{run},1000,1000,1000,0,1050,0,0,50,0,1,0,0" for run in (1, 2, 3)),
        *(f"true,{run},1000,1000,1000,0,1000,0,0,0,0,0,0,0" for run in (1, 2, 3)),
    ]
    assert files["trial_order_output.txt"].splitlines() == [
        f"Test run: {run} DUPLICATE BLOCK - JUMP BACKWARDS 100 (500 -> 400)" for run in (1, 2, 3)
    ]


def test_each_of_several_systems_has_its_own_pair() -> None:
    made = experiment(systems=[{"name": "kafka", "kafka": {}}, {"name": "old", "kafka": {"version": "4.0.0"}}])
    found = [each for each in all_evidence(made) if each.run_id.startswith("kafka")]
    files = export(made, conclude(made, found).runs, found)
    assert sorted(files) == [
        "trial-kafka_dedup_output.txt",
        "trial-kafka_order_output.txt",
        "trial-old_dedup_output.txt",
        "trial-old_order_output.txt",
    ]
    assert files["trial-kafka_dedup_output.txt"].count("\n") == 5
    assert files["trial-old_dedup_output.txt"] == HEADER + "\n"
    assert files["trial-old_order_output.txt"] == ""


def test_variants_of_one_setting_are_told_apart_by_their_files() -> None:
    variants = [
        {"name": "control", "deduplication": "Disabled", "expect": "Duplicates"},
        {"name": "strict", "deduplication": "Enabled", "expect": "ExactlyOnce"},
        {"name": "lax", "deduplication": "Enabled", "expect": "AtLeastOnce"},
    ]
    made = experiment(variants=variants, runs=1)
    found = all_evidence(made)
    files = export(made, conclude(made, found).runs, found)
    assert {name: text.count("\n") for name, text in files.items() if "dedup" in name.split("_")[1]} == {
        "trial-control_dedup_output.txt": 2,
        "trial-strict_dedup_output.txt": 2,
        "trial-lax_dedup_output.txt": 2,
    }


def test_a_void_run_is_left_out() -> None:
    made = experiment(runs=1)
    runs = {run.variant: run for run in plan(made)}
    control = evidence(runs["control"], duplicates(), deduplication=False, spec_digest=made.digest())
    void = evidence(runs["dedup"], {"position_conflicts": 1}, spec_digest=made.digest())
    files = export(made, conclude(made, [control, void]).runs, [control, void])
    assert files["trial_dedup_output.txt"].splitlines() == [HEADER, "false,1,1000,1000,1000,0,1050,0,0,50,0,1,0,0"]
