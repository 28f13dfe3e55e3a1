"""What became of a fault, put together from everyone who saw it; and whether it mattered.

Three parties witness a fault. The injector says what it did (faults.jsonl). The target shows that it happened: a
broker has lost connections, a process is dead with exit code 137, the leader is another one (the injector reads this
from the target and writes it beside its own word). The clients noticed: disconnects, retries, errors
(disturbances.jsonl). And the producer stamps its own counters when the effect is announced (marks.jsonl). The chaos
journal is read as well, activity by activity, because Chaos Toolkit calls an experiment completed even if one failed.

A fault that nobody but its injector saw, or that struck when nothing was in flight, has tested nothing: `vacuous`
says so, and a run with such a fault is inconclusive, never a pass (docs/design.md §8).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dedup.faults.registry import LATENCY_FAULT, kind_of
from dedup.wire.manifests import FaultRecord

CLIENT_TAIL_NS: Final = 5_000_000_000
"""How long after the heal a client may still be noticing: reconnecting takes its time."""
LATENCY_SHARE: Final = 0.95
"""How much of the latency asked for every ping must take at least, for timers and clocks are not exact."""
INTERRUPTED: Final = "interrupted"
EXPECTED_NOT_INJECTED: Final = "producer gone"

Line = Mapping[str, Any]


class Planned(NamedTuple):
    """A fault as it was asked for; `message` is None for one that is in force for the whole run."""

    name: str
    kind: str
    message: int | None


def assemble(
    planned: Sequence[Planned],
    *,
    messages: int,
    lines: Iterable[Line],
    marks: Iterable[Line],
    disturbances: Iterable[Line],
    journals: Mapping[str, Line | None],
) -> tuple[FaultRecord, ...]:
    """One record a planned fault, in that order.

    `messages` is how many the producer was to send. `lines`, `marks` and `disturbances` are the parsed lines of
    faults.jsonl, marks.jsonl and disturbances.jsonl; `journals` the chaos journals by fault, None where there is none.
    """
    lines, marks, disturbances = list(lines), list(marks), list(disturbances)
    others = [
        (str(line["fault"]), int(line["monotonic_ns"]))
        for line in lines
        if line.get("event") == "injecting" and any(each.name == line.get("fault") for each in planned if each.message)
    ]
    return tuple(
        _record(
            fault,
            messages,
            _first_by_event(line for line in lines if line.get("fault") == fault.name),
            _first_by_event(mark for mark in marks if mark.get("fault") == fault.name),
            disturbances,
            [at_ns for name, at_ns in others if name != fault.name],
            journals.get(fault.name),
        )
        for fault in planned
    )


def vacuous(record: FaultRecord) -> str | None:
    """None if the fault provably overlapped traffic; else why it proves nothing, in words."""
    if record.injected_ns is None:
        return f"fault {record.name} never took effect: {record.injector.get('not_injected') or 'no target shows one'}"
    if not record.target_witness:
        return f"fault {record.name}: the injector claims it, but the target shows no effect"
    if record.kind == LATENCY_FAULT:
        return _not_to_the_end(record)
    kind = kind_of(record.kind)
    if kind is not None and (miss := _missed(record)):
        return miss
    if kind is not None and kind.must_last and (gone := _ended_early(record, kind.effect)):
        return gone
    if not record.client_witness:
        return f"fault {record.name}: no client noticed it"
    if record.unacknowledged is None or record.remaining is None:
        return f"fault {record.name}: the producer did not stamp its counters at the effect"
    if record.in_flight is None and record.unacknowledged <= 0:
        return f"fault {record.name}: no message was unacknowledged at the effect"
    if record.in_flight is not None and record.in_flight <= 0:
        return f"fault {record.name}: no message was in flight to what it struck"
    if record.remaining <= 0:
        return f"fault {record.name}: every message had been sent before the effect"
    return None


def struck(record: FaultRecord) -> str:
    """What a fault that is not vacuous did, in words."""
    if record.requested_message is None:
        return f"fault {record.name} was in force for the whole run"
    noticed = ", ".join(f"{count:,} {kind}" for kind, count in sorted(record.client_witness.items()))
    under_way = f"{record.unacknowledged or 0:,} unacknowledged"
    if record.in_flight is not None:
        under_way = f"{record.in_flight:,} in flight to it"
    return (
        f"fault {record.name} struck {record.target or 'its target'} at message {record.effect_message or 0:,} (asked: "
        f"{record.requested_message:,}) with {under_way}; clients noticed: "
        f"{noticed}; healed"
    )


def missed(records: Sequence[FaultRecord]) -> tuple[str, ...]:
    """Why faults of a run tested nothing, if they were otherwise handled in order; nothing of a run that is in error.

    It is asked before the topic is read, so that whether a run is replaced cannot depend on what was received.
    """
    if any(record.leaked or record.problems for record in records):
        return ()
    if any(record.injected_ns is not None and not record.heal_proven for record in records):
        return ()
    return tuple(why for record in records if (why := vacuous(record)) is not None)


def lives_ended(records: Iterable[FaultRecord]) -> int:
    """How many lives of brokers these faults have ended; one that ended besides died by itself."""
    return len(
        {
            _life(record)
            for record in records
            if record.injected_ns is not None
            and (kind := kind_of(record.kind)) is not None
            and kind.ends_life(record.target_witness)
        }
    )


def _life(record: FaultRecord) -> tuple[str, object]:
    """What a fault has ended: a container or a process by its own name; without one, a life of its own."""
    for kind in ("container", "pid"):
        if (life := record.target_witness.get(kind)) is not None:
            return kind, life
    return record.kind, record.name


def _not_to_the_end(record: FaultRecord) -> str | None:
    """Words unless every broker that answered when the producer had ended still answered late.

    One that another fault holds down answers nobody, and so it answered no client early.
    """
    over = record.injector.get("over") or {}
    asked_ms = record.injector.get("latency_ms")
    pings = over.get("round_trips_ms") or {}
    if not over.get("producer_finished") or asked_ms is None or not pings:
        return f"fault {record.name}: that it lasted to the producer's end is not shown"
    if min(pings.values()) < asked_ms * LATENCY_SHARE:
        return f"fault {record.name}: at the producer's end pings took only {pings} ms of {asked_ms:g}"
    return None


def _record(
    fault: Planned,
    messages: int,
    said: Mapping[str, Line],
    stamped: Mapping[str, Line],
    disturbances: Sequence[Line],
    others_ns: Sequence[int],
    journal: Line | None,
) -> FaultRecord:
    injected = _detail(said, "injected")
    noticed = [each for each in disturbances if _is_its_doing(fault, injected, each)]
    struck = "injected" in said
    began_ns = _time(said, "injecting") if struck else None
    ended_ns = _time(said, "healed") or _time(said, "healed_by_watchdog")
    mark = stamped.get("injected") if struck else None
    sent = None if mark is None else int(mark["sent"])
    return FaultRecord(
        name=fault.name,
        kind=fault.kind,
        requested_message=fault.message,
        triggered_message=_detail(said, "triggered").get("actual"),
        effect_message=sent,
        unacknowledged=None if mark is None or sent is None else sent - int(mark["acked"]),
        in_flight=_in_flight(stamped) if struck else None,
        remaining=None if sent is None else messages - sent,
        injected_ns=began_ns,
        healed_ns=ended_ns,
        target=_target(injected),
        injector=_injectors_word(said),
        target_witness=_target_witness(injected, _detail(said, "effect")),
        client_witness=_noticed(fault, noticed, began_ns, ended_ns, others_ns) | _noticed_by_brokers(said),
        heal_proven="healed" in said and "heal_failed" not in said,
        leaked=_leaked(said),
        problems=tuple(_problems(said, journal)),
    )


def _in_flight(stamped: Mapping[str, Line]) -> int | None:
    """The fewer messages in flight to what is struck, as the injector set out and at the effect; None if not counted.

    What a client keeps while a leader moves is counted at the effect, whether or not anything was in flight before.
    """
    at_effect = stamped.get("injected", {}).get("in_flight")
    before = stamped.get("injecting", {}).get("in_flight")
    return at_effect if at_effect is None or before is None else min(before, at_effect)


def _missed(record: FaultRecord) -> str | None:
    """Words if the fault did not touch whoever led the topic's partition at the effect, or stored what was sent."""
    ensemble, touched = record.target_witness.get("ensemble"), record.target_witness.get("touched", [])
    if ensemble is None:
        return _missed_leader(record)
    if not set(touched) & set(ensemble):
        hit, stored = ", ".join(touched) or "none", ", ".join(ensemble) or "nobody"
        return f"fault {record.name}: it touched bookie {hit}, but what was sent was stored by {stored}"
    return None


def _ended_early(record: FaultRecord, effect: str) -> str | None:
    """Words unless the broker that led the topic at the effect, in one word, showed it to the end."""
    at_end = record.target_witness.get("at_end", [])
    if record.target_witness["leader"] in at_end:
        return None
    who = ", ".join(at_end) or "nobody"
    return f"fault {record.name}: at its end the topic's leader was not {effect} any more, but {who}"


def _missed_leader(record: FaultRecord) -> str | None:
    leader, touched = record.target_witness.get("leader"), record.target_witness.get("touched", [])
    if leader is None:
        return f"fault {record.name}: who led the topic at the effect is not known"
    if leader not in touched:
        hit = ", ".join(touched) or "none"
        return f"fault {record.name}: it touched broker {hit}, but the topic's leader was broker {leader}"
    return None


def _target_witness(injected: Line, effect: Line) -> dict[str, Any]:
    """The target's own signs, with who was hit and who led; empty if the target gave none."""
    witness = injected.get("witness")
    if not witness:
        return {}
    return {**witness, **effect, "touched": injected.get("touched", []), "leader": injected.get("leader")}


def _target(injected: Line) -> str:
    touched = injected.get("touched") or []
    what = "bookie" if "ensemble" in (injected.get("witness") or {}) else "broker"
    return f"{what} {', '.join(touched)}" if touched else ""


def _injectors_word(said: Mapping[str, Line]) -> dict[str, Any]:
    """What it set out to do, and how that ended as far as it knows."""
    word = dict(_detail(said, "injecting"))
    for event in ("not_injected", "no_effect"):
        if event in said:
            word["not_injected"] = _detail(said, event).get("reason", event)
    for event in ("restarted", "cleared", "healed", "healed_by_watchdog", "heal_failed", "over"):
        if event in said:
            word[event] = dict(_detail(said, event))
    return word


def _is_its_doing(fault: Planned, injected: Line, disturbance: Line) -> bool:
    """Whether the fault can cause a disturbance of this kind, of that broker; where no broker is known, of any."""
    kind = kind_of(fault.kind)
    if disturbance["kind"] == "leader" and kind is not None and not kind.moves_leader:
        return False
    of_bookie = "ensemble" in (injected.get("witness") or {})
    broker = disturbance.get("broker")
    of_any_broker = kind is None or not kind.of_one_broker or of_bookie or broker is None
    return of_any_broker or broker in (injected.get("touched") or [])


def _noticed(
    fault: Planned, disturbances: Sequence[Line], began_ns: int | None, ended_ns: int | None, others_ns: Sequence[int]
) -> dict[str, int]:
    """The clients' own signs from the first deed until a while after the heal, by kind. Latency disturbs nobody.

    A counter that grew between two looks counts if the first look (`since_ns`) was not before the deed. The while after
    the heal ends where another fault begins (`others_ns`): what is noticed from then on is more likely that one's.
    """
    if began_ns is None or fault.kind == LATENCY_FAULT:
        return {}
    until_ns = None
    if ended_ns is not None:
        until_ns = min([ended_ns + CLIENT_TAIL_NS, *(other_ns for other_ns in others_ns if other_ns > ended_ns)])
    found = Counter(
        str(each["kind"])
        for each in disturbances
        if began_ns <= each.get("since_ns", each["monotonic_ns"])
        and (until_ns is None or each["monotonic_ns"] <= until_ns)
    )
    return dict(sorted(found.items()))


def _noticed_by_brokers(said: Mapping[str, Line]) -> dict[str, int]:
    """A bookie's clients are brokers: that one gave up on it counts, though no producer was told."""
    return {"broker": 1} if "noticed" in said and "injecting" in said else {}


def _leaked(said: Mapping[str, Line]) -> bool:
    """Something was done and is not known to be undone: neither the injector nor its watchdog saw it healed."""
    if {"heal_failed", "watchdog_failed"} & said.keys():
        return True
    return "injecting" in said and not {"healed", "healed_by_watchdog"} & said.keys()


def _problems(said: Mapping[str, Line], journal: Line | None) -> Iterable[str]:
    """What went wrong with the tool. A producer that ended before its message is not the tool's failure."""
    expected = _detail(said, "not_injected").get("reason") == EXPECTED_NOT_INJECTED
    if "not_injected" in said and not expected:
        yield str(_detail(said, "not_injected").get("error") or "never triggered")
    if "healed_by_watchdog" in said:
        yield f"healed by its watchdog, not by its injector: {_detail(said, 'healed_by_watchdog').get('reason')}"
    if "watchdog_failed" in said:
        yield f"its watchdog could not heal it: {_detail(said, 'watchdog_failed').get('error')}"
    if journal is None:
        yield "no chaos journal: the chaos process did not end by itself"
        return
    yield from _failed_activities(journal, expected)
    if journal.get("status") not in ("completed", INTERRUPTED if expected else "completed"):
        yield f"the chaos experiment ended {journal.get('status')}"


def _failed_activities(journal: Line, interruption_expected: bool) -> Iterable[str]:
    for phase in ("run", "rollbacks"):
        for run in journal.get(phase) or ():
            status = run.get("status", INTERRUPTED)
            if status == "succeeded" or (status == INTERRUPTED and interruption_expected):
                continue
            why = (run.get("exception") or [""])[-1].strip()
            name = run.get("activity", {}).get("name", "an activity")
            yield f"{name} {status}" + (f": {why}" if why else "")


def _first_by_event(lines: Iterable[Line]) -> dict[str, Line]:
    """The first line of each event: later ones are repetitions."""
    found: dict[str, Line] = {}
    for line in lines:
        found.setdefault(str(line.get("event")), line)
    return found


def _detail(said: Mapping[str, Line], event: str) -> Line:
    line = said.get(event)
    return (line.get("detail") or {}) if line is not None else {}


def _time(said: Mapping[str, Line], event: str) -> int | None:
    line = said.get(event)
    return None if line is None else int(line["monotonic_ns"])
