"""`message`: the interposer stands between the producer and its brokers, and strikes one request or reply.

The interposer lives in the fault's own process, from the time when the fault is armed until the producer has ended:
the producer is given its address as the brokers'. It counts the messages on their way, so that which frame is struck
depends on no clock. What was done to the frame is in its conversation; that the conversation tells the truth of what
brokers have stored is shown by the partition's log, which is read when the producer has ended.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dedup.errors import PlatformError
from dedup.experiment.dialects import ends_transaction, joins_transaction
from dedup.faults.message import Action, Message, Until
from dedup.wire.faults import FaultEvent
from dedup_runners.chaos.actions import inject, no_effect, triggered
from dedup_runners.chaos.injections import Activity, Injection, action
from dedup_runners.chaos.probes import healed
from dedup_runners.chaos.sessions import Session, current
from dedup_runners.interposer.connections import Strike
from dedup_runners.interposer.conversations import FILE, Done, Row
from dedup_runners.interposer.protocols import Address, Direction, Frame
from dedup_runners.interposer.proxies import Interposer
from dedup_runners.interposer.rules import Act, Begin, Match, Rule
from dedup_runners.interposer.speeches import SPEECHES
from dedup_runners.waiting import until

PRODUCER: Final = "producer"
"""The interposer's name of the session."""
DRAINED_S: Final = 60.0
"""How long after the producer's end its connections may take to be closed on both sides."""
HEALED_S: Final = 120.0
PASSED: Final = (Done.PASSED, Done.HELD, Done.HELD_TO_DEADLINE)


@dataclass
class Deed:
    """The interposer, its one rule, and what it has struck."""

    interposer: Interposer | None = None
    rule: Rule | None = None
    frame: Frame | None = None
    strike: Strike | None = None
    struck: threading.Event = field(default_factory=threading.Event)


def rule_of(name: str, settings: dict[str, Any], carrier: str, topic: str, partition: int, message: int) -> Rule:
    """The interposer's rule for a fault's settings. Requests without messages have no partition to match."""
    match = Match(settings["api"], attempt=settings.get("attempt"))
    rule = Rule(
        name,
        replace(match, topic=topic, partition=partition) if settings["api"] == carrier else match,
        Act(f"{settings['action']}_{settings['frame']}".lower()),
        begin=Begin(topic, message),
        nth=settings["nth"],
    )
    if settings["action"] == Action.LOSE:
        return rule
    event = {Until.RETRY: rule.retried, Until.NEXT_PRODUCE: rule.followed}.get(settings.get("until", ""))
    late = joins_transaction(settings["api"]) if event == rule.followed else frozenset[str]()
    return replace(rule, until=event, deadline_s=settings["deadline_s"], clear_of=late)


def rules_of(rule: Rule) -> list[Rule]:
    """The rule, and one for the end of the next transaction: it waits behind what is held to arrive before."""
    if rule.until == rule.followed and ends_transaction(rule.match.api):
        return [rule, rule.behind(Match(rule.match.api, after=rule.retried))]
    return [rule]


def _prepare(session: Session) -> None:
    scene, deed = session.scene, session.recall(Deed)
    known = SPEECHES[scene.endpoints.system]

    def told(rule: Rule, frame: Frame, strike: Strike) -> None:
        if rule is not deed.rule:
            return
        session.announce(FaultEvent.INJECTING, **scene.settings)
        deed.frame, deed.strike = frame, strike
        deed.struck.set()

    assert scene.message is not None, "a fault of this kind has a message"
    deed.rule = rule_of(scene.fault, dict(scene.settings), known.carrier, scene.topic, scene.partition, scene.message)
    deed.interposer = Interposer(known.speech(), rules_of(deed.rule), on_strike=told)
    doors = deed.interposer.bootstrap(PRODUCER, known.brokers(scene.endpoints.client_bootstrap))
    session.bootstrap = known.bootstrap(doors)


def _method(fault: Message, latency_s: float) -> list[Activity]:
    return [action(strike_frame), action(outlast_producer)]


def strike_frame(configuration: dict[str, Any]) -> dict[str, Any]:
    """Wait until the frame was struck, and what is held was passed on; then prove at once that all is whole."""
    session = triggered(configuration)
    deed, interposer = session.recall(Deed), _interposer(session)
    assert session.triggers is not None
    over = session.triggers.is_over
    until(lambda: deed.struck.is_set() or over(), session.scene.timeout_s, "the frame to be struck")
    if deed.strike is None or deed.frame is None:
        no_effect(session, "no request or reply matched before the producer ended")
        return {"struck": False}
    about = {"connection": deed.strike.connection, "broker": str(deed.strike.broker), "api": deed.frame.api}
    inject(session, touched=_touched(session, deed.strike.broker), leader=session.leader(), **about)
    until(lambda: interposer.held == 0, session.scene.timeout_s, "what is held to be passed on")
    healed(HEALED_S, configuration)
    return {"struck": True}


def outlast_producer(configuration: dict[str, Any]) -> dict[str, Any]:
    """Stay until the producer has ended; then keep the conversation, and hold it against the partition's log."""
    session = current(configuration)
    deed, interposer = session.recall(Deed), _interposer(session)
    assert session.triggers is not None
    session.triggers.wait_finished(session.scene.timeout_s)
    until(lambda: interposer.held == 0, session.scene.timeout_s, "what is held to be passed on")
    until(lambda: not interposer.connections(PRODUCER), DRAINED_S, "the producer's connections to be gone")
    rows = interposer.conversation.rows()
    shown = _shown(session, deed, rows) if deed.strike is not None else {}
    session.note(FaultEvent.EFFECT, passed=interposer.rules.brought(session.scene.topic), **shown)
    end_conversation(configuration)
    if interposer.problems:
        raise PlatformError(
            where=f"fault {session.scene.fault}: the interposer",
            got="; ".join(interposer.problems),
            rule="it understands and passes on all that it must",
            todo="see docs/interposer.md for what it can read",
        )
    return {"frames": len(rows), **shown}


def end_conversation(configuration: dict[str, Any]) -> None:
    """End the interposer and keep what was said. Harmless twice."""
    session = current(configuration)
    deed = session.recall(Deed)
    if deed.interposer is not None:
        deed.interposer.close()
        deed.interposer.conversation.save(session.scene.folder / "chaos" / session.scene.fault / FILE)
        deed.interposer = None


def _shown(session: Session, deed: Deed, rows: Iterable[Row]) -> dict[str, Any]:
    """What the conversation says of the struck frame, and whether the log contradicts it."""
    assert deed.rule is not None
    place = deed.strike and deed.strike.places and next(each for each in deed.strike.places if _meant(deed.rule, each))
    own = [row for row in rows if row.api == deed.rule.match.api]
    (struck,) = [row for row in own if is_struck(row, deed.rule)]
    found: dict[str, Any] = {
        "frame": told(struck), "number": struck.number, "attempt": struck.attempt, "done": struck.done,
        "error_code": struck.error_code, "place": struck.place, "held_ns": struck.held_ns,
    }  # fmt: skip
    found["refused"] = refused_reply(struck)
    if place and place.part.batch is not None:
        assert struck.topic is not None and struck.partition is not None
        same = [row for row in own if (row.partition, row.number) == (struck.partition, struck.number)]
        stored = session.admin.stored(struck.topic, struck.partition, place.part.batch)
        found |= {"stored": stored, "refused": refused(struck, same, stored)}
    return found


def refused_reply(struck: Row) -> str:
    """Words if the struck frame is a reply in which the broker refused: nothing was done that its loss could hide."""
    if struck.direction == Direction.REPLY and struck.error_code:
        return f"the broker's reply was error {struck.error_code}: it had not done what was asked"
    return ""


def refused(struck: Row, same: Iterable[Row], stored: Iterable[str]) -> str:
    """Why a struck frame that carries messages shows nothing; empty if it does.

    `same`: what was said of its batch, in all attempts. `stored`: where the log has the batch.
    """
    if words := refused_reply(struck):
        return words
    rows, places = list(same), list(stored)
    passed = sum(row.direction == Direction.REQUEST and row.done in PASSED for row in rows)
    answers = (row for row in rows if row.direction == Direction.REPLY and not row.error_code)
    named = {row.place for row in answers if row.place is not None}
    if named <= set(places) and len(places) <= passed:
        return ""
    where, found = (", ".join(each) or "nowhere" for each in (sorted(named), places))
    return f"brokers said that the batch is at {where}, it was sent {passed} times, and the log has it at {found}"


def told(struck: Row) -> str:
    """What was done to the frame, in words."""
    verb = f"held for {(struck.held_ns or 0) / 1e9:.3g} s"
    if struck.done in (Done.LOST, Done.UNANSWERED):
        verb = "lost" if struck.done == Done.LOST else "held, until its client had left,"
    reply = "the reply to " if struck.direction == Direction.REPLY else ""
    where = "" if struck.partition is None else f" of partition {struck.partition}, attempt {struck.attempt}"
    said = "" if struck.place is None else f", which said that it is stored at {struck.place}"
    return f"{verb} {reply}{struck.api} {struck.number}{where}{said}"


def _meant(rule: Rule, place: Any) -> bool:
    return (rule.match.topic, rule.match.partition) in ((None, None), (place.part.topic, place.part.partition))


def is_struck(row: Row, rule: Rule) -> bool:
    """Whether this is the frame that the rule struck: the reply to a request that was held has the rule's name, too."""
    _, _, direction = rule.act.partition("_")
    own = rule.match.partition is None or row.partition in (None, rule.match.partition)
    return own and (row.rule, row.direction) == (rule.name, direction)


def _touched(session: Session, broker: Address) -> list[str]:
    """The id of the broker at that address, which is its own or its proxy's."""
    known = session.scene.endpoints.brokers
    return [each.id for each in known if broker.port in (each.client_port, each.proxy_port, each.door)]


def _interposer(session: Session) -> Interposer:
    found = session.recall(Deed).interposer
    assert found is not None, "it is started when the fault is armed"
    return found


INJECTION: Final = Injection(_prepare, _method, rollbacks=(end_conversation,))
