"""A line of the operator's log says of which execution it is, in the word that labels its pods."""

import io
import logging
from collections.abc import Iterator

import pytest
from testbed.worlds import NAMESPACE
from tests.operator.test_reconciliations import applied

from dedup_operator import logs
from dedup_operator.objects.names import EXECUTION


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What a program that is configured as the operator writes."""
    told, root = io.StringIO(), logging.getLogger("dedup_operator")
    handler = logging.StreamHandler(told)
    handler.addFilter(logs.Named())
    handler.setFormatter(logging.Formatter(logs.FORMAT))
    root.addHandler(handler)
    yield told
    root.removeHandler(handler)
    logs.current.set(logs.NONE)


def test_a_line_about_an_experiment_names_its_execution(lines: io.StringIO) -> None:
    world = applied()
    world.run(until=lambda _status: any(world.player.jobs.values()))
    (job, *_) = world.cluster.list("Job", NAMESPACE, "dedup.dev/component=run")
    execution = job["metadata"]["labels"][EXECUTION]
    logging.getLogger("dedup_operator").warning("said in the middle of it")
    assert f" {execution} said in the middle of it" in lines.getvalue()


def test_a_line_about_none_has_a_dash(lines: io.StringIO) -> None:
    logs.current.set(logs.NONE)
    logging.getLogger("dedup_operator").warning("the lease ended")
    assert "WARNING dedup_operator - the lease ended" in lines.getvalue()


def test_a_look_at_something_else_ends_it(lines: io.StringIO) -> None:
    world = applied()
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    operator.look((NAMESPACE, "nobody"))
    logging.getLogger("dedup_operator").warning("afterwards")
    assert "dedup_operator - afterwards" in lines.getvalue()
