"""One line for each way to get an experiment wrong.

Every refusal below is the smallest change to a file that is right, and the whole line that a user reads.
"""

import json
import re
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testbed.specs import ABSENT, changed

from dedup.errors import SpecificationError
from dedup.experiment.clients import libraries
from dedup.experiment.spec import parse
from dedup.experiment.systems import PRODUCTS
from dedup.faults.registry import KINDS

*_FIRST, _FINAL = PRODUCTS
ONE_SYSTEM: Final = f"a system is exactly one of {', '.join(_FIRST)} and {_FINAL}"
*_MOST, _LAST = (kind.key for kind in KINDS)

WORKLOAD: Final = (
    "messages, inFlight, partitions, messagesPerSecond, payload, keys, restart, resend, producers, consumer, "
    "transactions, replication"
)


def where(place: str) -> str:
    """A place of `changed`, in the words of a refusal."""
    *above, last = re.sub(r"/(\d+)", r"[\1]", place).split("/")
    return ".".join(above) + (f'["{last}"]' if "." in last else f".{last}" if above else last)


def refusal(document: object) -> str:
    with pytest.raises(SpecificationError) as caught:
        parse(document, source="e.yaml")
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert not any(word in line for word in ("Input should", "pydantic", "validation", "Value error", "type="))
    return line


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("spec/workload/messages", 0, "got 0; this must be at least 1; write 1 or more"),
        ("spec/workload/messages", -5, "got -5; this must be at least 1; write 1 or more"),
        (
            "spec/workload/messages",
            10**12,
            "got 1000000000000; this must be at most 10,000,000,000; write 10,000,000,000 or less",
        ),
        ("spec/confidencePercent", 100, "got 100; this must be less than 100; write less than 100"),
        ("spec/confidencePercent", 0, "got 0; this must be at least 50; write 50 or more"),
        ("spec/confidencePercent", 0.95, "got 0.95; it is in percent, at least 50; write 95"),
        ("spec/faults/0/at/message", 0, "got 0; this must be at least 1; write 1 or more"),
        ("spec/faults/0/killTCP/duration", "0s", 'got "0s"; this must be more than 0s; write more than 0s'),
        ("spec/faults/0/killTCP/duration", "2h", 'got "2h"; this must be at most 1h; write 1h or less'),
        ("spec/systems/0/network/latency", "10001ms", 'got "10001ms"; this must be at most 10s; write 10s or less'),
        ("spec/timeouts/run", "0s", 'got "0s"; this must be more than 0s; write more than 0s'),
        ("spec/timeouts/verify", "999999999h", 'got "999999999h"; this must be at most 168h; write 168h or less'),
    ],
)
def test_numbers_out_of_bounds(place: str, value: object, said: str) -> None:
    assert refusal(changed((place, value))) == f"e.yaml: {where(place)}: {said}"


@pytest.mark.parametrize("value", ["-1s", "10", "10 s", "1.5s", "10s\n", "10S", [], True, -10])
def test_a_duration_is_a_number_and_a_unit(value: object) -> None:
    rule = "a duration is a whole number and a unit of ms, s, m or h, not negative; write it like 10s"
    got = refusal(changed(("spec/faults/0/killTCP/duration", value)))
    assert got == f"e.yaml: spec.faults[0].killTCP.duration: got {json.dumps(value)}; {rule}"


def test_a_duration_without_a_unit_is_asked_for_one() -> None:
    line = 'spec.faults[0].killTCP.duration: got 10; a duration needs a unit; write "10s" or "10ms"'
    assert refusal(changed(("spec/faults/0/killTCP/duration", 10))) == f"e.yaml: {line}"


WHOLE: Final = "this must be a whole number; write digits only, without quotes or a unit"
TEXT: Final = "this must be text; put it in quotes"
NOTHING: Final = "write a value or take the key out"


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("spec/workload/messages", "1000", f'got "1000"; {WHOLE}'),
        ("spec/workload/messages", 1.5, f"got 1.5; {WHOLE}"),
        ("spec/workload/messages", True, f"got true; {WHOLE}"),
        ("spec/workload/messages", [], f"got []; {WHOLE}"),
        ("spec/seed", float("inf"), f"got Infinity; {WHOLE}"),
        ("spec/suspend", "true", 'got "true"; this must be true or false; write one of them, without quotes'),
        ("spec/suspend", 1, "got 1; this must be true or false; write one of them, without quotes"),
        ("spec/confidencePercent", "95%", 'got "95%"; this must be a number; write digits, without quotes or a unit'),
        ("spec/systems/0/kafka/version", 4.3, f'got 4.3; {TEXT}: "4.3"'),
        ("metadata/name", 5, f'got 5; {TEXT}: "5"'),
        ("spec/systems/0/client/properties/linger.ms", 0, f'got 0; {TEXT}: "0"'),
        ("spec/systems/0/client/properties/acks", True, f'got true; {TEXT}: "true"'),
        ("spec/systems/0/client/properties/acks", ["all"], 'got ["all"]; this must be text; write a single value'),
        ("spec/systems", {"name": "kafka"}, "got {name}; this must be a list; begin each item with a dash"),
        (
            "spec/workload",
            [1],
            f"got [1]; this must be a mapping; write keys and values below it, of {WORKLOAD}",
        ),
        ("metadata/labels", "x", 'got "x"; this must be a mapping; write keys and values below it'),
        ("spec/faults", None, f"got no value; this key has no value, and a list is required; {NOTHING}"),
        ("spec/workload", None, f"got no value; this key has no value, and a mapping is required; {NOTHING}"),
        ("spec/workload/messages", None, f"got no value; this key has no value, and one is required; {NOTHING}"),
    ],
)
def test_wrong_types(place: str, value: object, said: str) -> None:
    assert refusal(changed((place, value))) == f"e.yaml: {where(place)}: {said}"


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (
            "spec/variants/0/deduplication",
            "enabled",
            'got "enabled"; this must be one of Enabled, Disabled; did you mean Enabled?',
        ),
        ("spec/variants/0/deduplication", True, "got true; this must be one of Enabled, Disabled; write one of them"),
        (
            "spec/variants/1/expect",
            "exactly-once",
            'got "exactly-once"; this must be one of '
            "ExactlyOnce, AtLeastOnce, AtMostOnce, Duplicates, CommittedOnce, None; did you mean ExactlyOnce?",
        ),
        ("kind", "Experiment", 'got "Experiment"; only DedupExperiment is known here; write DedupExperiment'),
        ("apiVersion", "v1", 'got "v1"; only dedup.dev/v1alpha1 is known here; write dedup.dev/v1alpha1'),
        ("spec/systems/0/kafka/brokers", 5, "got 5; only 3 is known here; write 3"),
        (
            "spec/systems/0/client/library",
            "pulsar-client",
            f"got pulsar-client; it does not speak to kafka; write {libraries('kafka')}, or take the key out",
        ),
        (
            "spec/systems/0/kafka/version",
            "latest",
            'got "latest"; a version is numbers with dots between them; write it like 4.3.1',
        ),
        (
            "metadata/name",
            "My test",
            'got "My test"; a name is lower-case letters, digits and dashes, '
            "begins with a letter and ends with a letter or digit; rename it, such as kafka-1",
        ),
        ("metadata/name", "x" * 41, f'got "{"x" * 41}"; at most 40 characters are allowed; shorten it'),
        ("spec/systems", [], "got []; the list is empty, and one item is required; add one"),
    ],
)
def test_values_outside_what_is_known(place: str, value: object, said: str) -> None:
    assert refusal(changed((place, value))) == f"e.yaml: {where(place)}: {said}"


@pytest.mark.parametrize(
    ("place", "known", "advice"),
    [
        (
            "spec/workload/mesages",
            WORKLOAD,
            'did you mean "messages"?',
        ),
        (
            "spec/workload/in_flight",
            WORKLOAD,
            'did you mean "inFlight"?',
        ),
        (
            "spec/workload/colour",
            WORKLOAD,
            "take it out (dedup schema lists every key)",
        ),
        ("spec/faults/0/killTCP/duration_s", "target, duration", 'did you mean "duration"?'),
        ("spec/faults/0/at/Message", "message, after, fault", 'did you mean "message"?'),
        ("metdata", "apiVersion, kind, metadata, spec", 'did you mean "metadata"?'),
    ],
)
def test_unknown_keys_are_answered_with_those_that_are_known(place: str, known: str, advice: str) -> None:
    """Python's names of the keys (`in_flight`, `duration_s`) are as unknown as any other."""
    line = f"e.yaml: {where(place)}: got 1; no such key is known here, only {known}; {advice}"
    assert refusal(changed((place, 1))) == line


def test_a_misspelt_key_comes_before_the_key_it_was_meant_to_be() -> None:
    line = refusal(changed(("spec/workload", {"mesages": 1000})))
    assert "spec.workload.mesages: got 1000;" in line
    assert line.endswith('did you mean "messages"? (and 1 more to correct)')


@pytest.mark.parametrize("key", ["apiVersion", "kind", "metadata", "spec"])
def test_required_keys(key: str) -> None:
    assert refusal(changed((key, ABSENT))) == f"e.yaml: {key}: got nothing; this key is required; add it"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            [("spec/systems/1/name", "kafka")],
            'spec.systems[1].name: got "kafka"; another of the systems has this name; rename one of them',
        ),
        (
            [("spec/variants/1/name", "control")],
            'spec.variants[1].name: got "control"; another of the variants has this name; rename one of them',
        ),
        (
            [("spec/faults/-", {"name": "cut", "at": {"message": 1}, "moveLeader": {}})],
            'spec.faults[1].name: got "cut"; another of the faults has this name; rename one of them',
        ),
        (
            [
                *(("spec/systems/0/name", "a"), ("spec/systems/1/name", "a-b")),
                *(("spec/variants/0/name", "b-c"), ("spec/variants/1/name", "c")),
            ],
            'spec.variants[1].name: got "c"; its runs on a-b would be called "a-b-c", as others on a are; '
            "rename one of them",
        ),
        (
            [("spec/faults/0/at/message", 1001)],
            "spec.faults[0].at.message: got 1001; the last message is 1000, and a fault must begin while messages "
            "are sent; name an earlier message or send more",
        ),
        (
            [("spec/workload/messagesPerSecond", 10), ("spec/timeouts", {"run": "100s"})],
            "spec.workload.messagesPerSecond: got 10; a run is cancelled after timeouts.run, 100s, and so many "
            "messages take longer; send fewer or more of them in a second, or give the run more time",
        ),
        (
            [("spec/timeouts", {"run": "100s", "delivery": "100s"})],
            "spec.timeouts.delivery: got 100s; a run is cancelled after timeouts.run, 100s; "
            "make it shorter or give the run more time",
        ),
        (
            [("spec/workload", {"messages": 1000, "partitions": 1001})],
            "spec.workload.messages: got 1000; there are 1001 partitions and each gets at least one message; "
            "send more or use fewer partitions",
        ),
        (
            [("spec/faults/0/name", "latency")],
            'spec.faults[0].name: got "latency"; the system\'s own network latency has this name; choose another',
        ),
        (
            [("spec/systems/0/pulsar", {})],
            f"spec.systems[0]: got {{name, kafka, pulsar}}; {ONE_SYSTEM}; keep one of them",
        ),
        (
            [("spec/systems/0/kafka", ABSENT)],
            f"spec.systems[0]: got {{name}}; {ONE_SYSTEM}; give one of these keys",
        ),
        (
            [("spec/systems/0/kafka", None)],
            "spec.systems[0].kafka: got no value; a system needs a mapping here; write one ({} takes every default)",
        ),
        (
            [("spec/faults/0/kill", {"restartAfter": "1s"})],
            "spec.faults[0]: got {name, at, killTCP, kill}; "
            f"a fault is exactly one of {', '.join(_MOST)} and {_LAST}; keep one of them",
        ),
    ],
)
def test_rules_that_span_several_keys(changes: list[tuple[str, object]], line: str) -> None:
    assert refusal(changed(*changes)) == f"e.yaml: {line}"


def test_the_last_message_is_not_too_late_and_one_message_a_partition_is_enough() -> None:
    """Innocent twins of the bounds above."""
    last = parse(changed(("spec/faults/0/at/message", 1000)), source="e").spec
    assert last.faults[0].at.message == last.workload.messages
    assert (
        parse(changed(("spec/workload", {"messages": 1000, "partitions": 1000})), source="e").spec.workload.partitions
        == 1000
    )
    alike = parse(changed(("spec/systems/0/name", "a"), ("spec/systems/1/name", "a-b")), source="e").spec
    assert [each.name for each in alike.systems[:2]] == ["a", "a-b"]


def test_keys_and_values_of_any_kind_stay_on_one_readable_line() -> None:
    assert '["a\\nb\\u001b"]: got 1;' in refusal(changed(("a\nb\x1b", 1)))
    assert len(refusal(changed(("x" * 500, "y" * 500)))) < 300
    assert "not valid Unicode" in refusal(changed(("metadata/name", "\ud800")))
    assert "thousands of digits" in refusal(changed(("spec/seed", 1 << 20_000)))


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3),
    max_leaves=5,
)
PLACES: Final = [
    "apiVersion",
    "metadata",
    "metadata/name",
    "metadata/labels",
    "spec",
    "spec/systems",
    "spec/systems/0/kafka",
    "spec/systems/0/client",
    "spec/workload",
    "spec/workload/messages",
    "spec/variants",
    "spec/variants/0/expect",
    "spec/faults",
    "spec/faults/0/at",
    "spec/faults/0/killTCP/duration",
    "spec/timeouts",
    "spec/unknown",
    "spec/confidencePercent",
]


def test_a_control_has_the_switch_off_and_the_treatment_beside_it_on() -> None:
    assert refusal(changed(("spec/variants/1/deduplication", "Disabled"))) == (
        "e.yaml: spec.variants[1].deduplication: got Disabled; beside a control (expect: Duplicates), one that forbids "
        "duplicates is the treatment, with deduplication; write Enabled, or change what the variants expect"
    )


@settings(max_examples=40)
@given(place=st.sampled_from(PLACES), value=JSON)
def test_any_value_anywhere_is_accepted_or_refused_in_one_line(place: str, value: object) -> None:
    document = changed((place, value))
    try:
        parse(document, source="e.yaml")
    except SpecificationError:
        assert refusal(document).startswith("e.yaml: ")


def test_a_fault_that_outlasts_its_run_is_refused() -> None:
    fault = {"name": "cut", "at": {"message": 10}, "killTCP": {"duration": "10m"}}
    line = refusal(changed(("spec/faults", [fault])))
    assert "faults[0].killTCP: got 10m; a run is cancelled after timeouts.run, 10m" in line
    parse(changed(("spec/faults", [fault]), ("spec/timeouts", {"run": "11m"})), source="e.yaml")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("deploy/existing/token", "this must be a mapping"),
        ("deploy/existing/tls/secretRef", "this must be a mapping"),
        ("client/password", "no such key is known here"),
    ],
)
def test_what_may_be_a_secret_is_not_shown(place: str, words: str) -> None:
    """Somebody wrote the secret itself where the name of one belongs."""
    said = refusal(changed((f"spec/systems/0/{place}", "hunter2")))
    assert words in said and "hunter2" not in said
    assert "hunter2" in refusal(changed(("spec/systems/0/client/username", "hunter2")))
