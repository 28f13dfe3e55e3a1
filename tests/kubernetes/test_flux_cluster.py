"""An experiment goes from Git to its verdict by Flux and by the operator, and a dependent goes on after *Pass*."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml
from testbed.cluster import flux
from tests.kubernetes import flux_gates
from tests.kubernetes.flux_gates import WAIT_S
from tests.kubernetes.operated import Operated
from tests.lab import harness

from dedup_runners.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(2400)]

EXAMPLE: Final = harness.ROOT / "examples" / "kubernetes" / "kafka-kill-tcp.yaml"


def test_an_experiment_from_git_passes_and_then_its_dependent_goes_on(
    operator: Operated, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    place, document = operator.place, yaml.safe_load(EXAMPLE.read_text())
    name = document["metadata"]["name"] = "from-git"
    flux_gates.define(place.client)
    with (
        flux_gates.served(tmp_path / "git", document) as url,
        flux.running(place.cluster.kubeconfig, tmp_path / "logs"),
    ):
        began = time.monotonic()
        gate = flux_gates.opened(place.client, url, place.namespace, name)
        until(gate.experiment, WAIT_S, "Flux has applied the experiment")
        assert gate.waits()
        status = operator.verdict(name)
        assert status["verdict"] == "Pass", status
        until(gate.next, WAIT_S, "what depends on it goes on")
        tell(f"from Git to Pass, and on, in {time.monotonic() - began:.0f} s")
        (finished,) = (each for each in status["conditions"] if each["type"] == "Finished")
        went_on = gate.next()
        assert went_on is not None
        assert went_on["metadata"]["creationTimestamp"] >= finished["lastTransitionTime"]
        gate.close()
        until(lambda: gate.experiment() is None, WAIT_S, "Flux has taken the experiment away")
