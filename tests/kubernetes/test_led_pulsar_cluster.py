"""A Pulsar that is there already, by TLS and with a token, from `kubectl apply` to the verdict.

Connections of its clients are reset, or the answer to one message is lost, and no pod is touched; or its brokers' pods
are struck, as their owner allows.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from testbed.cluster.clusters import Cluster
from tests.kubernetes import guarded, operated
from tests.kubernetes.guarded import Pulsar
from tests.kubernetes.operated import Document, Operated, condition
from tests.kubernetes.test_consent_cluster import lives
from tests.kubernetes.test_every_fault_cluster import check
from tests.kubernetes.test_operator_cluster import MORE, MOST_SEEDS, carried_out, document_of, of, words

from dedup.history.histories import read_manifest
from dedup.wire.faults import Detail

pytestmark = pytest.mark.cluster

EXAMPLES: Final = ("pulsar-kill-tcp", "pulsar-lost-reply")
SECRETS: Final = ("pulsar-authority", "pulsar-token")


@pytest.fixture(scope="module")
def allowing(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    home = tmp_path_factory.mktemp("consent")
    leave = {"allowPrivilegedFaults": True, "allowFaultsOnPodsOfOthers": True}
    with operated.at(cluster, home, ("pulsar",), **leave) as made:
        level = "pod-security.kubernetes.io/enforce=privileged"
        made.place.kubectl("label", "namespace", made.place.namespace, "--overwrite", level)
        yield made


@pytest.fixture(scope="module")
def there(allowing: Operated, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pulsar]:
    """Where the user's Pulsar is; its Secrets are for experiments."""
    with (
        guarded.pulsar(allowing.place, tmp_path_factory.mktemp("guarded")) as found,
        guarded.tokens(allowing.place, *SECRETS, found.token),
    ):
        yield found


def on(document: Document, there: Pulsar, **more: object) -> Document:
    """The same experiment, on the user's Pulsar."""
    authority, token = ({"secretRef": {"name": name}} for name in SECRETS)
    existing = {"serviceUrl": there.service_url, "adminUrl": there.admin_url, "tls": authority, "token": token, **more}
    document["spec"]["systems"][0] |= {"pulsar": {}, "deploy": {"existing": existing}}
    document["metadata"]["name"] += "-there"
    document["spec"]["verification"] = {"engine": "Local"}
    return document


@pytest.mark.timeout(MOST_SEEDS * 900)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_fault_of_connections_leaves_duplicates_in_the_control_alone(
    name: str, allowing: Operated, there: Pulsar, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """If it came when all was acknowledged, the verdict says so, and it is done again with another seed."""
    before = lives(allowing)
    for attempt in range(MOST_SEEDS):
        document = on(document_of(MORE.parent / f"{name}.yaml", attempt), there)
        status = carried_out(allowing, document, tmp_path / str(attempt), tell)
        assert lives(allowing) == before, "nothing was done to the brokers"
        counts = of(status, "pulsar", "dedup")["counts"]
        assert (counts["valuesWithDuplicates"], counts["notReceived"]) == (0, 0)
        if status["verdict"] == "Pass":
            assert condition(status, "FaultsInjected") == "True"
            assert of(status, "pulsar", "control")["counts"]["valuesWithDuplicates"]
            fetched = [path for path in tmp_path.rglob("*") if path.is_file()]
            told = "".join([allowing.log(), str(status), *(path.read_text(errors="replace") for path in fetched)])
            assert fetched and there.token not in told, "what the Secret holds is to be read nowhere"
            return
        assert status["verdict"] == "Inconclusive", words(status, "Finished")
    raise AssertionError(f"inconclusive: {words(status, 'Finished')}")


def on_pods(there: Pulsar, kinds: frozenset[str]) -> Document:
    """The Kafka's example whose pods are struck, on the user's Pulsar, with these of its faults."""
    document = document_of(MORE / "kafka-existing-pods.yaml", 0)
    spec = document["spec"]
    spec["systems"] = [{"name": "pulsar"}]
    spec["faults"] = [each for each in spec["faults"] if kinds & each.keys()]
    labels = dict(each.split("=") for each in guarded.BROKERS.split(","))
    return on(document, there, podSelector={"matchLabels": labels})


@pytest.mark.timeout(1800)
def test_its_brokers_pods_are_struck_as_their_owner_allows(
    allowing: Operated, there: Pulsar, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """The topic's owner is killed and held down, another broker is stopped, and a pod is deleted."""
    document, before = on_pods(there, frozenset({"kill", "pause", "podDelete"})), lives(allowing)
    document["spec"].pop("allowPrivilegedFaults")
    check(allowing, document, tmp_path / "fetched", tell)
    after = lives(allowing)
    changed = [each for each in before if after[each] != before[each]]
    tell(f"replaced or restarted: {changed}")
    assert after.keys() == before.keys() and changed


@pytest.mark.timeout(1800)
def test_its_broker_that_is_cut_off_waits_for_bookies_and_so_do_clients(
    allowing: Operated, there: Pulsar, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """The cut is real, as the kernel's counters show, nobody does anything about it, and all is stored once: no pass.

    A Kafka's clients notice the same cut: tests/kubernetes/test_consent_cluster.py.
    """
    document, folder = on_pods(there, frozenset({"partition"})), tmp_path / "fetched"
    spec = document["spec"]
    spec["workload"]["messages"] = 100_000
    spec["replacements"] = 0
    (cut,) = spec["faults"]
    cut["at"] = {"after": "15s"}
    status = carried_out(allowing, document, folder, tell)
    assert status["verdict"] == "Inconclusive", words(status, "Finished")
    tell(words(status, "Finished"))
    (manifest,) = (read_manifest(path.parent) for path in folder.rglob("manifest.json"))
    (fault,) = manifest.faults
    shown = Detail.model_validate(fault.target_witness)
    assert shown.packets_dropped and fault.heal_proven and fault.problems == ()
    counts = of(status, "pulsar", "dedup")["counts"]
    assert (counts["valuesWithDuplicates"], counts["notReceived"]) == (0, 0)
