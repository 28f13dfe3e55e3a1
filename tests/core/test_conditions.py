"""What differs between results comes first; what makes them answers to different questions is refused."""

from typing import Any

import pytest
from tests.core.comparing import LAPTOP, kafka, result
from tests.core.evidences import MESSAGES

from dedup.errors import SpecificationError
from dedup.judgement.comparisons import compare
from dedup.judgement.conditions import Result, Weight, check_comparable, differences, notes, sides_of
from dedup.judgement.paces import Pace
from dedup.wire.manifests import Machine


def told(*results: Result) -> dict[str, tuple[str, ...]]:
    """The differences, by what differs: their weight, then the values of the sides."""
    return {each.what: (each.weight.value, *each.values.values()) for each in differences(sides_of(results))}


def noted(*results: Result) -> list[str]:
    sides = sides_of(results)
    return list(notes(sides, differences(sides)))


def test_another_version_is_the_subject() -> None:
    found = told(result("new"), result("old", kafka("3.9.0"), day=2))
    assert found == {"version": ("subject", "Kafka 4.3.1", "Kafka 3.9.0")}
    assert noted(result("new"), result("old", kafka("3.9.0"), day=2)) == []


def test_the_same_again_differs_in_nothing_and_says_so() -> None:
    assert told(result("monday"), result("tuesday", day=2)) == {}
    assert "nothing that is known differs" in noted(result("monday"), result("tuesday", day=2))[0]


def test_what_may_cause_a_difference_too_is_listed_after_the_subject() -> None:
    slow = kafka("3.9.0", systems=[{"name": "kafka", "kafka": {"version": "3.9.0"}, "network": {"latency": "20ms"}}])
    found = told(result("new"), result("old", slow, day=2, settings={"linger.ms": "5"}))
    assert list(found.items()) == [
        ("version", ("subject", "Kafka 4.3.1", "Kafka 3.9.0")),
        ("network.latency", ("confounder", "0s", "20ms")),
        ("the producer's linger.ms", ("confounder", "none", "5")),
    ]
    assert "3 things differ" in noted(result("new"), result("old", slow, day=2, settings={"linger.ms": "5"}))[0]


def test_a_setting_alone_may_be_the_question() -> None:
    assert told(result("new"), result("slow", day=2, settings={"linger.ms": "5"})) == {
        "the producer's linger.ms": ("confounder", "none", "5")
    }
    assert noted(result("new"), result("slow", day=2, settings={"linger.ms": "5"})) == []


def test_another_machine_is_the_subject_and_its_speed_is_compared_too() -> None:
    server = Machine(host="server", os="Linux-6.12", java="21.0.1")
    found = told(result("here"), result("there", day=2, machine=server))
    assert found == {
        "platform": ("subject", "processes on laptop", "processes on server"),
        "the machine's java": ("confounder", "17.0.12", "21.0.1"),
    }
    said = noted(result("here"), result("there", day=2, machine=server))
    assert any("machines differ" in line for line in said)


def test_pods_are_another_platform_than_processes() -> None:
    pod = LAPTOP.model_copy(update={"host": "pod-1", "java": ""})
    found = told(result("here"), result("cluster", day=2, machine=pod))
    assert found == {"platform": ("subject", "processes on laptop", "pods")}


def test_how_much_was_done_is_listed_last() -> None:
    more = kafka(runs=20, seed=7, confidencePercent=95)
    found = told(result("few"), result("many", more, day=2))
    assert {weight for weight, *_ in found.values()} == {Weight.PLAN}
    assert found["spec.runs"] == ("plan", "10", "20")
    assert found["spec.confidencePercent"] == ("plan", "none", "95.0")
    assert noted(result("few"), result("many", more, day=2)) == []


def with_acks(made: Result, **by_variant: str) -> Result:
    """The result as if the producer's acks had been these in its variants."""
    rows = tuple(
        row.model_copy(update={"settings": row.settings | {"acks": by_variant[row.variant]}})
        for row in made.summary.systems
    )
    return made._replace(summary=made.summary.model_copy(update={"systems": rows}))


def test_a_setting_that_is_not_the_same_in_all_variants_of_one_side_is_told_by_variant_of_each_side() -> None:
    """Java's client has acks=1 by default in old versions, unless it is idempotent; in new ones always all."""
    new = with_acks(result("new"), control="all", dedup="all")
    old = with_acks(result("old", day=2), control="1", dedup="all")
    assert told(new, old) == {"the producer's acks of control": ("confounder", "all", "1")}
    assert told(old, new) == {"the producer's acks of control": ("confounder", "1", "all")}


def test_its_innocent_twin_is_told_once() -> None:
    new = with_acks(result("new"), control="all", dedup="all")
    old = with_acks(result("old", day=2), control="1", dedup="1")
    assert told(new, old) == {"the producer's acks": ("confounder", "all", "1")}


def without_settings(name: str, **of_runs: Any) -> Result:
    """A result without settings in force, and with these changes of its runs."""
    made = result(name, day=2)
    rows = tuple(row.model_copy(update={"settings": {}}) for row in made.summary.systems)
    runs = tuple(run.model_copy(update=of_runs) for run in made.summary.runs)
    return made._replace(summary=made.summary.model_copy(update={"systems": rows, "runs": runs, "machines": ()}))


def test_an_older_summary_has_no_settings_and_that_is_no_difference() -> None:
    older = without_settings("older", pace=None)
    assert told(result("new"), older) == {}
    assert any(line.startswith("older: an older dedup made its summary") for line in noted(result("new"), older))


@pytest.mark.parametrize("of_runs", [{"pace": None, "counts": None}, {}], ids=["no history", "a client without any"])
def test_a_summary_without_settings_is_not_always_an_older_one(of_runs: dict[str, Any]) -> None:
    """No run has a history; or a client of the user's own has told no settings, and its rates are known."""
    assert not any("older" in line for line in noted(result("new"), without_settings("empty", **of_runs)))


@pytest.mark.parametrize(
    ("spec", "got"),
    [
        ({"workload": {"messages": 2 * MESSAGES}}, "workload.messages 2000, and 1000 in first"),
        ({"workload": {"messages": MESSAGES, "partitions": 4}}, "workload.partitions 4, and 1 in first"),
        (
            {"workload": {"messages": MESSAGES, "messagesPerSecond": 500}},
            "workload.messagesPerSecond 500, and none in first",
        ),
        (
            {"faults": [{"name": "cut", "at": {"message": 100}, "killTCP": {"duration": "9s"}}]},
            "faults[0].killTCP.duration 9s, and 2s in first",
        ),
        ({"faults": []}, "faults[0].name none, and cut in first"),
        (
            {"variants": [{"name": "dedup", "deduplication": "Enabled", "expect": "AtLeastOnce"}]},
            "variants.dedup.expect AtLeastOnce, and ExactlyOnce in first",
        ),
        (
            {"variants": [{"name": "other", "deduplication": "Enabled", "expect": "ExactlyOnce"}]},
            "variants other, and first has control, dedup",
        ),
    ],
)
def test_results_of_different_questions_are_refused(spec: dict[str, Any], got: str) -> None:
    other = Result("other", kafka(**spec), result("other").summary)
    other = other._replace(summary=other.summary.model_copy(update={"runs": ()}))
    with pytest.raises(SpecificationError) as refused:
        check_comparable([result("first"), other])
    assert str(refused.value).startswith(f"other: got {got}")
    assert "\n" not in str(refused.value)


def drawing(seed: int = 1, **operation: Any) -> Result:
    """A result with one written fault and those that the seed draws in 30 seconds: resets, if nothing else is said."""
    kind = operation or {"killTCP": {"duration": "1s"}}
    random = {"duration": "30s", "operations": [{"name": "drawn", "every": "5s", **kind}]}
    return result(f"drawn-by-{seed}", day=2)._replace(experiment=kafka(random=random, seed=seed))


@pytest.mark.parametrize(
    ("other", "got"),
    [
        (drawing(kill={"restartAfter": "1s"}), "faults[1].kill.restartAfter 1s, and none in drawn-by-1"),
        (drawing(seed=2), "faults[1].at.after "),
        (result("other"), "faults[1].name none, and drawn-1 in drawn-by-1"),
    ],
)
def test_other_drawn_faults_are_another_question(other: Result, got: str) -> None:
    other = other._replace(summary=other.summary.model_copy(update={"runs": ()}))
    with pytest.raises(SpecificationError) as refused:
        check_comparable([drawing(), other])
    assert got in str(refused.value)


def test_the_same_drawn_faults_are_the_same_question_and_so_is_another_seed_that_draws_none() -> None:
    check_comparable([drawing(), drawing()._replace(summary=result("again", day=3).summary)])
    check_comparable([result("first"), result("other", kafka(seed=2), day=2)])


def test_more_runs_on_another_version_with_a_variant_more_are_not_refused() -> None:
    variants = [each.model_dump(mode="json", by_alias=True) for each in kafka().spec.variants]
    more = kafka("3.9.0", runs=2, variants=[*variants, {**variants[1], "name": "more"}])
    check_comparable([result("first"), result("other", more, day=2)])


def test_the_same_runs_are_no_evidence_twice() -> None:
    with pytest.raises(SpecificationError, match="copy: got 20 of 20 runs that are runs of first, too; "):
        compare([result("first"), result("copy")])
    compare([result("first"), result("again", day=2)])


def mixed(shared: int, **changes: Any) -> Result:
    """A copy of a folder that was made after so many runs, and finished on another day."""
    copied, own = result("first").summary, result("again", day=2).summary
    runs = tuple(
        run.model_copy(update=changes) if number < shared else other
        for number, (run, other) in enumerate(zip(copied.runs, own.runs, strict=True))
    )
    return result("mixed")._replace(summary=own.model_copy(update={"runs": runs}))


@pytest.mark.parametrize("shared", [1, 19])
def test_a_single_run_that_two_results_share_is_no_evidence_twice(shared: int) -> None:
    with pytest.raises(SpecificationError) as refused:
        compare([result("first"), result("third", day=3), mixed(shared)])
    assert str(refused.value) == (
        f"mixed: got {shared} of 20 runs that are runs of first, too; a comparison needs two executions; "
        "the same runs are no evidence twice; name another result, or run one of the two again in a folder of its own"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"pace": Pace(acknowledged_per_second=997.5, longest_pause_s=2.1)},
        {"attempt": 2},
        {"recorded_at": "2026-11-01T12:01:01Z"},
        {"recorded_at": None},
    ],
)
def test_runs_that_two_clusters_recorded_in_one_second_or_that_say_nothing_are_not_shared(
    changes: dict[str, Any],
) -> None:
    assert len(compare([result("first"), mixed(1, **changes)]).sides) == 2


def test_of_a_run_whose_pace_is_not_known_the_time_is_enough() -> None:
    with pytest.raises(SpecificationError, match="mixed: got 3 of 20 runs"):
        compare([result("first"), mixed(3, pace=None)])
