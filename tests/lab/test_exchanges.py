"""The decisive exchanges of a conversation: the struck frame, the retry, the copies; in words and as a drawing."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.lab.finished import finish
from tests.lab.pages import Page

from dedup.errors import EvidenceError
from dedup_lab import reporting
from dedup_report import diagrams, exchanges
from dedup_runners.interposer.conversations import SCHEMA, Done

MS = 1_000_000


def row(at_ms: float, words: str, **more: Any) -> dict[str, Any]:
    """A frame: `request` or `reply`, its API, the number of its batch and of the attempt at it."""
    direction, api, *numbers = words.split()
    number, attempt = (int(each) for each in numbers) if numbers else (1, 1)
    plain = {field.name: None for field in SCHEMA}
    carries = {"messages": 5, "partition": 0} if api == "Produce" else {}
    told = {"connection": 1, "session": "producer", "broker": "127.0.0.1:1", "bytes": 100, "unix_ns": 0}
    when = {"direction": direction, "api": api, "monotonic_ns": int(at_ms * MS), "done": "passed"}
    return {**plain, **told, **when, **carries, "number": number, "attempt": attempt, **more}


LOST = {"done": "lost", "rule": "lost-reply", "offset": 10, "error_code": 0}
BEFORE = [
    row(0, "request Metadata"),
    row(1, "reply Metadata"),
    row(10, "request Produce 1 1"),
    row(12, "reply Produce 1 1", offset=5, error_code=0),
    row(13, "request Produce 2 1"),
    row(15, "reply Produce 2 1", **LOST),
    row(30, "request ApiVersions"),
    row(31, "request Produce 2 2", broker="127.0.0.1:2"),
]


def write(folder: Path, rows: list[dict[str, Any]], fault: str = "lost-reply") -> Path:
    path = folder / "chaos" / fault / exchanges.FILE
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    return path


def told(tmp_path: Path, rows: list[dict[str, Any]]) -> str:
    found = exchanges.decisive("lost-reply", write(tmp_path, rows))
    assert found is not None
    return " ".join(exchanges.words(found))


def test_the_columns_and_words_are_those_that_the_interposer_writes() -> None:
    assert set(exchanges.Frame._fields) <= set(SCHEMA.names)
    assert {exchanges.PASSED, exchanges.LOST, exchanges.UNANSWERED} <= {str(each) for each in Done}


def test_a_lost_reply_and_a_retry_that_was_stored_again(tmp_path: Path) -> None:
    said = told(tmp_path, [*BEFORE, row(33, "reply Produce 2 2", offset=15, error_code=0, broker="127.0.0.1:2")])
    assert said.startswith(
        "The reply “Produce 2: stored at 10” was lost. It was sent 2 times. "
        "By the brokers' answers it was stored 2 times: at 10 and at 15."
    )
    assert "1. after 0 ms, producer to broker 1: Produce 1: 5 messages; " in said
    assert "after 21 ms, producer to broker 2: Produce 2, attempt 2: 5 messages" in said


def test_its_innocent_twin_was_recognised(tmp_path: Path) -> None:
    said = told(tmp_path, [*BEFORE, row(33, "reply Produce 2 2", offset=10, error_code=0)])
    assert "All answers name one position, 10: it was recognised, and stored once." in said
    assert "was stored 2 times" not in said


def test_pulsar_answers_without_a_position_what_it_knows(tmp_path: Path) -> None:
    said = told(tmp_path, [*BEFORE, row(33, "reply Produce 2 2", ledger=-1, offset=-1)])
    assert "Produce 2: known already" in said and "stored 2 times" not in said
    assert "It was sent 2 times. An answer names no position: the broker knew the batch already." in said


def test_an_answer_that_never_came_says_nothing_of_what_the_broker_knew(tmp_path: Path) -> None:
    """As the interposer notes it where a connection ends: a reply with neither offset nor error."""
    said = told(tmp_path, [*BEFORE, row(33, "reply Produce 2 2", done="unanswered")])
    assert "It was sent 2 times. In order: " in said and "knew the batch" not in said
    assert "Produce 2: no answer, never passed on" in said
    known = [row(33, "reply Produce 2 2", done="unanswered", offset=10, error_code=0), row(40, "request Produce 2 3")]
    late = told(tmp_path / "late", [*BEFORE, *known, row(42, "reply Produce 2 3", done="unanswered")])
    assert "All answers name one position, 10" in late, "it came when the client had left"


def test_what_is_said_rests_on_all_attempts_also_those_that_are_not_shown(tmp_path: Path) -> None:
    rows = [row(0, "request Produce 1 1"), row(1, "reply Produce 1 1", **{**LOST, "offset": 1})]
    rows += [row(10 * number, f"request Produce 1 {number}") for number in range(2, 32)]
    rows += [row(400, "reply Produce 1 31", offset=77, error_code=0), row(401, "reply Produce 1 30", done="unanswered")]
    said = told(tmp_path, rows)
    assert "It was sent 31 times. By the brokers' answers it was stored 2 times: at 1 and at 77." in said
    assert "broker to producer: Produce 1: stored at 77" in said, "the last answer is among those that are shown"


def test_a_request_that_was_lost_and_one_that_was_held(tmp_path: Path) -> None:
    lost = [row(0, "request Produce 1 1", done="lost", rule="lost-reply"), row(9, "request ApiVersions")]
    assert told(tmp_path / "lost", lost).startswith(
        "The request “Produce 1: 5 messages” was lost. "
        "This batch was not sent again by the client; what an application sends again is another batch."
    )
    held = [row(0, "request Produce 1 1", done="held", rule="lost-reply", held_ns=1_500 * MS)]
    assert "was held for 1.5 s." in told(tmp_path / "held", held)


def test_a_request_without_messages_is_no_batch_and_is_not_said_to_be_asked_only_once(tmp_path: Path) -> None:
    """A client that asks Metadata again asks with a request of its own."""
    struck = row(1, "reply Metadata", done="lost", rule="lost-reply")
    said = told(tmp_path / "asked", [row(0, "request Metadata"), struck, row(9, "request Metadata 2 1")])
    assert said.startswith(
        "The reply “Metadata: done” was lost. It carries no batch; whether the client asked the same "
    )
    assert "This batch was not sent again" not in said and "producer to broker: Metadata; " in said
    again = [row(0, "request EndTxn 1 1"), row(1, "reply EndTxn 1 1", done="lost", rule="lost-reply")]
    assert "It was sent 2 times." in told(tmp_path / "again", [*again, row(9, "request EndTxn 1 2")])


def test_of_a_long_conversation_few_frames_are_shown_and_the_rest_is_counted(tmp_path: Path) -> None:
    many = [row(100 + number, f"request Produce {number} 2") for number in range(10, 1010)]
    found = exchanges.decisive("lost-reply", write(tmp_path, [*BEFORE, *many]))
    assert found is not None and len(found.frames) <= exchanges.MOST + 1
    assert found.struck in found.frames and sum(found.left_out) > 0
    assert "Also sent again: Produce 10 of partition 0" in " ".join(exchanges.words(found))


def test_where_nothing_was_struck_or_the_file_is_damaged_a_line_says_so(tmp_path: Path) -> None:
    write(tmp_path / "calm", BEFORE[:4])
    assert diagrams.of_run(tmp_path / "calm") == [(None, ("fault lost-reply struck no frame.",))]
    write(tmp_path / "damaged", BEFORE).write_bytes(b"PAR1 and no more")
    ((drawing, (words,)),) = diagrams.of_run(tmp_path / "damaged")
    assert drawing is None and words.startswith("the conversation of fault lost-reply cannot be read: ")
    foreign = write(tmp_path / "foreign", BEFORE)
    pq.write_table(pa.table({"a": [1]}), foreign)
    with pytest.raises(EvidenceError, match="no column api"):
        exchanges.decisive("lost-reply", foreign)
    assert diagrams.of_run(tmp_path / "none") == []


@pytest.mark.long
def test_the_page_has_the_diagram_beside_its_words(tmp_path: Path) -> None:
    results = finish(tmp_path / "results")
    write(results.attempt("kafka-control-001", 1), [*BEFORE, row(33, "reply Produce 2 2", offset=15, error_code=0)])
    reporting.write(results)
    page = Page((results.root / reporting.PAGE).read_text())
    assert "The struck frame of kafka-control-001" in page.images
    assert "The struck frame of kafka-dedup-001" not in page.images
    assert "The reply “Produce 2: stored at 10” was lost." in page.words and not page.problems
