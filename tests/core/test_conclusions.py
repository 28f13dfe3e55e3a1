"""What an experiment adds to its runs: all of them, alike but for the switch, a control that convinces, enough runs."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.core.evidences import CUT, MESSAGES, all_evidence, duplicates, evidence, experiment, manifest, verification

from dedup.experiment.plans import Run, plan
from dedup.experiment.spec import Experiment
from dedup.experiment.statistics import rate_bound
from dedup.judgement.conclusions import ExperimentVerdict, GroupVerdict, Strength, conclude, differences
from dedup.judgement.verdicts import Code, Evidence, Verdict

LOST = {"not_received": 1, "received": MESSAGES - 1}
TREATMENT = {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}
CONTROL = {"name": "control", "deduplication": "Disabled", "expect": "Duplicates"}


def group(concluded: ExperimentVerdict, variant: str) -> GroupVerdict:
    return next(each for each in concluded.systems if each.variant == variant)


def codes(concluded: ExperimentVerdict | GroupVerdict) -> list[str]:
    return [reason.code for reason in concluded.reasons]


def changed(made: Experiment, found: list[Evidence], run_id: str, **update: Any) -> list[Evidence]:
    """The same evidence with one run's changed."""
    assert any(run.run_id == run_id for run in plan(made))
    return [each.model_copy(update=update) if each.run_id == run_id else each for each in found]


def with_copies(made: Experiment, shows: Callable[[Run], bool], **changes: Any) -> list[Evidence]:
    """Evidence of every run, with these changes; those of which `shows` is true show duplicates."""
    return [
        evidence(
            run,
            duplicates() if shows(run) else {},
            deduplication=run.variant != "control",
            spec_digest=made.digest(),
            **changes,
        )
        for run in plan(made)
    ]


def clean_controls(made: Experiment, number: int) -> list[Evidence]:
    """Evidence of every run; so many of the control's show no duplicate."""
    return with_copies(made, lambda run: run.variant == "control" and run.number > number)


def test_a_convincing_experiment_passes_and_says_why() -> None:
    made = experiment()
    concluded = conclude(made, all_evidence(made))
    assert (concluded.verdict, concluded.exit_code) == (Verdict.PASS, 0)
    assert [reason.text for reason in concluded.reasons] == [
        "kafka: control: copies in 2 of 2 effective runs in the time of fault cut "
        "(Fisher's p against the treatment: 0.167)",
        "kafka: dedup: 2 clean effective runs: fewer than 77.7% of runs go wrong "
        "(95 % confidence, if runs are independent)",
    ]
    control, treatment = concluded.systems
    assert (control.runs, control.effective_runs, control.runs_with_copies, control.strength) == (2, 2, 2, None)
    assert (treatment.runs_with_copies, treatment.p_value) == (0, None)
    assert treatment.strength is not None
    assert (treatment.strength.clean_runs, round(treatment.strength.rate_bound, 4)) == (2, 0.7764)
    assert [run.run_id for run in concluded.runs] == [run.run_id for run in plan(made)]


def test_one_witness_fails_the_experiment() -> None:
    made = experiment()
    concluded = conclude(made, all_evidence(made, dedup=duplicates()))
    assert (concluded.verdict, concluded.exit_code) == (Verdict.FAIL, 1)
    assert codes(concluded) == ["values_with_duplicates", "duplicate_jump_backward"]
    assert concluded.reasons[0].text.startswith("kafka-dedup-00")
    assert concluded.reasons[0].text.endswith("(so 2 of 2 runs)")
    assert group(concluded, "control").verdict is Verdict.PASS


def test_a_control_must_not_lose() -> None:
    made = experiment()
    assert conclude(made, all_evidence(made, control={**duplicates(), **LOST})).verdict is Verdict.FAIL


# Every planned run, once.


def test_a_missing_run_is_an_error_and_its_failure_is_told() -> None:
    made = experiment()
    found = all_evidence(made)
    concluded = conclude(made, found[1:])
    assert (concluded.verdict, concluded.exit_code, codes(concluded)) == (Verdict.ERROR, 4, [Code.MISSING])
    assert "it was never finished" in concluded.reasons[0].text
    broken = Evidence(run_id=found[0].run_id, attempt=2, problem="Produce: the broker died")
    concluded = conclude(made, [broken, *found[1:]])
    assert "the broker died" in concluded.reasons[0].text
    assert concluded.runs[0].attempt == 2


def test_no_evidence_at_all_is_an_error() -> None:
    concluded = conclude(experiment(), [])
    assert concluded.verdict is Verdict.ERROR
    assert "so 2 of 2 runs" in concluded.reasons[0].text


def test_a_missing_run_does_not_silence_a_witness() -> None:
    made = experiment()
    only = [each for each in all_evidence(made, dedup=duplicates()) if each.run_id == "kafka-dedup-001"]
    assert conclude(made, only).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("first", "second", "verdict"), [({}, {}, "error"), (duplicates(), {}, "fail"), ({}, duplicates(), "fail")]
)
def test_a_finished_run_is_never_replaced(first: dict[str, int], second: dict[str, int], verdict: str) -> None:
    """Who may choose between two histories can have any verdict: the first counts, and a second is an error.

    A witness stands wherever it is found: one in the second history was not looked for.
    """
    made = experiment()
    run = next(run for run in plan(made) if run.variant == "dedup")
    pair = [
        evidence(run, counted, attempt=attempt, spec_digest=made.digest())
        for attempt, counted in ((2, second), (1, first))
    ]
    others = [each for each in all_evidence(made) if each.run_id != run.run_id]
    concluded = conclude(made, [*others, *pair])
    assert concluded.verdict == verdict
    judged = next(each for each in concluded.runs if each.run_id == run.run_id)
    assert (judged.attempt, judged.effective) == (1, False)
    assert Code.JUDGED_TWICE in [reason.code for reason in judged.reasons]
    assert any("attempt 2, which came later: 50 values" in each.text for each in judged.reasons) is bool(second)


def test_its_twin_is_not_told_of_what_else_is_wrong_with_the_second() -> None:
    """That it is there is the error; what is in doubt about it says nothing of the run."""
    made = experiment()
    found = all_evidence(made)
    second = found[0].model_copy(update={"attempt": 2, "vacuous": {"cut": "fault cut: no client noticed it"}})
    judged = conclude(made, [*found, second]).runs[0]
    assert [reason.code for reason in judged.reasons] == [Code.JUDGED_TWICE]


def test_a_run_of_another_plan_is_an_error() -> None:
    made = experiment()
    larger = experiment(runs=3)
    stray = [each for each in all_evidence(larger) if each.run_id == "kafka-dedup-003"]
    assert codes(conclude(made, all_evidence(made) + stray)) == [Code.ANOTHER_RUN]
    assert conclude(made, all_evidence(larger)).verdict is Verdict.ERROR


def test_one_doubtful_run_makes_the_experiment_inconclusive() -> None:
    made = experiment()
    found = changed(made, all_evidence(made), "kafka-dedup-002", vacuous={"cut": "fault cut: no client noticed it"})
    concluded = conclude(made, found)
    assert (concluded.verdict, concluded.exit_code) == (Verdict.INCONCLUSIVE, 3)
    assert concluded.reasons[0].text == "kafka-dedup-002: fault cut: no client noticed it"
    treatment = group(concluded, "dedup")
    assert (treatment.effective_runs, treatment.strength) == (1, Strength(clean_runs=1, rate_bound=rate_bound(1)))


def test_error_stands_over_inconclusive() -> None:
    made = experiment()
    found = changed(made, all_evidence(made), "kafka-dedup-002", vacuous={"cut": "no client noticed it"})
    assert conclude(made, changed(made, found, "kafka-control-001", oracle=None)).verdict is Verdict.ERROR


def test_judges_that_disagree_on_one_run_make_it_an_error() -> None:
    made = experiment()
    oracle = verification("oracle", **duplicates())
    concluded = conclude(made, changed(made, all_evidence(made), "kafka-dedup-001", oracle=oracle))
    assert (concluded.verdict, codes(concluded)) == (Verdict.ERROR, [Code.DISAGREEMENT])


# The control.


def test_a_clean_control_proves_nothing_and_its_twin_with_one_duplicating_run_does() -> None:
    made = experiment(runs=4)
    concluded = conclude(made, clean_controls(made, 4))
    assert (concluded.verdict, codes(concluded)) == (Verdict.INCONCLUSIVE, [Code.CONTROL_CLEAN])
    concluded = conclude(made, clean_controls(made, 3))
    assert concluded.verdict is Verdict.PASS
    assert group(concluded, "control").runs_with_copies == 1


def test_copies_in_a_run_without_an_effective_fault_do_not_convince() -> None:
    made = experiment()
    found = clean_controls(made, 1)
    vacuous = changed(made, found, "kafka-control-002", vacuous={"cut": "it touched another broker"})
    assert codes(conclude(made, vacuous)) == [Code.FAULT_VACUOUS, Code.CONTROL_CLEAN]


def attributed(made: Experiment, found: list[Evidence], run_id: str, **copies: int) -> list[Evidence]:
    """The same evidence; both judges put the copies of one run down to these faults."""
    (said,) = (each.spark for each in found if each.run_id == run_id)
    assert said is not None
    spark, oracle = (said.model_copy(update={"engine": e, "copies_during": copies}) for e in ("spark", "oracle"))
    return changed(made, found, run_id, spark=spark, oracle=oracle)


def test_copies_outside_the_time_of_the_fault_do_not_convince_and_their_twin_does() -> None:
    made = experiment()
    found = clean_controls(made, 1)
    concluded = conclude(made, attributed(made, found, "kafka-control-002", cut=0))
    assert (concluded.verdict, codes(concluded)) == (Verdict.INCONCLUSIVE, [Code.CONTROL_UNCONVINCING])
    assert concluded.reasons[0].text == (
        "kafka: control: copies in 1 of 2 effective runs, but none in the time of fault cut: "
        "that it can cause any is not shown"
    )
    assert group(concluded, "control").runs_with_copies == 1
    assert conclude(made, attributed(made, found, "kafka-control-002", cut=1)).verdict is Verdict.PASS


def test_copies_during_another_fault_do_not_convince_of_this_one_and_their_twin_in_another_run_does() -> None:
    faults = [
        {"name": n, "at": {"message": at}, "killTCP": {"duration": "2s"}} for n, at in (("cut", 100), ("more", 300))
    ]
    made = experiment(faults=faults)
    records = (CUT, CUT.model_copy(update={"name": "more", "requested_message": 300}))
    found = with_copies(made, lambda run: run.variant == "control", faults=records)
    concluded = conclude(made, found)
    assert (concluded.verdict, codes(concluded)) == (Verdict.INCONCLUSIVE, [Code.CONTROL_UNCONVINCING])
    assert "none in the time of fault more" in concluded.reasons[0].text
    concluded = conclude(made, attributed(made, found, "kafka-control-002", cut=0, more=7))
    assert concluded.verdict is Verdict.PASS
    assert "copies in 1 of 2 effective runs in the time of fault cut" in concluded.reasons[0].text


def test_copies_outside_the_time_of_the_fault_carry_no_confidence() -> None:
    made = experiment(runs=3, confidencePercent=95)
    found = all_evidence(made)
    assert conclude(made, found).verdict is Verdict.PASS
    concluded = conclude(made, attributed(made, found, "kafka-control-001", cut=0))
    assert codes(concluded) == [Code.CONTROL_UNCONVINCING]
    assert "copies in 2 of 3 effective runs in the time of fault cut" in concluded.reasons[0].text


def test_judges_that_put_copies_down_to_different_faults_disagree() -> None:
    made = experiment()
    found = all_evidence(made)
    (said,) = (each.oracle for each in found if each.run_id == "kafka-control-001")
    assert said is not None
    oracle = said.model_copy(update={"copies_during": {"cut": 49}})
    assert codes(conclude(made, changed(made, found, "kafka-control-001", oracle=oracle))) == [Code.DISAGREEMENT]


def test_each_system_needs_its_own_control() -> None:
    made = experiment(systems=[{"name": "kafka", "kafka": {}}, {"name": "other", "kafka": {}}])
    concluded = conclude(made, with_copies(made, lambda run: (run.system, run.variant) == ("kafka", "control")))
    assert [each.verdict for each in concluded.systems] == ["pass", "pass", "inconclusive", "pass"]
    assert concluded.reasons[0].text.startswith("other: control: no value was read twice")


def test_without_a_control_a_pass_says_so() -> None:
    made = experiment(variants=[TREATMENT])
    concluded = conclude(made, all_evidence(made))
    assert (concluded.verdict, codes(concluded)) == (Verdict.PASS, [Code.STRENGTH, Code.NO_CONTROL])


def test_a_variant_of_which_nothing_is_expected() -> None:
    made = experiment(variants=[CONTROL, TREATMENT, {"name": "odd", "deduplication": "Disabled", "expect": "None"}])
    concluded = conclude(made, all_evidence(made))
    assert concluded.verdict is Verdict.PASS
    assert (codes(group(concluded, "odd")), group(concluded, "odd").strength) == ([Code.CLEAN], None)


# Confidence.


@pytest.mark.parametrize(
    ("runs", "clean", "verdict", "reason"),
    [
        (2, 0, "inconclusive", Code.TOO_FEW_RUNS),
        (3, 0, "pass", Code.CONTROL_CONVINCING),
        (3, 1, "inconclusive", Code.CONTROL_UNCONVINCING),
        (5, 1, "pass", Code.CONTROL_CONVINCING),
        (5, 5, "inconclusive", Code.CONTROL_CLEAN),
        (50, 37, "pass", Code.CONTROL_CONVINCING),
    ],
)
def test_the_numbers_must_carry_the_confidence(runs: int, clean: int, verdict: str, reason: Code) -> None:
    """Three against three are exactly 1/20. The last row is S0's weakest control: copies in 13 of 50 runs."""
    made = experiment(runs=runs, confidencePercent=95)
    concluded = conclude(made, clean_controls(made, clean))
    assert concluded.verdict == verdict
    assert reason in codes(concluded)
    assert conclude(experiment(runs=2), all_evidence(experiment(runs=2))).verdict is Verdict.PASS


def test_confidence_counts_effective_runs_only() -> None:
    made = experiment(runs=3, confidencePercent=95)
    found = changed(made, all_evidence(made), "kafka-dedup-002", vacuous={"cut": "no client noticed it"})
    concluded = conclude(made, found)
    assert codes(group(concluded, "dedup")) == [Code.FAULT_VACUOUS, Code.TOO_FEW_RUNS]
    said = (
        "kafka: control has 3 effective runs of 3, and dedup 2 of 3: too few for 95 % confidence; "
        "3 of each variant would be enough at best"
    )
    assert group(concluded, "dedup").reasons[1].text == said
    assert [reason.text for reason in group(concluded, "control").reasons] == [said]
    assert [reason.text for reason in concluded.reasons].count(said) == 1


def test_copies_under_treatment_weaken_the_control_but_do_not_unmake_it() -> None:
    made = experiment(runs=3, confidencePercent=95)
    run = next(run for run in plan(made) if run.run_id == "kafka-dedup-001")
    others = [each for each in all_evidence(made) if each.run_id != run.run_id]
    found = [*others, evidence(run, duplicates(), spec_digest=made.digest())]
    concluded = conclude(made, found)
    assert concluded.verdict is Verdict.FAIL
    assert codes(group(concluded, "control")) == [Code.CONTROL_UNCONVINCING]


def test_a_confidence_without_anything_to_compare_with_is_never_reached() -> None:
    made = experiment(variants=[CONTROL], confidencePercent=50)
    assert codes(conclude(made, all_evidence(made))) == [Code.CONTROL_UNCONVINCING]


@pytest.mark.parametrize("expect", ["ExactlyOnce", "AtLeastOnce", "AtMostOnce", "None"])
def test_a_confidence_without_a_control_is_never_reached(expect: str) -> None:
    """A treatment was compared with itself, so that three clean runs passed for 95 % confidence."""
    made = experiment(variants=[TREATMENT | {"expect": expect}], runs=50, confidencePercent=95)
    concluded = conclude(made, all_evidence(made))
    assert (concluded.verdict, codes(concluded)) == (Verdict.INCONCLUSIVE, [Code.NOTHING_COMPARED])
    assert "there is no control: nothing was compared" in concluded.reasons[0].text
    made = experiment(variants=[TREATMENT | {"expect": expect}], runs=50)
    assert conclude(made, all_evidence(made)).verdict is Verdict.PASS


@pytest.mark.parametrize("expect", ["AtLeastOnce", "None"])
def test_a_control_beside_what_allows_copies_is_not_compared_with_it(expect: str) -> None:
    other = {"name": "other", "deduplication": "Enabled", "expect": expect}
    made = experiment(variants=[CONTROL, other], runs=3, confidencePercent=95)
    concluded = conclude(made, all_evidence(made))
    assert codes(concluded) == [Code.CONTROL_UNCONVINCING, Code.NOTHING_COMPARED]
    assert "there is no treatment" in concluded.reasons[1].text
    made = experiment(variants=[CONTROL, TREATMENT, other], runs=3, confidencePercent=95)
    assert conclude(made, all_evidence(made)).verdict is Verdict.PASS


def test_the_weakest_treatment_decides_the_controls_p_value() -> None:
    made = experiment(variants=[CONTROL, TREATMENT, TREATMENT | {"name": "other"}], runs=3)
    concluded = conclude(made, all_evidence(made, other=duplicates()))
    assert group(concluded, "control").p_value == 1.0


# Alike but for the switch.


@pytest.mark.parametrize(
    "changes",
    [
        {"producer": {"effective_config": {"acks": "1"}}},
        {"producer": {"library_version": "2.17.0"}},
        {"versions": {"broker": "4.3.2"}},
    ],
)
def test_runs_of_a_system_that_differ_in_more_than_the_switch(changes: dict[str, Any]) -> None:
    made = experiment()
    changed_runs = {
        each.run_id: each for each in with_copies(made, lambda _run: False, **changes) if "dedup" in each.run_id
    }
    concluded = conclude(made, [changed_runs.get(each.run_id, each) for each in all_evidence(made)])
    assert (concluded.verdict, set(codes(concluded))) == (Verdict.ERROR, {Code.VARIANTS_DIFFER})


def test_what_may_differ_between_runs() -> None:
    """The switch itself, names made from the run's, addresses that change when brokers start anew, our version."""
    made = experiment()
    manifests = [
        manifest(
            run,
            deduplication=run.variant == "dedup",
            versions={"broker": "4.3.1", "dedup": f"0.{run.number}"},
            producer={
                "effective_config": {
                    "client.id": f"{run.run_id}-1",
                    "bootstrap.servers": f"127.0.0.1:{run.seed % 60000}",
                    "enable.idempotence": str(run.variant == "dedup"),
                    "max.in.flight": "5",
                }
            },
        )
        for run in plan(made)
    ]
    assert differences(manifests) == []
    config = manifests[0].producer.effective_config | {"max.in.flight": "1"}
    other = manifests[0].producer.model_copy(update={"effective_config": config})
    assert differences([*manifests, manifests[0].model_copy(update={"producer": other})]) == [
        "the producer's max.in.flight is not the same in all runs: 1, 5"
    ]


@pytest.mark.parametrize(
    ("control", "treatment", "found"),
    [
        ({"linger.ms": "5"}, {}, "the producer's linger.ms is not the same in all runs: 5, none"),
        ({}, {"linger.ms": "5"}, "the producer's linger.ms is not the same in all runs: 5, none"),
        (
            {"client.id": "mine"},
            {"client.id": "kafka-dedup-001-1"},
            "the producer's client.id is not the same in all runs: mine, named after the run",
        ),
        ({"client.id": "kafka-control-001-1"}, {"client.id": "kafka-dedup-001-1"}, None),
        ({"bootstrap.servers": "127.0.0.1:9092"}, {}, None),
    ],
)
def test_a_setting_that_one_side_lacks_differs(
    control: dict[str, str], treatment: dict[str, str], found: str | None
) -> None:
    runs = {run.run_id: run for run in plan(experiment())}
    pair = [
        manifest(runs["kafka-control-001"], producer={"effective_config": control}),
        manifest(runs["kafka-dedup-001"], producer={"effective_config": treatment}),
    ]
    assert differences(pair) == ([found] if found else [])


@pytest.mark.parametrize("topic", ["", "kafka-control-001-1"])
def test_a_setting_differs_though_a_manifest_names_no_topic(topic: str) -> None:
    """A name of no letters is in every value, so that each setting seemed to be named after the run."""
    pair = [
        manifest(run, producer={"effective_config": {"acks": acks}}, topic=topic)
        for run, acks in zip(plan(experiment()), ("all", "1"), strict=False)
    ]
    assert differences(pair) == ["the producer's acks is not the same in all runs: 1, all"]


def test_a_version_that_one_side_lacks_differs_but_for_ours() -> None:
    first, second = (manifest(run) for run in plan(experiment())[:2])
    assert differences([first, second.model_copy(update={"versions": {"broker": "4.3.1"}})]) == []
    assert differences([first, second.model_copy(update={"versions": {"dedup": "0.1.0"}})]) == [
        "the version of broker is not the same in all runs: 4.3.1, none"
    ]


def test_a_strength_in_words() -> None:
    assert str(Strength(clean_runs=0, rate_bound=1.0)) == "no clean effective run"
    assert str(Strength(clean_runs=1, rate_bound=0.95)).startswith("1 clean effective run: fewer than 95.0%")
    assert str(Strength(clean_runs=45, failed_runs=5, rate_bound=0.199)) == (
        "5 of 50 runs went wrong: fewer than 19.9% of runs do (95 % confidence, if runs are independent)"
    )
    assert str(Strength(clean_runs=0, failed_runs=2, rate_bound=1.0)) == "2 of 2 runs went wrong"


def failing(made: Experiment, number: int, **changes: Any) -> list[Evidence]:
    """Evidence of every run; so many of the treatment's show duplicates, and differ in `changes`."""
    bad = {run.run_id for run in plan(made) if run.variant == "dedup" and run.number <= number}
    wrong = with_copies(made, lambda run: run.run_id in bad, **changes)
    return [each for each in all_evidence(made) if each.run_id not in bad] + [
        each for each in wrong if each.run_id in bad
    ]


def test_runs_that_failed_widen_the_bound() -> None:
    """Five of 50: 19.9 %, not the 6.4 % of 45 clean runs. The twin has 50 clean ones."""
    made = experiment(runs=50)
    strength = group(conclude(made, failing(made, 5)), "dedup").strength
    assert strength is not None
    assert (strength.clean_runs, strength.failed_runs) == (45, 5)
    assert f"{strength.rate_bound:.1%}" == "19.9%"
    clean = group(conclude(made, all_evidence(made)), "dedup").strength
    assert clean == Strength(clean_runs=50, failed_runs=0, rate_bound=rate_bound(50))


def test_a_failed_run_that_is_not_effective_widens_the_bound_too() -> None:
    """A witness stands beside a broker that died by itself: to leave the run out would flatter the system."""
    made = experiment(runs=4)
    treatment = group(conclude(made, failing(made, 1, problems=("a broker died by itself",))), "dedup")
    assert (treatment.effective_runs, treatment.strength) == (
        3,
        Strength(clean_runs=3, failed_runs=1, rate_bound=rate_bound(4, 1)),
    )


def test_a_fault_that_leaked_once_is_an_error() -> None:
    made = experiment()
    run = next(run for run in plan(made) if run.variant == "dedup")
    leaked = evidence(run, spec_digest=made.digest(), faults=(CUT.model_copy(update={"leaked": True}),))
    others = [each for each in all_evidence(made) if each.run_id != run.run_id]
    assert codes(conclude(made, [*others, leaked])) == [Code.FAULT_LEAKED]
