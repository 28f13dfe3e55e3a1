"""The verdict on one run.

A verdict is the worst of its reasons: fail > error > inconclusive > pass. So each rule here is a small function that
yields reasons or nothing. The rules are independent, except that some depend on whether there is a witness.

A *witness* is a message that shows an anomaly against the variant's expectation. It accuses a broker, so it counts only
if its evidence is whole. A duplicate needs only the rows that show it. A loss needs a consumer that reached the end: a
message that is not read yet is not lost. A phantom needs a complete sent log: a producer that died may have sent what
it did not record. If the tester contradicts itself (two judges disagree, counts are not those of the manifest, a
position holds two messages), there is no witness: the run is *void*, an error.

Without a witness, a pass needs proof: the history is whole, the end was reached, every planned fault took effect and
healed, the broker proves deduplication, and nothing is left that could hide an anomaly. The rules: docs/design.md §7.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from pydantic import Field

from dedup.experiment.plans import Run
from dedup.experiment.spec import Expectation
from dedup.faults.records import struck
from dedup.judgement import bare
from dedup.judgement.anomalies import MAX_WITNESSES, Engine, OrderEvent, Verification, Witness
from dedup.judgement.codes import Code as Code
from dedup.judgement.counts import (
    CAUSES,
    COPIES,
    COUNTS,
    FORBIDDEN,
    LOSS,
    Basis,
    Counts,
    promises,
    uncertain,
    uncertainty,
)
from dedup.judgement.demands import Demand as Demand
from dedup.judgement.demands import demand_of as demand_of
from dedup.judgement.demands import departures, other_faults, unplanned_sends
from dedup.judgement.endings import Ending
from dedup.judgement.paces import Pace
from dedup.judgement.selfchecks import BACKWARD, contradictions, disagreements, unwitnessed
from dedup.judgement.untold import OF_SOME, untold
from dedup.judgement.verdict_kinds import EXIT_CODES as EXIT_CODES
from dedup.judgement.verdict_kinds import PRECEDENCE as PRECEDENCE
from dedup.judgement.verdict_kinds import Verdict as Verdict
from dedup.judgement.verdict_kinds import worst as worst
from dedup.wire.manifests import Application, FaultRecord, Manifest, Record
from dedup.workloads.kinds import idle_kills, idle_lives, subject_of, subject_seen, unended
from dedup.workloads.subjects import COPIES_IN_LOG
from dedup.workloads.transactions import why_nothing_is_promised

ORACLE_LIMIT: Final = 1_000_000
"""Up to so many messages a run must have been judged by the oracle, too."""

READS: Final = ("received", "processed")
UNCERTAIN_SHARE: Final = 0.01
"""If this share of sends, or more, ended unknown or failed, a claim of no loss proves too little."""


class Reason(Record):
    """One reason, and the verdict that it would give by itself."""

    verdict: Verdict
    code: str
    text: str


class Evidence(Record):
    """What is known of one attempt of a run. Without a manifest there is no history, and `problem` is the reason."""

    run_id: str
    attempt: int = 1
    manifest: Manifest | None = None
    damages: tuple[str, ...] = Field((), description="dedup.history.histories.damages")
    spark: Verification | None = None
    oracle: Verification | None = Field(None, description=f"may be None above {ORACLE_LIMIT:,} messages only")
    local: Verification | None = Field(None, description="Spark's method in one process, asked instead of Spark")
    vacuous: dict[str, str | None] = Field(
        default_factory=dict, description="fault -> why it proves nothing, None if it struck (dedup.faults.records)"
    )
    problem: str | None = Field(None, description="why there is no manifest, or how a judge crashed")
    ending: Ending | None = Field(None, description="how an attempt without a history ended; None: it stands")
    alone: Engine | None = Field(None, description="the one judge that was asked; None: both were")
    engine: Engine | None = Field(None, description="which was asked beside the oracle; None: the one that answered")
    pace: Pace | None = Field(None, description="None: it has no clock, or one that cannot be read")
    latencies: dict[int, int] | None = Field(None, description="of acknowledgements (judgement.latencies), if known")
    bare: bool = Field(
        False,
        description="it came without a manifest: what stands for one was made from its rows (pairs.py)",
    )
    placed: bool = Field(True, description="acknowledgements name positions (dedup.history.positions)")

    @property
    def judge(self) -> Engine:
        """The judge whose answer decides: the one asked, else the local engine in place of Spark, else Spark."""
        answered = Engine.LOCAL if self.spark is None and self.local is not None else Engine.SPARK
        return self.alone or self.engine or answered

    @property
    def said(self) -> Verification | None:
        """The answer that decides the verdict."""
        return {Engine.SPARK: self.spark, Engine.LOCAL: self.local, Engine.ORACLE: self.oracle}[self.judge]


class RunVerdict(Record):
    """The verdict on one run.

    `effective`: its result counts, since the evidence is complete, every fault provably overlapped traffic, and
    deduplication was as asked. A failed run can be effective; a run with an error or a doubt never is.
    """

    run_id: str
    attempt: int
    system: str
    variant: str
    run: int
    expectation: Expectation
    verdict: Verdict
    reasons: tuple[Reason, ...]
    effective: bool
    void: bool = Field(description="the tester contradicts itself or lacks evidence: its counts accuse nobody")
    counts: Counts | None
    copies_during: dict[str, int] = Field(default_factory=dict, description="dedup.judgement.anomalies.Verification")
    witnesses: tuple[Witness, ...] = ()
    backward: tuple[OrderEvent, ...] = Field((), description="the jumps backward that are witnesses, the first few")

    @property
    def with_copies(self) -> bool:
        return self.shows(COPIES)

    def shows(self, count: str) -> bool:
        """Whether the count of that name is above 0, and proves something."""
        return not self.void and self.counts is not None and getattr(self.counts, count) > 0

    def with_copies_during(self, fault: str, cause: str = COPIES) -> bool:
        """Whether a copied value was under way during this fault and is of this count: both together exceed all."""
        if not self.with_copies or self.counts is None:
            return False
        of_cause: int = getattr(self.counts, cause)
        return self.copies_during.get(fault, 0) + of_cause > self.counts.values_with_duplicates


WORDS: Final = {name: each.words for name, each in COUNTS.items() if each.words}
JUDGES: Final = {Engine.SPARK: "Spark", Engine.ORACLE: "the oracle", Engine.LOCAL: "the local engine"}
SHOWN: Final = 3


def is_treatment(expectation: Expectation) -> bool:
    """Whether a clean run of such a variant proves something about the system (a control's does not)."""
    return expectation not in (Expectation.DUPLICATES, Expectation.NONE)


def judge_run(evidence: Evidence, demand: Demand) -> RunVerdict:
    """The verdict on one run. A clean control run passes; the control as a whole is judged over all its runs."""
    manifest, answer = evidence.manifest, evidence.said
    reasons = list(_voids(evidence, demand))
    void = bool(reasons)
    accused = () if void or manifest is None or answer is None else tuple(_accused(evidence, manifest, answer, demand))
    if manifest is not None:
        reasons += _errors(evidence, manifest, demand)
        reasons += () if evidence.bare else _deduplication(manifest, demand, bool(accused))
        if answer is not None:
            reasons += [_accusation(answer, name) for name in accused]
            reasons += _doubts(evidence, manifest, answer.counts, demand, bool(accused))
            reasons += () if void else _doubts_of_what_was_asked(manifest, answer, demand)
            reasons += _bare_doubts(manifest, answer, demand, accused, void) if evidence.bare else ()
    idle = any(
        reason.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE) or reason.code == Code.NOT_IN_FORCE
        for reason in reasons
    )
    if not reasons and manifest is not None and answer is not None:
        reasons += _merits(evidence, manifest, answer, demand)
    planned = demand.planned or _claimed(manifest, evidence.run_id)
    return RunVerdict(
        run_id=evidence.run_id,
        attempt=evidence.attempt,
        system=planned.system,
        variant=planned.variant,
        run=planned.number,
        expectation=demand.expectation,
        verdict=worst(reason.verdict for reason in reasons),
        reasons=tuple(sorted(reasons, key=lambda reason: PRECEDENCE.index(reason.verdict))),
        effective=not idle,
        void=void,
        counts=answer.counts if answer else None,
        copies_during=answer.copies_during if answer else {},
        witnesses=tuple(witness for witness in answer.witnesses if witness.anomaly in accused) if answer else (),
        backward=_backward(answer, accused) if answer else (),
    )


def judge_alone(evidence: Evidence, expectation: Expectation, *, trusted: bool = False) -> RunVerdict:
    """The verdict on a history without its experiment; with `Duplicates`, this one run must show them: copies in the
    log or, if it has an application, messages processed twice; with transactions, messages read that were aborted.

    `trusted`: a history without a manifest may pass.
    """
    judged = judge_run(evidence, Demand(expectation=expectation, trusted=trusted))
    if expectation is not Expectation.DUPLICATES or judged.verdict is not Verdict.PASS:
        return judged
    subject = COPIES_IN_LOG if evidence.manifest is None else subject_seen(evidence.manifest)
    without = [fault for fault in judged.copies_during if not subject.by_fault or not judged.with_copies_during(fault)]
    if judged.shows(subject.count) and not without:
        return judged
    code, what = Code.CONTROL_CLEAN, subject.none
    if judged.shows(subject.count):
        code, what = Code.CONTROL_UNCONVINCING, f"{subject.some}, {subject.but} in the time of fault {_listed(without)}"
    doubt = _inconclusive(code, f"{what}: that the fault can cause duplicates is not shown")
    return judged.model_copy(update={"verdict": Verdict.INCONCLUSIVE, "reasons": (doubt,), "effective": False})


def _claimed(manifest: Manifest | None, run_id: str) -> Run:
    if manifest is None:
        return Run(run_id=run_id, system="", variant="", number=0, seed=0)
    return Run(run_id=run_id, system=manifest.system, variant=manifest.variant, number=manifest.run, seed=manifest.seed)


def _error(code: Code, text: str) -> Reason:
    return Reason(verdict=Verdict.ERROR, code=code, text=text)


def _inconclusive(code: Code, text: str) -> Reason:
    return Reason(verdict=Verdict.INCONCLUSIVE, code=code, text=text)


def _listed(parts: Iterable[str]) -> str:
    """The first few, and how many more."""
    found = list(parts)
    more = f" and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


# What makes a run void.


def _voids(evidence: Evidence, demand: Demand) -> Iterator[Reason]:
    manifest, answer, oracle, judge = evidence.manifest, evidence.said, evidence.oracle, JUDGES[evidence.judge]
    if manifest is None:
        yield _error(Code.MISSING, f"{evidence.run_id} has no history: {evidence.problem or 'it was never finished'}")
        return
    if differences := list(departures(manifest, evidence.run_id, demand)):
        yield _error(Code.ANOTHER_RUN, f"the manifest is not of the planned run: {_listed(differences)}")
    if damaged := [line for line in evidence.damages if line.startswith(READS)]:
        yield _error(Code.DAMAGED, f"the rows read are not what was recorded: {_listed(damaged)}")
    if evidence.problem is not None:
        yield _error(Code.UNVERIFIED, f"a judge gave up: {evidence.problem}")
    if answer is None:
        who = "the judge that was asked" if evidence.alone else judge
        silent = f"{who} did not verify this history; it has to judge every history"
        yield _error(Code.UNVERIFIED, "no judge verified it: it is damaged" if evidence.damages else silent)
        return
    if strays := list(unplanned_sends(answer, demand)):
        yield _error(Code.ANOTHER_RUN, f"what was sent is not what was planned: {_listed(strays)}")
    if oracle is None and evidence.alone is None and manifest.messages <= ORACLE_LIMIT and evidence.problem is None:
        yield _error(
            Code.UNVERIFIED, f"the oracle did not judge this history; up to {ORACLE_LIMIT:,} messages it has to"
        )
    if oracle is not None and (differences := list(disagreements(answer, oracle))):
        yield _error(Code.DISAGREEMENT, f"{judge} and the oracle disagree, so neither accuses: {_listed(differences)}")
    if found := [
        *contradictions(manifest, answer, gaps=not evidence.bare),
        *unwitnessed(answer, FORBIDDEN[demand.expectation]),
    ]:
        who = (
            "these files contradict themselves, so they accuse"
            if evidence.bare
            else "the tester contradicts itself, so it accuses"
        )
        yield _error(Code.SELF_CHECK, f"{who} nobody: {_listed(found)}")


# Witnesses, and the evidence that each kind rests on.


def _accused(evidence: Evidence, manifest: Manifest, answer: Verification, demand: Demand) -> Iterator[str]:
    """The forbidden counts above 0 whose evidence is whole. Bare files count as whole only if they are trusted."""
    files = not evidence.bare or demand.trusted
    tables = ("sent", "outcomes", "transactions", "commits")
    whole = {table: not any(line.startswith(table) for line in evidence.damages) for table in tables}
    complete = manifest.producer.complete and files
    there = {
        Basis.END: manifest.consumer.reached_end and files and not (evidence.bare and answer.gaps),
        Basis.OUTCOMES: whole["outcomes"],
        Basis.SENDS: (complete or manifest.producer.intended is not None) and whole["sent"],
        Basis.FINISHED: complete,
        Basis.TRANSACTIONS: whole["transactions"],
        Basis.COMMITS: whole["commits"],
        Basis.PROMISED: not why_nothing_is_promised(manifest),
        Basis.PROCESSED: (found := manifest.consumer.application) is not None and not any(found.unread()),
        # The first message of a partition is a jump back if it is below all values sent: sent.csv may lack its row.
        Basis.ALL_SENT: files or not answer.counts.phantom,
        Basis.ONCE: not _sent_again(manifest, answer),
    }
    for name in FORBIDDEN[demand.expectation]:
        if getattr(answer.counts, name) and all(there[basis] for basis in COUNTS[name].rests_on):
            yield name


def _accusation(answer: Verification, name: str) -> Reason:
    shown = [
        f"{witness.stream}/{witness.value}" + (f" at {' '.join(witness.positions)}" if witness.positions else "")
        for witness in answer.witnesses
        if witness.anomaly == name
    ] or [
        f"{event.stream}/{event.value} after {event.stream}/{event.last} in partition {event.partition}"
        for event in answer.events
        if event.jump is BACKWARD.get(name)
    ]
    shown = list(answer.hanging) if COUNTS[name].noun == "transaction" else shown
    count = getattr(answer.counts, name)
    noun = ("jump" if name in BACKWARD else COUNTS[name].noun) + ("" if count == 1 else "s")
    words = f"{count:,} {noun} {'back: ' if name in BACKWARD else ''}{WORDS[name]}"
    words += _because(name, answer.counts) + (f", such as {'; '.join(shown[:SHOWN])}" if shown else "")
    return Reason(verdict=Verdict.FAIL, code=name, text=words)


def _because(name: str, counts: Counts) -> str:
    """Of copies in the log, why they were stored, in brackets; empty if the history does not say."""
    found = [(getattr(counts, cause), WORDS[cause]) for cause in CAUSES] if name == COPIES else []
    causes = ", ".join(f"{number:,} {words}" for number, words in found if number)
    return f" ({causes})" if causes else ""


def _sent_again(manifest: Manifest, answer: Verification) -> bool:
    """Whether a value was sent more than once by the application or by several sessions."""
    return manifest.schema_version > 1 and manifest.rows("sent") != answer.counts.send


def _backward(answer: Verification, accused: Iterable[str]) -> tuple[OrderEvent, ...]:
    jumps = {BACKWARD[name] for name in accused if name in BACKWARD}
    return tuple(event for event in answer.events if event.jump in jumps)[:MAX_WITNESSES]


# What a pass lacks, whether or not there is a witness.


def _errors(evidence: Evidence, manifest: Manifest, demand: Demand) -> Iterator[Reason]:
    if damaged := [line for line in evidence.damages if not line.startswith(READS)]:
        yield _error(Code.DAMAGED, f"the history is not what was recorded: {_listed(damaged)}")
    for who, report in (("producer", manifest.producer), ("consumer", manifest.consumer)):
        if not report.complete:
            yield _error(
                Code.INCOMPLETE, f"the {who} did not finish: {_listed(report.problems) or 'it does not say why'}"
            )
        elif report.problems:
            yield _error(Code.PROBLEM, f"the {who} reports: {_listed(report.problems)}")
    if not manifest.consumer.reached_end:
        yield _error(Code.END_NOT_REACHED, "the topic was not read to its end: what was not read proves no loss")
    if manifest.problems:
        yield _error(Code.PROBLEM, _listed(manifest.problems))
    if (application := manifest.consumer.application) is not None:
        yield from _application_errors(application)
    recorded = [fault.name for fault in manifest.faults]
    planned = recorded if demand.faults is None else [fault.name for fault in demand.faults]
    for name in planned:
        if recorded.count(name) != 1:
            yield _error(
                Code.FAULT_MISSING, f"fault {name} was planned and has {recorded.count(name)} records, not one"
            )
    for name in recorded:
        if name not in planned:
            yield _error(Code.FAULT_UNPLANNED, f"fault {name} was injected and not planned")
    for text in other_faults(manifest, demand):
        yield _error(Code.FAULT_UNPLANNED, text)
    for fault in manifest.faults:
        yield from _fault_errors(fault, judged=fault.name in evidence.vacuous)
    if demand.workload is not None and (broken := list(demand.workload.broken(manifest))):
        yield _error(Code.WORKLOAD_BROKEN, f"the workload's {demand.workload.key}: {_listed(broken)}")
    if demand.workload is None and not evidence.bare:
        yield from (_error(Code.WORKLOAD_BROKEN, text) for text in unended(manifest))


def _application_errors(application: Application) -> Iterator[Reason]:
    """What it did not do shows nothing of the system, and neither does one that did nothing."""
    if application.problems:
        yield _error(Code.PROBLEM, f"the application reports: {_listed(application.problems)}")
    if unread := list(application.unread()):
        yield _error(Code.END_NOT_REACHED, f"what the application has not done is not known: {_listed(unread)}")
    if not application.processed:
        yield _error(Code.END_NOT_REACHED, "the application processed nothing")


def _fault_errors(fault: FaultRecord, *, judged: bool) -> Iterator[Reason]:
    if fault.leaked:
        yield _error(Code.FAULT_LEAKED, f"fault {fault.name} was still in force after its deadline")
    if fault.injected_ns is not None and not fault.heal_proven:
        yield _error(Code.HEAL_UNPROVEN, f"fault {fault.name}: that the system was whole again is not proven")
    if fault.problems:
        yield _error(Code.FAULT_BROKEN, f"fault {fault.name}: {_listed(fault.problems)}")
    if not judged:
        yield _error(Code.FAULT_BROKEN, f"fault {fault.name}: nobody judged whether it overlapped traffic")


def _deduplication(manifest: Manifest, demand: Demand, witnessed: bool) -> Iterator[Reason]:
    """The switch under test, as the broker proves it; a switch that was off is a fail if `witnessed`, else an error."""
    found = manifest.deduplication
    asked = found.asked if demand.deduplication is None else demand.deduplication
    if found.in_force is None:
        yield _error(Code.FORCE_UNPROVEN, f"whether deduplication was in force could not be proven: {found.proof}")
    elif asked and not found.in_force:
        verdict = Verdict.FAIL if witnessed else Verdict.ERROR
        yield Reason(verdict=verdict, code=Code.NOT_IN_FORCE, text=f"deduplication not in force: {found.proof}")
    elif found.in_force and not asked:
        yield _error(Code.STILL_IN_FORCE, f"deduplication was in force though asked to be off: {found.proof}")


def _doubts(
    evidence: Evidence, manifest: Manifest, counts: Counts, demand: Demand, witnessed: bool
) -> Iterator[Reason]:
    """Why intact evidence may prove nothing."""
    unknown = (*idle_kills(manifest), *idle_lives(manifest))
    idle = unknown if demand.workload is None else demand.workload.untested(manifest)
    yield from (_inconclusive(Code.WORKLOAD_VACUOUS, each) for each in idle)
    for why in evidence.vacuous.values():
        if why is not None:
            yield _inconclusive(Code.FAULT_VACUOUS, why)
    if counts.send == 0:
        yield _inconclusive(Code.NOTHING_SENT, "nothing was sent: a run that did nothing proves nothing")
    if counts.received == 0:
        yield _inconclusive(Code.NOTHING_RECEIVED, "nothing was read: a run that did nothing proves nothing")
    told = manifest.producer.transactions
    none_committed = counts.send and not witnessed and (told is None or not told.committed)
    if demand.expectation is Expectation.COMMITTED_ONCE and none_committed:
        yield _inconclusive(Code.WORKLOAD_VACUOUS, "no transaction was committed, as far as the producer was told")
    claims_no_loss = is_treatment(demand.expectation) and LOSS in FORBIDDEN[demand.expectation]
    too_many = uncertain(counts) >= UNCERTAIN_SHARE * counts.send > 0
    if claims_no_loss and too_many and not witnessed:
        yield _inconclusive(
            Code.UNCERTAIN_SENDS,
            f"{uncertainty(counts)}; from {UNCERTAIN_SHARE:.0%} on a claim that nothing was lost says too little",
        )


def _doubts_of_what_was_asked(manifest: Manifest, answer: Verification, demand: Demand) -> Iterator[Reason]:
    """What the application itself may have caused: what it sends again comes after what it sent meanwhile, and who
    asks for what was not committed is given it."""
    resent = "values were sent more than once, so this order may be that of the sends"
    for basis, code, why in (
        (Basis.ONCE, Code.SENT_AGAIN, resent if _sent_again(manifest, answer) else ""),
        (Basis.PROMISED, Code.WORKLOAD_VACUOUS, why_nothing_is_promised(manifest)),
    ):
        for name in FORBIDDEN[demand.expectation] if why else ():
            if basis in COUNTS[name].rests_on and getattr(answer.counts, name):
                yield _inconclusive(code, f"{_accusation(answer, name).text}: {why}")


def _bare_doubts(
    manifest: Manifest, answer: Verification, demand: Demand, accused: tuple[str, ...], void: bool
) -> Iterator[Reason]:
    again = _sent_again(manifest, answer)
    for name in FORBIDDEN[demand.expectation]:
        if again and Basis.ONCE in COUNTS[name].rests_on:
            continue  # _doubts_of_what_was_asked says so
        if getattr(answer.counts, name) and name not in accused and not void:
            why = bare.why_unproven(demand.trusted, answer.gaps)
            yield _inconclusive(Code.NO_MANIFEST, f"{_accusation(answer, name).text}: {why}")
    if not demand.trusted and not accused:
        yield _inconclusive(Code.NO_MANIFEST, bare.NO_MANIFEST)


# Why a run without any reason against it passes.


def _merits(evidence: Evidence, manifest: Manifest, answer: Verification, demand: Demand) -> Iterator[Reason]:
    def merit(code: Code, text: str) -> Reason:
        return Reason(verdict=Verdict.PASS, code=code, text=text)

    counts, force = answer.counts, manifest.deduplication
    none_of = promises(demand.expectation, untold(manifest, evidence.placed))
    subjects = dict.fromkeys((COPIES, subject_of(demand.workload).count, *OF_SOME))
    allowed = [name for name in subjects if name not in FORBIDDEN[demand.expectation] and getattr(counts, name)]
    yield merit(
        Code.CLEAN,
        f"{counts.send:,} sent, {counts.positive_ack:,} acknowledged, {counts.received:,} read to the end"
        + (f"; none {none_of}" if none_of else "")
        + "".join(f"; {getattr(counts, name):,} {WORDS[name]}{_because(name, counts)}" for name in allowed),
    )
    if uncertain(counts):
        yield merit(Code.UNCERTAIN_SENDS, f"{uncertainty(counts)}: of these no loss can be told")
    for fault in manifest.faults:
        yield merit(Code.FAULT_STRUCK, struck(fault))
    if not manifest.faults:
        what = "nothing says that there was a fault: it" if evidence.bare else "no fault was injected: a calm run"
        yield merit(Code.CALM, f"{what} says nothing about failures")
    if evidence.bare:
        yield merit(Code.TRUSTED, bare.why_trusted(answer.gaps))
    else:
        on = "on" if force.in_force else "off"
        yield merit(Code.IN_FORCE_AS_ASKED, f"deduplication {on}, as asked: {force.proof}")
    if evidence.alone:
        yield merit(Code.ONE_JUDGE, f"{JUDGES[evidence.judge]} alone judged, as asked")
    elif evidence.oracle:
        yield merit(Code.AGREEMENT, f"{JUDGES[evidence.judge]} and the oracle agree")
    else:
        yield merit(Code.ONE_JUDGE, f"{JUDGES[evidence.judge]} alone judged (above {ORACLE_LIMIT:,} messages)")
