"""Which of a run's attempts is its result, and what the others were.

Of several attempts the first that may not be repeated is the result (dedup/endings.py): a history, or a failure after
the first message. A history made later than that is judged all the same, since a witness stands wherever it is found;
but it can never take the result's place: who may choose between attempts can have any verdict.
"""

from collections.abc import Iterator, Sequence

from dedup.endings import NO_TRACE, NO_WORD, Kind, Repetition
from dedup.plans import Run
from dedup.verdicts import Code, Demand, Evidence, Reason, RunVerdict, Verdict, judge_run, worst


def judge_attempts(attempts: Sequence[Evidence], demand: Demand, run: Run) -> RunVerdict:
    """The verdict on a run of which there may be several attempts, in any order."""
    in_order = sorted(attempts, key=lambda attempt: attempt.attempt)
    standing = [attempt for attempt in in_order if attempt.ending is None or not attempt.ending.repeatable]
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
    return _with_errors(judged, errors) if errors else judged


def repetitions(attempts: Sequence[Evidence], judged: RunVerdict) -> Iterator[Repetition]:
    """The attempts without a history beside the one that was judged, those of which nothing is left among them."""
    found = {attempt.attempt: attempt for attempt in attempts}
    for number in range(1, max(found, default=0) + 1):
        attempt = found.get(number)
        if number == judged.attempt or (attempt is not None and attempt.manifest is not None):
            continue
        ending = attempt.ending if attempt else None
        if attempt is None:
            kind, reason = Kind.INTERRUPTED, NO_TRACE
        elif ending is None:
            kind, reason = Kind.FAILED, attempt.problem or NO_WORD
        else:
            kind, reason = ending.kind, ending.reason or NO_WORD
        yield Repetition(run_id=judged.run_id, attempt=number, kind=kind, reason=reason)


def _with_errors(judged: RunVerdict, errors: Sequence[str]) -> RunVerdict:
    """A verdict beside which the tester has done what it must not do."""
    reasons = (
        *(reason for reason in judged.reasons if reason.verdict is not Verdict.PASS),
        *(Reason(verdict=Verdict.ERROR, code=Code.JUDGED_TWICE, text=text) for text in errors),
    )
    return judged.model_copy(
        update={"verdict": worst(reason.verdict for reason in reasons), "reasons": reasons, "effective": False}
    )
