"""As in a pod: clients are led to brokers of others, behind TLS and a log-in, while faults act on their connections.

The pod is played by processes. Toxiproxy is empty when it starts, as the operator has it; the conductor tells
it who the brokers are. Without deduplication there are copies, with it there are none.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from tests.lab.test_existing_live import FAULTS
from tests.runners import assigned, proxies
from tests.runners.guarded_systems import HOST, Listener, guarded_kafka, guarded_pulsar
from tests.runners.local_pods import LocalPod

from dedup.experiment.endpoints import Endpoints
from dedup.experiment.plans import plan
from dedup.faults.records import vacuous
from dedup.history.histories import damages, read_manifest
from dedup.wire.manifests import Manifest
from dedup_lab.systems import labs, toxiproxy
from dedup_spark import oracle

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

RUN_S: Final = 180.0
ATTEMPTS: Final = 3
"""A fault may miss the traffic; then the run is rightly replaced."""
VARIANTS: Final = {
    "control": {"name": "control", "deduplication": "Disabled", "expect": "Duplicates"},
    "dedup": {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"},
}


@pytest.fixture(scope="module", params=["kafka, a log-in", "kafka, a certificate", "pulsar"])
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    """What pods are told of it: an address, and files."""
    with ExitStack() as stack:
        if request.param == "pulsar":
            running = stack.enter_context(guarded_pulsar(tmp_path_factory.mktemp("pulsar"), HOST))
        else:
            listener = {"GUARDED": Listener(HOST, mutual=request.param.endswith("certificate"))}
            kafka = stack.enter_context(guarded_kafka(tmp_path_factory.mktemp("kafka"), listener))
            running = kafka.listeners["GUARDED"]
        yield running.model_copy(update={"topic_prefix": "dedup-led-"})


def there(system: Endpoints, case: dict[str, Any]) -> dict[str, Any]:
    """The system in an experiment: the Secrets are files already, so only that it is there has to be said."""
    at = {"bootstrap": "k:1"} if system.system == "kafka" else {"serviceUrl": "pulsar://p:1", "adminUrl": "http://p:2"}
    return {
        "name": system.system,
        system.system: {},
        "client": {"properties": case.get("properties", {})},
        "network": case.get("network", {}),
        "deploy": {"existing": at},
    }


def carried_out(system: Endpoints, folder: Path, case: dict[str, Any], variant: str, attempt: int) -> Manifest:
    """One run as a pod of its own, with a Toxiproxy of its own if bytes are to be disturbed; healed at its end."""
    with labs.create(folder / "lab") as lab:
        through = any("message" not in fault for fault in case["faults"])
        url = toxiproxy.start(lab, {}) if through else None
        told = assigned.assignment(
            folder,
            attempt=attempt,
            endpoints=system.model_copy(update={"toxiproxy_url": url}),
            systems=[there(system, case)],
            workload=case["workload"],
            faults=case["faults"],
            variants=list(VARIANTS.values()),
        )
        run = next(run.run_id for run in plan(told.experiment) if run.variant == variant)
        with LocalPod(told.model_copy(update={"run_id": run})) as pod:
            codes = pod.ended(RUN_S)
            assert set(codes.values()) == {0}, pod.everything_said()
        assert url is None or proxies.toxics(url) == []
    manifest = read_manifest(told.folder)
    assert not damages(told.folder, manifest) and not manifest.problems
    return manifest


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_connections_is_shown_and_only_deduplication_leaves_no_copies(
    system: Endpoints, fault: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    case = FAULTS[fault](system.system)
    copies = {}
    for variant in VARIANTS:
        for attempt in range(1, ATTEMPTS + 1):
            folder = tmp_path / f"{variant}-{attempt}"
            manifest = carried_out(system, folder, case, variant, attempt)
            if not manifest.missed:
                break
        assert [vacuous(each) for each in manifest.faults] == [None] * len(manifest.faults)
        counts = oracle.judge(folder / "history").counts
        assert counts.not_received == 0
        copies[variant] = counts.values_with_duplicates
    tell(f"{system.system}, {fault}: {copies}")
    assert copies["control"] and not copies["dedup"], copies
