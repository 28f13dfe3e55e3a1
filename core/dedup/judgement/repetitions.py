"""Which of a run's attempts is its result, and why the others are not.

The result is the first attempt that may not be repeated (dedup/judgement/endings.py): a history, or a failure after the
first message. Later histories are judged too, since a witness counts in every attempt. But they can never replace the
result: a choice between attempts would allow any verdict.

One kind of history may be replaced by the next attempt: one whose manifest records that its faults missed the traffic,
which was known before the topic was read. The budget (`spec.replacements`) is spent in the order of the plan. A
replaced history is judged like any other: all its problems count, except that its faults missed.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from dedup.experiment.plans import Run
from dedup.experiment.spec import Experiment
from dedup.judgement.endings import NO_TRACE, NO_WORD, Kind, Repetition
from dedup.judgement.verdicts import Code, Demand, Evidence, Reason, RunVerdict, Verdict, demand_of, judge_run, worst
from dedup.wire.manifests import Manifest


class Judged(NamedTuple):
    """The verdict on a run, and the attempts that are not its result."""

    verdict: RunVerdict
    repetitions: tuple[Repetition, ...]


def judge_runs(
    experiment: Experiment, runs: Sequence[Run], attempts: Mapping[str, Sequence[Evidence]]
) -> dict[str, Judged]:
    """The verdict on each planned run, from its attempts in any order."""
    judged, budget = {}, experiment.spec.replacements
    for run in runs:
        in_order = sorted(attempts.get(run.run_id, ()), key=lambda attempt: attempt.attempt)
        replaced = _replaced(in_order, budget)
        budget -= len(replaced)
        others = [attempt for attempt in in_order if attempt.attempt not in {each.attempt for each in replaced}]
        demand = demand_of(experiment, run)
        verdict = _held_against(_judge_attempts(others, demand, run), replaced, demand)
        judged[run.run_id] = Judged(verdict, tuple(_repetitions(in_order, verdict, replaced)))
    return judged


def _replaced(in_order: Sequence[Evidence], budget: int) -> list[Evidence]:
    """The histories whose faults missed and that another attempt follows, as many as the budget allows."""
    found: list[Evidence] = []
    for attempt, _next in pairwise(in_order):
        if attempt.manifest is not None and _has_missed(attempt, attempt.manifest) and len(found) < budget:
            found.append(attempt)
        elif _stands(attempt):
            break
    return found


def _has_missed(attempt: Evidence, manifest: Manifest) -> bool:
    """Whether its faults missed: decided before its topic was read, and confirmed by their records."""
    return bool(manifest.missed) and any(why is not None for why in attempt.vacuous.values())


def _stands(attempt: Evidence) -> bool:
    """Whether it is the run's result, unless an earlier one is."""
    return attempt.ending is None or not attempt.ending.repeatable


def _judge_attempts(in_order: Sequence[Evidence], demand: Demand, run: Run) -> RunVerdict:
    standing = [attempt for attempt in in_order if _stands(attempt)]
    finished = [attempt for attempt in in_order if attempt.manifest is not None]
    if not finished:
        result = standing[0] if standing else in_order[-1] if in_order else Evidence(run_id=run.run_id)
        why = "; ".join(attempt.problem for attempt in in_order if attempt.problem) or None
        return judge_run(Evidence(run_id=run.run_id, attempt=result.attempt, problem=why), demand)
    judged = judge_run(finished[0], demand)
    errors = []
    if standing[0].manifest is None:
        how = "failed by itself after its first message" if standing[0].ending else "has no history that can be read"
        errors.append(
            f"attempt {standing[0].attempt} {how} ({standing[0].problem or 'it does not say why'}): that is the run's "
            f"result, and attempt {finished[0].attempt} cannot take its place"
        )
    if len(finished) > 1:
        numbers = ", ".join(str(attempt.attempt) for attempt in finished)
        errors.append(f"attempts {numbers} are all finished; a finished run is never repeated")
    twice = [Reason(verdict=Verdict.ERROR, code=Code.JUDGED_TWICE, text=text) for text in errors]
    later = _against(finished[1:], demand, "which came later")
    return _with(judged, [*(reason for reason in later if reason.verdict is Verdict.FAIL), *twice])


def _held_against(judged: RunVerdict, replaced: Sequence[Evidence], demand: Demand) -> RunVerdict:
    """The verdict with all reasons against the replaced attempts, except the one for which they were replaced."""
    reasons = _against(replaced, demand, "which was replaced")
    return _with(judged, [reason for reason in reasons if reason.code != Code.FAULT_VACUOUS])


def _against(attempts: Sequence[Evidence], demand: Demand, which: str) -> Iterator[Reason]:
    """The reasons against attempts that are not the run's result, in words that say so."""
    for attempt in attempts:
        for reason in judge_run(attempt, demand).reasons:
            if reason.verdict is not Verdict.PASS:
                yield reason.model_copy(update={"text": f"attempt {attempt.attempt}, {which}: {reason.text}"})


def _with(judged: RunVerdict, more: Sequence[Reason]) -> RunVerdict:
    """A verdict with more reasons against it. A witness leaves a run effective; an error or a doubt does not."""
    if not more:
        return judged
    reasons = (*(reason for reason in judged.reasons if reason.verdict is not Verdict.PASS), *more)
    effective = judged.effective and all(reason.verdict is Verdict.FAIL for reason in more)
    verdict = worst(reason.verdict for reason in reasons)
    return judged.model_copy(update={"verdict": verdict, "reasons": reasons, "effective": effective})


def _repetitions(
    in_order: Sequence[Evidence], judged: RunVerdict, replaced: Sequence[Evidence]
) -> Iterator[Repetition]:
    """The attempts other than the one judged, including those of which nothing is left."""
    found = {attempt.attempt: attempt for attempt in in_order}
    for number in range(1, max(found, default=0) + 1):
        attempt = found.get(number)
        is_replaced = number in {each.attempt for each in replaced}
        if number == judged.attempt or (why := _why(attempt, is_replaced)) is None:
            continue
        kind, reason = why
        yield Repetition(run_id=judged.run_id, attempt=number, kind=kind, reason=reason)


def _why(attempt: Evidence | None, is_replaced: bool) -> tuple[Kind, str] | None:
    """Why an attempt is not the run's result; None for a history that was not replaced (a reason covers it)."""
    if attempt is None:
        return Kind.INTERRUPTED, NO_TRACE
    if attempt.manifest is not None:
        return (Kind.MISSED, "; ".join(attempt.manifest.missed)) if is_replaced else None
    if attempt.ending is None:
        return Kind.FAILED, attempt.problem or NO_WORD
    return attempt.ending.kind, attempt.ending.reason or NO_WORD
