"""Every request about transactions can be struck, exact to the message, and a committed reader sees each value once.

Twenty messages in four transactions, two of them aborted, each run in front of the brokers of this module: what a calm
run asks for, and then the same with one request lost, one reply lost, one request held to the end, and one reply held.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.lab import harness
from tests.lab.pointed import bootstrap

from dedup.experiment.points import Action, Exchange, Point
from dedup.judgement.verdicts import Verdict
from dedup_lab.exploring import grounds
from dedup_lab.exploring.visits import Ground, visit
from dedup_lab.systems import kafka, labs
from dedup_runners import admins

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

MESSAGES: Final = 20
ADD, ABORT, COMMIT = (Exchange(api=api, number=number) for api, number in (
    ("AddPartitionsToTxn", 1), ("EndTxn", 2), ("EndTxn", 3)
))  # fmt: skip
"""A later AddPartitionsToTxn may be answered that the end of the last transaction is not written yet."""
ACTIONS: Final = (
    *(Action.LOSE_REQUEST, Action.LOSE_REPLY),
    *(Action.STALL_REQUEST_TO_END, Action.STALL_REPLY),
)
SMOKE: Final = (
    *((Action.LOSE_REQUEST, ADD), (Action.LOSE_REPLY, COMMIT)),
    *((Action.STALL_REQUEST_TO_END, COMMIT), (Action.STALL_REPLY, ABORT)),
)
"""One of each."""
STRIKES: Final = [
    pytest.param(action, struck, marks=[pytest.mark.smoke] * ((action, struck) in SMOKE), id=f"{action} of {name}")
    for action in ACTIONS
    for name, struck in (("an added partition", ADD), ("an abort", ABORT), ("a commit", COMMIT))
]


PATIENCE: Final = {"socket.timeout.ms": "3000", "api.version.request.timeout.ms": "3000"}
"""Of the client. After one second, as in an exploration, it gives up connections whose brokers wait for a processor (on
two cores, beside pods that start), and the next ones, too: it got nothing done in a minute."""


def document() -> dict[str, Any]:
    found = harness.document("workloads/kafka-aborted-reads", messages=MESSAGES)
    found["spec"]["workload"]["transactions"] = {"size": 5, "abort": {"every": 2}}
    found["spec"] |= {"variants": found["spec"]["variants"][1:], "timeouts": {"run": "180s"}}
    return found


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    experiment, _ = grounds.stepped(harness.experiment(document()))
    (asked,) = experiment.spec.systems
    asked.client.properties.update(PATIENCE)
    (committed,) = experiment.spec.variants
    with labs.create(tmp_path_factory.mktemp("logs")) as lab:
        system = kafka.start(lab, version="4.3.1", proxied=False)
        with admins.connect(system) as admin:
            yield Ground(experiment, committed, committed, system, bootstrap(system), admin, threading.Event())


def test_a_calm_conversation_asks_for_each_transaction_and_is_clean(ground: Ground, tmp_path: Path) -> None:
    found = visit(ground, (), tmp_path / "calm")
    assert found.visit.verdict is Verdict.PASS, found.visit.reasons
    asked = {(each.api, each.number) for each in found.exchanges}
    assert {("EndTxn", number) for number in range(1, 5)} <= asked
    assert {("AddPartitionsToTxn", number) for number in range(1, 5)} <= asked


@pytest.mark.parametrize(("action", "struck"), STRIKES)
def test_every_request_about_a_transaction_can_be_struck(
    ground: Ground, tmp_path: Path, action: Action, struck: Exchange, tell: Callable[[str], None]
) -> None:
    point = Point(exchange=struck, action=action)
    found = visit(ground, (point,), tmp_path / "struck").visit
    assert (found.missed, found.unnoticed) == ((), ()), found.reasons
    assert found.verdict is Verdict.PASS, found.reasons
    assert found.anomalies == {}
    tell(f"{point}: {found.verdict}, {found.unknown} in doubt, {found.seconds:.1f} s")
