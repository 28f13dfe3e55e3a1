"""The page of `dedup report`: what is in it, that it loads nothing, and that what is broken costs one line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import History, write_history, write_latencies
from tests.lab.conftest import Command, one_line
from tests.lab.finished import BROKEN, finish
from tests.lab.pages import Page

from dedup.experiment.spec import load
from dedup.history.histories import read_manifest
from dedup.history.latencies import NAME
from dedup.history.reports import SUMMARY
from dedup.judgement.tables import DASH
from dedup_lab.results import Results
from dedup_report.latencies import NOT_RECORDED, NOTHING, UNREADABLE, latencies_of

pytestmark = pytest.mark.long


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return finish(tmp_path / "results")


def change(results: Results, edit: Callable[[dict], None]) -> None:  # type: ignore[type-arg]
    """Change summary.json as no dedup would write it."""
    path = results.root / SUMMARY
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))


def page(dedup: Command, results: Results, code: int = 0) -> Page:
    said = dedup("report", results.root)
    assert (said.code, said.out.strip(), said.err) == (code, f"{results.root}/report.html", "")
    return Page((results.root / "report.html").read_text())


def test_the_verdict_and_its_reasons_come_first(dedup: Command, tmp_path: Path) -> None:
    found = page(dedup, finish(tmp_path / "results", BROKEN), code=1)
    assert not found.problems
    head = found.words[: found.words.index("Side by side", found.words.index("Replay"))]
    assert "trial: ✗ fail" in head and "kafka-dedup-002: 1 value acknowledged and lost, such as 0/500" in head


def test_it_loads_nothing_and_runs_nothing(dedup: Command, results: Results) -> None:
    found = page(dedup, results)
    assert not {"script", "iframe", "object", "embed"} & set(found.tags)
    assert {link.partition(":")[0] if ":" in link else link[:1] for link in found.links} == {"data", "#"}
    assert len(found.ids) == len(set(found.ids)) and all(
        link[1:] in found.ids for link in found.links if link[0] == "#"
    )


def test_every_run_has_its_drawings(dedup: Command, results: Results) -> None:
    found = page(dedup, results)
    assert {"Rates and latency of kafka-control-001", "Rates of kafka-control-002"} <= set(found.images)
    assert "Order of kafka-control-001" in found.images
    assert "Order of kafka-dedup-001" in found.images and "Duplicate blocks of kafka-dedup-001" not in found.images
    assert "Order and acknowledgements of kafka-dedup-002" in found.images  # the other treatment run, in small
    assert "1,100 messages were read: 1,000 for the first time, 100 as copies." in found.words
    assert "Longest silence: 3.24 s without an acknowledgement" in found.words
    assert (
        "Fault cut: the last silence that began before it had healed ended 2.32 s after its injection." in found.words
    )


def test_latencies_are_told_of_each_run_or_that_there_are_none(dedup: Command, results: Results) -> None:
    found = page(dedup, results)
    assert "Acknowledgements took 2.5 ms (p50), 3,300 ms (p99) and at most 3,300 ms" in found.words
    assert found.words.count("Latencies were not recorded: an older dedup did not") == 1  # run 2 of the control
    assert found.table("effective runs")["ack p99, ms"] == [DASH, "15"], "not of each run of the control"


def test_why_a_run_has_no_latencies_is_told(tmp_path: Path) -> None:
    write_history(tmp_path / "run", History(sent=[], outcomes=[], received=[], clock=[]))
    assert latencies_of(tmp_path / "run", read_manifest(tmp_path / "run")) == NOT_RECORDED
    failed = write_latencies(tmp_path / "run", [(0, 1, 9, 9, 7)])
    assert latencies_of(tmp_path / "run", failed) == NOTHING
    (tmp_path / "run" / NAME).write_bytes(b"PAR1")
    assert latencies_of(tmp_path / "run", failed) == UNREADABLE


def test_where_no_run_has_latencies_there_is_no_row_of_them(dedup: Command, results: Results) -> None:
    def forget(document: dict) -> None:  # type: ignore[type-arg]
        for group in document["systems"]:
            del group["latency"]

    change(results, forget)
    assert "ack p99, ms" not in page(dedup, results).table("effective runs")


def test_it_says_how_to_replay_what_was_in_force_and_what_is_not_recorded(dedup: Command, results: Results) -> None:
    found = page(dedup, results)
    assert "dedup run experiment.json --out replay" in found.words
    assert load(results.root / "experiment.json").digest() == results.read_summary().spec_digest in found.words
    assert found.table("enable.idempotence ≠")["enable.idempotence ≠"] == ["False", "True"]
    assert found.table("acks")["acks"] == ["all", "all"]
    assert found.table("client.id")["client.id"] == ["2 different values in 2 runs"] * 2
    assert "Latencies are counted by second and bucket" in found.words


def test_the_same_results_make_the_same_page(dedup: Command, results: Results) -> None:
    page(dedup, results)
    first = (results.root / "report.html").read_bytes()
    page(dedup, results)
    assert (results.root / "report.html").read_bytes() == first


def test_a_damaged_history_costs_its_own_drawings(dedup: Command, results: Results) -> None:
    segment = results.attempt("kafka-control-001", 1) / "received" / "00000.parquet"
    segment.write_bytes(b"x" * segment.stat().st_size)
    found = page(dedup, results)
    assert "Its history is not drawn: its history is damaged: received/00000.parquet: its bytes changed" in found.words
    assert "Order of kafka-control-001" not in found.images and "Order of kafka-dedup-001" in found.images


def test_a_summary_without_histories_is_a_page_all_the_same(dedup: Command, results: Results, tmp_path: Path) -> None:
    alone = Results(tmp_path / "alone")
    alone.root.mkdir()
    (alone.root / SUMMARY).write_bytes((results.root / SUMMARY).read_bytes())
    found = page(dedup, alone)
    assert found.table("effective runs")["duplicates"] == ["200", "0"]
    assert "Its history is not drawn: no such folder" in found.words
    assert "it cannot be replayed from here" in found.words


def test_a_history_that_is_not_the_judged_one_is_told(dedup: Command, results: Results) -> None:
    change(results, lambda document: document["runs"][1]["counts"].update(extra_copies=7))
    assert "and the judges count 7: this is not the history that was judged." in page(dedup, results).words


def test_names_and_reasons_are_text(dedup: Command, results: Results) -> None:
    def edit(document: dict) -> None:  # type: ignore[type-arg]
        document["reasons"][0]["text"] = "<script>alert(1)</script> & $x_1$"
        document["runs"][0]["run_id"] = '"><img src=x onerror=alert(1)>'
        document["runs"][1]["run_id"] = "../../kafka-control-001"

    change(results, edit)
    found = page(dedup, results)
    assert not found.problems and "script" not in found.tags and "x" not in found.links
    assert "<script>alert(1)</script> & $x_1$" in found.words
    assert found.words.count("its name is no run's name") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "got No such file or directory; it is written after all runs of the experiment are judged"),
        ("{", "got text that is not JSON; a summary is one JSON document, so this one is damaged"),
        ('{"schema_version": 2}', "got schema version 2; this dedup reads version 1"),
        ("{}", "got a document that has no key experiment; it must have the format of this version of dedup"),
        ("[1]", "got a document that does not fit at the document; it must have the format of this version"),
    ],
    ids=["none", "damaged", "newer", "foreign", "a list"],
)
def test_results_that_cannot_be_read_are_one_line(text: str | None, said: str, dedup: Command, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / SUMMARY).write_text(text)
    ended = dedup("report", tmp_path)
    assert ended.code == 4
    assert f"{tmp_path}/summary.json: {said}" in one_line(ended)
    assert not (tmp_path / "report.html").exists()


def test_what_cannot_be_written_is_one_line(dedup: Command, results: Results) -> None:
    for to in (results.root / "summary.json" / "junit.xml", Path("/proc/none/junit.xml")):
        ended = dedup("report", results.root, "--junit", to)
        assert ended.code == 4
        assert f"error report {to}: got " in one_line(ended) and "defect" not in ended.err
