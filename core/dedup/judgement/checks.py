"""The verdict of `dedup check`: two short runs before a running system, with chosen replies lost.

The fault is a reply that the broker sent and the client never got, so that the client sends the message again. Each
loss is proven by the conversation: the broker's own answer, without an error, that was not passed on. A half whose
replies were not all lost in this way proves nothing. The check passes only if the control stored copies and the
treatment, which lost the same replies, did not.
"""

from collections.abc import Iterator, Sequence

from pydantic import Field

from dedup.experiment.spec import Expectation
from dedup.judgement.counts import COPIES, Counts
from dedup.judgement.verdicts import PRECEDENCE, Code, Reason, RunVerdict, Verdict, is_treatment, worst
from dedup.wire.manifests import Record


class Loss(Record):
    """A reply to a batch that was taken from the client."""

    message: int = Field(description="the number of its batch, from 1; a batch holds one message")
    partition: int
    offset: int = Field(description="where the broker says that it stored it")
    error_code: int = Field(description="the broker's answer; 0: stored")
    producer_id: int = Field(description="-1: the producer was not idempotent")
    base_sequence: int = Field(description="-1: the producer was not idempotent")
    monotonic_ns: int


class Half(Record):
    """The run of one variant."""

    variant: str
    expectation: Expectation
    topic: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    counts: Counts | None
    losses: tuple[Loss, ...]
    seconds: float


class Check(Record):
    """The whole: what was asked, and what came of it."""

    url: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    halves: tuple[Half, ...]
    versions: dict[str, str]
    seconds: float
    folder: str | None = Field(None, description="where the histories are, if they were to be kept")


def half(
    judged: RunVerdict,
    losses: Sequence[Loss],
    asked: int,
    seen: int,
    problems: Sequence[str],
    *,
    topic: str,
    seconds: float,
) -> Half:
    """The verdict on one variant's run: that on its history, and whether the fault provably struck as asked.

    `seen`: how many messages passed through the interposer; `problems`: what it could not do.
    """
    reasons = [reason for reason in judged.reasons if reason.code != Code.CALM]  # it knows nothing of the losses
    reasons += _of_fault(losses, asked)
    sent = judged.counts.send if judged.counts is not None else seen
    if seen < sent:
        went_past = f"the interposer saw {seen:,} of {sent:,} messages: the client reached a broker past it"
        reasons.append(Reason(verdict=Verdict.ERROR, code=Code.PROBLEM, text=went_past))
    reasons += [Reason(verdict=Verdict.ERROR, code=Code.PROBLEM, text=each) for each in problems]
    return Half(
        variant=judged.variant,
        expectation=judged.expectation,
        topic=topic,
        verdict=worst(reason.verdict for reason in reasons),
        reasons=tuple(reasons),
        counts=judged.counts,
        losses=tuple(losses),
        seconds=seconds,
    )


def conclude(halves: Sequence[Half], unfair: Sequence[str] = ()) -> tuple[Verdict, tuple[Reason, ...]]:
    """The verdict of the whole and the reasons for it, the worst first, each with its variant's name.

    `unfair`: where control and treatment differ besides the switch under test.
    """
    told = [
        Reason(verdict=reason.verdict, code=reason.code, text=f"{each.variant}: {reason.text}")
        for each in halves
        for reason in each.reasons
        if reason.verdict is not Verdict.PASS
    ]
    told += [Reason(verdict=Verdict.ERROR, code=Code.VARIANTS_DIFFER, text=each) for each in unfair]
    told.sort(key=lambda reason: PRECEDENCE.index(reason.verdict))
    verdict = worst([*(each.verdict for each in halves), *(reason.verdict for reason in told)])
    return verdict, tuple(told) if told else tuple(_merits(halves))


def _of_fault(losses: Sequence[Loss], asked: int) -> Iterator[Reason]:
    stored = {loss.message for loss in losses if loss.error_code == 0}
    if len(stored) < asked:
        missed = f"only {len(stored)} of {asked} replies to messages that the broker had stored were lost"
        yield Reason(verdict=Verdict.INCONCLUSIVE, code=Code.FAULT_VACUOUS, text=missed)
    else:
        struck = f"{asked} of {asked} replies were lost after the broker had stored the message"
        yield Reason(verdict=Verdict.PASS, code=Code.FAULT_STRUCK, text=struck)


def _merits(halves: Sequence[Half]) -> Iterator[Reason]:
    for each in halves:
        copies = getattr(each.counts, COPIES) if each.counts is not None else 0
        lost = f"{len(each.losses)} replies were lost, and"
        what = "none was stored twice, lost or misordered" if is_treatment(each.expectation) else ""
        code = Code.CLEAN if what else Code.CONTROL_CONVINCING
        text = f"{each.variant}: {lost} {what or f'{copies:,} messages were stored more than once'}"
        yield Reason(verdict=Verdict.PASS, code=code, text=text)
