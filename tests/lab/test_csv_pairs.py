"""`dedup verify` of histories that people bring: what may pass, what stands, and what one judge alone may say.

Each pair is judged by the oracle alone, which needs no Java; that Spark says the same is tested at the end.
"""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from tests.builders import History, golden_histories, write_history, write_pair
from tests.core.test_pairs import DAMAGED, EXPRESSIBLE, manifest_for, pair
from tests.lab.conftest import Command, one_line

from dedup.judgement.counts import Counts
from dedup.judgement.summaries import Summary
from dedup.judgement.verdicts import WORDS
from dedup_lab import judging, oracles
from dedup_spark.opinions import second_opinion

ISSUE = (
    "send, ack, positive_ack, negative_ack, received, not_received, received_no_ack, values_with_duplicates, "
    "extra_copies, phantom, failed_but_received, jump_forward, jump_backward, duplicate_jump_forward, "
    "duplicate_jump_backward"
)
ONE = History(sent=[(0, 1)], outcomes=[(0, 1, 0, 0, 0, 0, 0)], received=[(0, 0, 0, 0, 0, 0, 1)])
CLEAN = ("value,outcome\n1,ok\n2,ok\n3,ok\n", "partition,position,value\n0,0,1\n0,1,2\n0,2,3\n")


def judged(dedup: Command, *arguments: object) -> tuple[int, dict[str, Any]]:
    said = dedup("verify", *arguments, "--format", "json", "--engine", "oracle")
    assert "Traceback" not in said.err
    return said.code, json.loads(said.out)


def only(document: dict[str, Any]) -> dict[str, Any]:
    """The one run, its reasons in words."""
    (run,) = document["runs"]
    assert document["verdict"] == run["verdict"]
    return {**run, "reasons": [reason["text"] for reason in run["reasons"]]}


# Trust.


def test_a_clean_pair_without_a_manifest_is_inconclusive(dedup: Command, tmp_path: Path) -> None:
    code, document = judged(dedup, pair(tmp_path, *CLEAN))
    run = only(document)
    assert (code, run["verdict"], run["path"]) == (3, "inconclusive", str(tmp_path))
    assert ["without a manifest" in reason for reason in run["reasons"]] == [True]


def test_it_passes_if_it_is_trusted_and_says_on_what(dedup: Command, tmp_path: Path) -> None:
    code, document = judged(dedup, pair(tmp_path, *CLEAN), "--trust-csv")
    assert (code, only(document)["verdict"]) == (0, "pass")
    assert only(document)["reasons"][1:] == [
        "nothing says that there was a fault: it says nothing about failures",
        "it came without a manifest, and was taken at its word as asked",
        "the oracle alone judged, as asked",
    ]


def test_it_passes_with_a_manifest_that_proves_what_the_files_do_not(dedup: Command, tmp_path: Path) -> None:
    manifest_for(pair(tmp_path, *CLEAN), deduplication={"asked": True, "in_force": True, "proof": "the broker's word"})
    code, document = judged(dedup, tmp_path)
    assert (code, only(document)["verdict"]) == (0, "pass")
    assert "deduplication on, as asked: the broker's word" in only(document)["reasons"]


def test_a_manifest_that_proves_nothing_is_an_error(dedup: Command, tmp_path: Path) -> None:
    """Trust is for pairs without a manifest: this one says itself that deduplication was not proven."""
    manifest_for(pair(tmp_path, *CLEAN))
    code, document = judged(dedup, tmp_path, "--trust-csv")
    assert code == 4
    assert "could not be proven" in only(document)["reasons"][0]


@pytest.mark.parametrize("trust", [[], ["--trust-csv"]], ids=["bare", "trusted"])
def test_fail_stands_without_a_manifest(trust: list[str], dedup: Command, tmp_path: Path) -> None:
    code, document = judged(dedup, pair(tmp_path, CLEAN[0], CLEAN[1] + "0,3,3\n"), *trust)
    run = only(document)
    assert (code, run["verdict"], run["counts"]["values_with_duplicates"]) == (1, "fail", 1)
    assert any("0/3 at 0/0:2:0 0/0:3:0" in reason for reason in run["reasons"])
    assert not any("manifest" in reason for reason in run["reasons"])


FIVE = "1,ok 2,ok 3,ok 4,ok 5,ok"
ABSENT = {
    "not_received": (
        FIVE,
        "0,0,1 0,1,2 0,2,3",
        "2 values acknowledged and lost, such as 0/4; 0/5: this proves nothing",
    ),
    "phantom": ("1,ok 2,ok", "0,0,1 0,1,2 0,2,3", "1 value read and never sent, such as 0/3 at 0/0:2:0: this proves"),
    "failed_but_received": ("1,ok 2,fail", "0,0,1 0,1,2", "1 value read although their send provably failed, such as"),
}
"""What rests on rows that are not there: they may have been cut off."""


@pytest.mark.parametrize("anomaly", ABSENT)
def test_what_rests_on_absent_rows_accuses_only_if_the_files_are_trusted(
    anomaly: str, dedup: Command, tmp_path: Path
) -> None:
    """The first is a received.csv of five rows that was cut after the third."""
    sent, received, words = ABSENT[anomaly]
    folder = lines(tmp_path, sent, received)
    code, document = judged(dedup, folder)
    run = only(document)
    assert (code, run["verdict"]) == (3, "inconclusive")
    assert any(reason.startswith(words) and "--trust-csv" in reason for reason in run["reasons"])
    code, document = judged(dedup, folder, "--trust-csv")
    run = only(document)
    assert (code, run["verdict"], run["counts"][anomaly] > 0) == (1, "fail", True)
    assert not any("trust" in reason for reason in run["reasons"])


def test_copies_accuse_beside_a_loss_that_does_not(dedup: Command, tmp_path: Path) -> None:
    code, document = judged(dedup, lines(tmp_path, FIVE, "0,0,1 0,1,2 0,2,2"))
    assert (code, only(document)["verdict"]) == (1, "fail")
    copies, *_, lost = only(document)["reasons"]
    assert copies.startswith("1 value read more than once") and lost.startswith("3 values acknowledged and lost")


def test_a_sent_csv_without_its_first_rows_accuses_nobody_of_going_back(dedup: Command, tmp_path: Path) -> None:
    """The first message is below all that is known to be sent, which the rules of order call a jump back."""
    _, document = judged(dedup, lines(tmp_path / "cut", "4,ok 5,ok", "0,0,3 0,1,4 0,2,5"))
    assert (only(document)["verdict"], only(document)["counts"]["jump_backward"]) == ("inconclusive", 1)
    _, document = judged(dedup, lines(tmp_path / "back", "3,ok 4,ok 5,ok", "0,0,3 0,1,5 0,2,4"))
    assert (only(document)["verdict"], only(document)["counts"]["jump_backward"]) == ("fail", 1)


# Positions that are missing: transactions, compaction and retention make them in histories that are whole.


@pytest.mark.parametrize(
    "received",
    ["0,0,1 0,2,2 0,4,3", "0,5,1 0,6,2 0,7,3", "0,12:3:0,1 0,12:3:1,2 0,15:1:0,3"],
    ids=["transactions", "retention", "Pulsar"],
)
def test_missing_positions_are_nobodys_failure(received: str, dedup: Command, tmp_path: Path) -> None:
    folder = lines(tmp_path, "1,ok 2,ok 3,ok", received)
    assert only(judged(dedup, folder)[1])["verdict"] == "inconclusive"
    code, document = judged(dedup, folder, "--trust-csv")
    assert (code, only(document)["verdict"]) == (0, "pass")
    assert any("they are taken to hold no message" in reason for reason in only(document)["reasons"])


def test_beside_missing_positions_no_loss_is_proven(dedup: Command, tmp_path: Path) -> None:
    code, document = judged(dedup, lines(tmp_path / "late", "1,ok 2,ok 3,ok", "0,5,2 0,6,3"), "--trust-csv")
    run = only(document)
    assert (code, run["verdict"], run["counts"]["not_received"]) == (3, "inconclusive", 1)
    assert (
        "no loss is proven where positions are missing in received.csv (partition 0, ledger 0: entries 0 to 4"
        in (run["reasons"][0])
    )
    assert only(judged(dedup, lines(tmp_path / "twin", "1,ok 2,ok 3,ok", "0,0,2 0,1,3"), "--trust-csv")[1])[
        "verdict"
    ] == ("fail")


@pytest.mark.parametrize(
    ("sent", "received"),
    [("1,ok 2,ok", "0,5,1 0,6,2 0,8,2"), ("1,ok", "0,5,1 0,6,2"), ("1,ok 2,ok", "0,5,2 0,9,1")],
    ids=["copies", "phantoms", "order"],
)
def test_missing_positions_hide_nothing_else(sent: str, received: str, dedup: Command, tmp_path: Path) -> None:
    assert only(judged(dedup, lines(tmp_path, sent, received), "--trust-csv")[1])["verdict"] == "fail"


# Rules, each with its innocent twin. The topic is read to its end: no offset is missing.

ANOMALIES = {
    "values_with_duplicates": ("1,ok 2,ok", "0,0,1 0,1,2 0,2,2"),
    "not_received": ("1,ok 2,ok", "0,0,1"),
    "phantom": ("1,ok", "0,0,1 0,1,2"),
    "failed_but_received": ("1,ok 2,fail", "0,0,1 0,1,2"),
    "jump_backward": ("1,ok 2,ok", "0,0,2 0,1,1"),
    "duplicate_jump_backward": ("1,ok 2,ok", "0,0,1 0,1,2 0,2,1"),
}
TWINS = {
    "values_with_duplicates": ("1,ok 2,ok", "0,0,1 0,1,2 0,1,2"),  # the same position read twice
    "not_received": ("1,ok 2,unknown", "0,0,1"),
    "phantom": ("1,ok 2,ok", "0,0,1 0,1,2"),
    "failed_but_received": ("1,ok 2,unknown", "0,0,1 0,1,2"),
    "jump_backward": ("1,ok 2,ok", "0,0,2 1,0,1"),  # another partition
    "duplicate_jump_backward": ("1,ok 2,ok", "0,0,1 0,1,2 1,0,1"),
}


def lines(folder: Path, sent: str, received: str) -> Path:
    """A pair of which the rows are written with spaces between them."""
    return pair(
        folder,
        "\n".join(["value,outcome", *sent.split(), ""]),
        "\n".join(["partition,position,value", *received.split(), ""]),
    )


@pytest.mark.parametrize("anomaly", ANOMALIES)
def test_each_anomaly_fails_and_its_twin_does_not_show_it(anomaly: str, dedup: Command, tmp_path: Path) -> None:
    code, document = judged(dedup, lines(tmp_path / "shown", *ANOMALIES[anomaly]), "--trust-csv")
    run = only(document)
    assert (code, run["verdict"], run["counts"][anomaly]) == (1, "fail", 1)
    assert any(WORDS[anomaly] in reason for reason in run["reasons"])
    _, document = judged(dedup, lines(tmp_path / "twin", *TWINS[anomaly]))
    run = only(document)
    assert run["counts"][anomaly] == 0
    assert not any(WORDS[anomaly] in reason for reason in run["reasons"])


@pytest.mark.parametrize(
    ("expect", "anomaly", "verdict"),
    [
        ("ExactlyOnce", "values_with_duplicates", "fail"),
        ("AtLeastOnce", "values_with_duplicates", "pass"),
        ("AtMostOnce", "values_with_duplicates", "fail"),
        ("AtMostOnce", "not_received", "pass"),
        ("AtLeastOnce", "not_received", "fail"),
        ("None", "phantom", "pass"),
        ("AtLeastOnce", "phantom", "fail"),
    ],
)
def test_each_is_held_against_what_is_expected(
    expect: str, anomaly: str, verdict: str, dedup: Command, tmp_path: Path
) -> None:
    folder = lines(tmp_path, *ANOMALIES[anomaly])
    assert only(judged(dedup, folder, "--expect", expect, "--trust-csv")[1])["verdict"] == verdict


SENT_TWICE = "value,outcome,session\n1,ok,0\n2,ok,0\n2,ok,1\n3,ok,1\n"


def test_copies_of_two_sessions_are_named_by_their_cause(dedup: Command, tmp_path: Path) -> None:
    (tmp_path / "sent.csv").write_text(SENT_TWICE)
    (tmp_path / "received.csv").write_text("partition,position,value,session\n0,0,1,0\n0,1,2,0\n0,2,2,1\n0,3,3,1\n")
    code, document = judged(dedup, tmp_path)
    assert code == 1
    assert "1 value read more than once (1 by another session)" in only(document)["reasons"][0]


def test_their_innocent_twin_is_read_once(dedup: Command, tmp_path: Path) -> None:
    (tmp_path / "sent.csv").write_text(SENT_TWICE)
    (tmp_path / "received.csv").write_text("partition,position,value,session\n0,0,1,0\n0,1,2,1\n0,2,3,1\n")
    code, _, _ = dedup("verify", str(tmp_path), "--engine", "local", "--trust-csv")
    assert code == 0


def test_two_messages_at_one_position_are_a_contradiction(dedup: Command, tmp_path: Path) -> None:
    code, document = judged(dedup, lines(tmp_path, "1,ok 2,ok", "0,0,1 0,0,2"), "--trust-csv")
    assert code == 4
    assert "positions that hold two messages: 1" in only(document)["reasons"][0]


def test_values_may_begin_anywhere(dedup: Command, tmp_path: Path) -> None:
    for first in (0, 1, 1_000):
        folder = lines(tmp_path / str(first), f"{first},ok {first + 1},ok", f"0,0,{first} 0,1,{first + 1}")
        run = only(judged(dedup, folder, "--trust-csv")[1])
        assert (run["verdict"], run["counts"]["jump_forward"]) == ("pass", 0)


# What is printed.


def test_the_worked_example_of_s0_has_the_same_counts_as_parquet_and_as_csv(dedup: Command, tmp_path: Path) -> None:
    (golden,) = (golden for golden in golden_histories() if golden.name == "s0-worked-example")
    write_history(tmp_path / "parquet", golden.history)
    write_pair(tmp_path / "csv", golden.history)
    _, document = judged(dedup, tmp_path / "parquet", tmp_path / "csv")
    parquet, csv = document["runs"]
    assert csv["counts"] == parquet["counts"]
    assert {name: count for name, count in csv["counts"].items() if count} == golden.expect["counts"]
    assert (csv["verdict"], csv["reasons"]) == (parquet["verdict"], parquet["reasons"])


def test_json_has_the_shape_of_a_summary_with_every_count(dedup: Command, tmp_path: Path) -> None:
    code, document = judged(dedup, pair(tmp_path, *CLEAN))
    assert Summary.model_validate(document).model_dump(mode="json") == document
    assert (document["schema_version"], document["experiment"], document["exit_code"]) == (1, "", code)
    (run,) = document["runs"]
    assert (run["path"], run["judges"], run["expectation"]) == (str(tmp_path), ["oracle"], "ExactlyOnce")
    assert set(run["reasons"][0]) == {"verdict", "code", "text"}
    assert set(ISSUE.split(", ")) <= set(document["runs"][0]["counts"]) == set(Counts.model_fields)


def test_one_damaged_pair_does_not_spoil_the_others_and_the_worst_verdict_wins(dedup: Command, tmp_path: Path) -> None:
    """Folders of pairs and run folders, in the order of their paths."""
    pair(tmp_path / "all" / "a", *CLEAN)
    pair(tmp_path / "all" / "b", CLEAN[0][:-1], CLEAN[1])
    write_history(tmp_path / "all" / "c", ONE)
    code, document = judged(dedup, tmp_path / "all")
    assert (code, document["verdict"]) == (4, "error")
    assert [(run["path"], run["verdict"]) for run in document["runs"]] == [
        (str(tmp_path / "all" / "a"), "inconclusive"),
        (str(tmp_path / "all" / "b"), "error"),
        (str(tmp_path / "all" / "c"), "pass"),
    ]


@pytest.mark.parametrize("damage", DAMAGED, ids=str)
def test_a_damaged_pair_is_an_error_even_if_it_is_trusted(damage: str, dedup: Command, tmp_path: Path) -> None:
    sent, received, where, told = DAMAGED[damage]
    code, document = judged(dedup, pair(tmp_path, sent, received), "--trust-csv")
    run = only(document)
    (reason,) = run["reasons"]
    assert (code, run["verdict"], run["counts"], run["path"]) == (4, "error", None, str(tmp_path))
    assert f"{tmp_path}/{where}" in reason and told in reason


def test_an_empty_folder_is_one_line_that_names_both_forms(dedup: Command, tmp_path: Path) -> None:
    said = dedup("verify", tmp_path, "--engine", "oracle")
    assert said.code == 4
    assert "manifest.json" in one_line(said) and "sent.csv and received.csv" in one_line(said)


def test_nothing_is_left_and_the_pair_is_untouched(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    judged(dedup, pair(tmp_path / "mine", *CLEAN))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "received.csv", "scratch", "sent.csv"]


def test_a_full_disk_is_one_line_that_says_where_to_make_room(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(judging, "unpack", full)
    said = dedup("verify", pair(tmp_path, *CLEAN), "--engine", "oracle")
    assert said.code == 4
    assert "No space left on device" in one_line(said) and "TMPDIR" in one_line(said)


# One judge alone.


@pytest.mark.usefixtures("without_java")
def test_the_oracle_alone_needs_no_java_and_says_that_nobody_checked_it(dedup: Command, tmp_path: Path) -> None:
    write_history(tmp_path / "run", ONE)
    said = dedup("verify", tmp_path / "run", "--engine", "oracle")
    assert said.code == 0
    assert "the oracle alone was asked: no other judge checked it" in said.err


@pytest.mark.usefixtures("without_java")
def test_a_small_history_is_judged_by_two_judges_without_java(dedup: Command, tmp_path: Path) -> None:
    write_history(tmp_path / "run", ONE)
    said = dedup("verify", tmp_path / "run")
    assert said.code == 0
    assert "judged by the local engine and the oracle" in said.err
    assert "the local engine and the oracle agree" in said.err
    said = dedup("verify", tmp_path / "run", "--engine", "spark")
    assert (said.code, "Java" in one_line(said)) == (4, True)


@pytest.mark.parametrize("limit", ["ORACLE_LIMIT", "LOCAL_ROWS"])
@pytest.mark.usefixtures("without_java")
def test_a_large_history_is_judged_by_spark(
    limit: str, dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, limit, 0)
    write_history(tmp_path / "run", ONE)
    said = dedup("verify", tmp_path / "run")
    assert (said.code, "Java" in one_line(said)) == (4, True)


def test_the_two_judges_of_a_small_history_are_compared(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An oracle that makes a copy up is no evidence against anyone."""

    def inventive(folder: Any, evidence: Any) -> Any:
        said = second_opinion(folder, evidence)["oracle"]
        assert not isinstance(said, str)
        counts = said.counts.model_copy(update={"values_with_duplicates": 1, "extra_copies": 1})
        return {"oracle": said.model_copy(update={"counts": counts})}

    monkeypatch.setattr(oracles, "second_opinion", inventive)
    write_history(tmp_path / "run", ONE)
    said = dedup("verify", tmp_path / "run")
    assert said.code == 4
    assert "the local engine and the oracle disagree" in said.err


@pytest.mark.spark
def test_all_judges_say_of_pairs_what_the_oracle_says(dedup: Command, tmp_path: Path) -> None:
    """All pairs in one job; `a + b` is a path that means something to Spark."""
    for golden in EXPRESSIBLE:
        write_pair(tmp_path / "a + b" / golden.name, golden.history)
    asked = ("verify", tmp_path / "a + b", "--format", "json")
    said = {engine: counted(dedup(*asked, "--engine", engine).out) for engine in ("oracle", "local", "spark")}
    assert said["local"] == said["spark"] == said["oracle"] == counted(dedup(*asked).out)
    assert len(said["oracle"]) == len(EXPRESSIBLE)


def counted(text: str) -> list[dict[str, Any]]:
    """What all judges must say alike: all but who they are, and the findings, of which the oracle makes none."""
    own = ("judges", "findings")
    return [{name: value for name, value in run.items() if name not in own} for run in json.loads(text)["runs"]]
