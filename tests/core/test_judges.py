"""Who judged, and what a history without a manifest may say: each rule with its innocent twin."""

import pytest
from tests.core.evidences import RUN, codes, duplicates, evidence

from dedup.experiment.spec import Expectation
from dedup.judgement.anomalies import Engine
from dedup.judgement.verdicts import JUDGES, Code, Evidence, Verdict, judge_alone
from dedup.wire.manifests import Deduplication


def asked_alone(engine: Engine, counted: dict[str, int] | None = None) -> Evidence:
    both = evidence(RUN, counted)
    answers = {"spark": None, "oracle": None, "local": None} | {str(engine): both.spark}
    return both.model_copy(update={"alone": engine, **answers})


@pytest.mark.parametrize("engine", Engine)
def test_the_verdict_of_one_judge_stands_if_it_alone_was_asked_and_says_so(engine: Engine) -> None:
    verdict = judge_alone(asked_alone(engine), Expectation.EXACTLY_ONCE)
    assert (verdict.verdict, codes(verdict)[-1]) == (Verdict.PASS, Code.ONE_JUDGE)
    assert verdict.reasons[-1].text == f"{JUDGES[engine]} alone judged, as asked"
    assert judge_alone(asked_alone(engine, duplicates()), Expectation.EXACTLY_ONCE).verdict is Verdict.FAIL


@pytest.mark.parametrize("engine", Engine)
def test_the_one_that_was_asked_has_to_answer_and_without_being_asked_alone_both_have(engine: Engine) -> None:
    silent = asked_alone(engine).model_copy(update={str(engine): None})
    verdict = judge_alone(silent, Expectation.EXACTLY_ONCE)
    assert (verdict.verdict, codes(verdict)) == (Verdict.ERROR, [Code.UNVERIFIED])
    assert "the judge that was asked" in verdict.reasons[0].text
    both = asked_alone(engine).model_copy(update={"alone": None})
    assert codes(judge_alone(both, Expectation.EXACTLY_ONCE)) == [Code.UNVERIFIED]


def by_local(counted: dict[str, int] | None = None) -> Evidence:
    """Of a small history: the local engine was asked instead of Spark, and the oracle beside it."""
    both = evidence(RUN, counted)
    return both.model_copy(update={"spark": None, "local": both.spark})


def test_the_local_engine_may_stand_for_spark_and_the_words_say_so() -> None:
    verdict = judge_alone(by_local(), Expectation.EXACTLY_ONCE)
    assert (verdict.verdict, verdict.reasons[-1].text) == (Verdict.PASS, "the local engine and the oracle agree")
    assert judge_alone(by_local(duplicates()), Expectation.EXACTLY_ONCE).verdict is Verdict.FAIL


def test_the_local_engine_and_the_oracle_disagree_like_spark_and_the_oracle() -> None:
    lone = by_local(duplicates()).model_copy(update={"oracle": by_local().oracle})
    verdict = judge_alone(lone, Expectation.EXACTLY_ONCE)
    assert (verdict.verdict, codes(verdict)) == (Verdict.ERROR, [Code.DISAGREEMENT])
    assert verdict.reasons[0].text.startswith("the local engine and the oracle disagree, so neither accuses: ")


def bare(counted: dict[str, int] | None = None) -> Evidence:
    """What was made from rows alone: deduplication is nobody's word."""
    unproven = Deduplication(asked=False, in_force=None, proof="none")
    whole = evidence(RUN, counted, faults=())
    assert whole.manifest is not None
    made = whole.manifest.model_copy(update={"deduplication": unproven})
    return whole.model_copy(update={"bare": True, "manifest": made})


def test_without_a_manifest_pass_becomes_inconclusive_unless_it_is_trusted() -> None:
    for expectation in (Expectation.EXACTLY_ONCE, Expectation.NONE):
        verdict = judge_alone(bare(), expectation)
        assert (verdict.verdict, codes(verdict)) == (Verdict.INCONCLUSIVE, [Code.NO_MANIFEST])
        verdict = judge_alone(bare(), expectation, trusted=True)
        assert (verdict.verdict, codes(verdict)) == (
            Verdict.PASS,
            [Code.CLEAN, Code.CALM, Code.TRUSTED, Code.AGREEMENT],
        )


def test_without_a_manifest_fail_stands_and_a_contradiction_is_the_files_own() -> None:
    verdict = judge_alone(bare(duplicates()), Expectation.EXACTLY_ONCE)
    assert (verdict.verdict, codes(verdict)) == (Verdict.FAIL, ["values_with_duplicates", "duplicate_jump_backward"])
    verdict = judge_alone(bare({"position_conflicts": 1}), Expectation.EXACTLY_ONCE, trusted=True)
    assert (verdict.verdict, verdict.void) == (Verdict.ERROR, True)
    assert "these files contradict themselves" in verdict.reasons[0].text


def test_trust_is_for_histories_without_a_manifest_only() -> None:
    unproven = bare().model_copy(update={"bare": False})
    verdict = judge_alone(unproven, Expectation.EXACTLY_ONCE, trusted=True)
    assert (verdict.verdict, codes(verdict)) == (Verdict.ERROR, [Code.FORCE_UNPROVEN])
