"""Kinds of faults declare what is particular to them: what is made of it, and that nothing is missing."""

from pathlib import Path

import pytest

from dedup.faults.kinds import FaultKind, Platform
from dedup.faults.registry import KINDS, Fault, kind_of
from dedup.faults.tables import CONSENTING, markdown, rows
from dedup.pages import filled
from dedup.wire.clients import Noticed

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"


def test_the_page_says_what_the_kinds_say() -> None:
    """If not: `make tables`."""
    page = PAGE.read_text()
    assert filled(page, {"kinds": markdown()}) == page


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_whole(kind: type[FaultKind]) -> None:
    assert kind_of(kind.key) is kind
    assert kind.__doc__ is not None
    assert kind.__doc__ != FaultKind.__doc__
    assert kind.lasting is None or kind.lasting in kind.model_fields
    assert {choice.field for choice in kind.choices} <= kind.model_fields.keys()
    assert (Platform.PODS in kind.platforms) is not bool(kind.not_in_pods), "the operator says why it refuses one"
    assert all(kind.docs[:4]), "all of its documentation but what need not be said"
    assert kind.notices and Noticed.REFUSED not in kind.notices, "some sign of it, and none that the client makes alone"


def test_a_fault_has_one_key_for_each_kind() -> None:
    keys = [field.alias for name, field in Fault.model_fields.items() if name not in ("name", "at")]
    assert keys == [kind.key for kind in KINDS]
    assert kind_of("latency") is None


def test_a_row_tells_what_must_be_given_and_what_it_takes() -> None:
    found = {row.kind: row for row in rows()}
    assert [(each.key, each.default) for each in found["podDelete"].settings] == [
        ("target", "Leader"),
        ("gracePeriod", "30s"),
    ]
    assert found["podDelete"].where == (Platform.PODS.value, CONSENTING)
    assert [each.default for each in found["kill"].settings] == ["Leader", None]
    assert found["kill"].needs == (
        "target Bookie: a Pulsar",
        "target Controller: a Kafka",
        "target ZooKeeper: a Pulsar",
        "target TransactionCoordinator: a Kafka",
        "target Bookie, ZooKeeper: no Pulsar that is there already",
        "target ZooKeeper: dedup run",
        "target TransactionCoordinator: workload.transactions",
    )
    assert "systems that are there already" in found["moveLeader"].where
    assert found["dropTCP"].strikes == "all connections, shown until its end"
