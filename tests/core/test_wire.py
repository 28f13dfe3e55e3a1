"""What crosses a process is read for ever: by keys that are known, past keys and lines that are not."""

import re
from pathlib import Path

import pytest

from dedup.errors import PlatformError
from dedup.wire.clients import Disturbance, Mark, Milestone
from dedup.wire.faults import Detail, FaultEvent, FaultLine
from dedup.wire.lines import Line, parse


def test_a_line_that_is_being_written_is_not_read_yet() -> None:
    text = '{"kind": "retry", "detail": "", "monotonic_ns": 7}\n{"kind": "ret'
    assert parse(text, Disturbance) == [Disturbance(kind="retry", detail="", monotonic_ns=7)]


def test_json_that_is_no_such_record_is_an_error_and_not_left_out() -> None:
    """The line may be the one that says that a fault was not healed."""
    line = '{"fault": "cut", "event": "heal_failed", "monotonic_ns": "late"}'
    with pytest.raises(PlatformError, match=r"faults\.jsonl: monotonic_ns: got .*heal_failed.* is a FaultLine"):
        parse(line, FaultLine)
    assert parse(line.replace('"late"', "7"), FaultLine)[0].event == FaultEvent.HEAL_FAILED


def test_keys_and_events_of_other_versions_are_no_hindrance() -> None:
    (line,) = parse(
        '{"fault": "cut", "event": "blessed", "monotonic_ns": 7, "by": "x", "detail": {"how": "thrice"}}', FaultLine
    )
    assert (line.event, line.fault, line.detail.said()) == ("blessed", "cut", {"how": "thrice"})
    (mark,) = parse('{"event": "start", "fault": null, "sent": 0, "acked": 0, "monotonic_ns": 7, "by": "x"}', Mark)
    assert mark.event == Milestone.START


def test_what_was_not_said_is_not_written() -> None:
    """Nobody knows who led: that is said. How long a ping took is not."""
    detail = Detail.model_validate({"leader": None, "pulses": 9})
    assert detail.said() == {"leader": None, "pulses": 9}
    assert (detail.leader, detail.round_trips_ms) == (None, {})


def test_every_kind_of_line_has_a_file_of_its_own() -> None:
    kinds = [kind for below in Line.__subclasses__() for kind in (below, *below.__subclasses__())]
    files = [kind.FILE for kind in kinds if hasattr(kind, "FILE")]
    assert "faults.jsonl" in files
    assert len(files) == len(set(files))


def test_what_is_said_of_a_fault_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "faults.md").read_text().partition("| event | detail | meaning |")[2]
    events = re.findall(r"^\| (`.*?`) \|", page.partition("\n\n")[0], re.M)
    assert {each for cell in events for each in re.findall("`(.*?)`", cell)} == set(FaultEvent)
