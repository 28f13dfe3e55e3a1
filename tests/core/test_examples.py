"""The examples are what a newcomer copies: each parses, says what it shows, and carries the numbers of S0.

Those in examples/kubernetes are the same experiments made small, with a place for their histories. Those in its folder
more/ show what they do not. Those of the clients are small, and for one machine: some of them are programs.
"""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from dedup.experiment.clients import speaking
from dedup.experiment.spec import Experiment, Switch, load
from dedup.experiment.systems import Protocol
from dedup.faults.kill import Kill
from dedup.faults.kill_tcp import KillTCP
from dedup.faults.message import Action, Message, Side
from dedup.faults.registry import Fault

FOLDER: Final = Path(__file__).parents[2] / "examples"
CLIENTS_SIDE_BY_SIDE: Final[dict[Protocol, Path]] = {
    "kafka": FOLDER / "clients.yaml",
    "pulsar": FOLDER / "pulsar-clients.yaml",
}
OWN_CLIENT: Final = FOLDER / "own-client" / "kafka-own-client.yaml"
YOUR_OWN: Final = FOLDER / "existing-kafka.yaml"
EXAMPLES: Final = sorted({*FOLDER.glob("*.yaml")} - {*CLIENTS_SIDE_BY_SIDE.values(), YOUR_OWN})
IN_A_CLUSTER: Final = sorted((FOLDER / "kubernetes").glob("*.yaml"))
MORE: Final = sorted((FOLDER / "kubernetes" / "more").glob("*.yaml"))
STORE: Final = {"s3": {"bucket": "dedup", "endpoint": "http://minio.minio:9000", "secretRef": {"name": "store"}}}
WANTED: Final = {
    "kafka-kill-leader": ["kafka"],
    "kafka-kill-tcp": ["kafka"],
    "kafka-vs-pulsar": ["kafka", "pulsar"],
    "pulsar-kill-tcp": ["pulsar"],
    "pulsar-kill-topic-owner": ["pulsar"],
}
SMALL: Final = {"kafka-lost-reply": ["kafka"], "pulsar-lost-reply": ["pulsar"]}
"""Those with ten messages and a fault on one of them."""
OF_S0: Final = [path for path in EXAMPLES if path.stem not in SMALL]
PRIVILEGED: Final = {"spec/allowPrivilegedFaults", "spec/replacements"}
STRIMZI: Final = {"spec/systems", "spec/workload", "spec/runs", "spec/replacements", "spec/faults"}
TEN_MESSAGES: Final = {f"spec/{each}" for each in ("workload", "runs", "replacements", "verification", "faults")}
LATENCY_S: Final = {"kafka": 0.02, "pulsar": 0.1}


def test_the_examples_are_the_five_of_the_first_table_and_the_small_ones() -> None:
    systems = {path.stem: [system.kind for system in load(path).spec.systems] for path in EXAMPLES}
    assert systems == WANTED | SMALL


def test_each_is_there_for_a_cluster_too() -> None:
    assert [path.name for path in IN_A_CLUSTER] == [path.name for path in EXAMPLES]


@pytest.mark.parametrize("path", IN_A_CLUSTER, ids=lambda path: path.stem)
def test_in_a_cluster_it_is_the_same_but_small_and_with_a_store(path: Path) -> None:
    """And without a confidence, which so few runs can never reach. A kill needs some to leave duplicates.

    Ten messages stay ten, and need no Spark.
    """
    small: dict[str, Any] = yaml.safe_load((FOLDER / path.name).read_text())
    small["metadata"].pop("annotations", None)
    small["spec"].pop("confidencePercent", None)
    small["spec"] |= {"runs": 1, "replacements": 1, "artifacts": STORE}
    if path.stem in SMALL:
        small["spec"] |= {"runs": 2, "replacements": 2, "verification": {"engine": "Local"}}
    else:
        small["spec"]["workload"]["messages"] = 300_000
    if (kill := small["spec"]["faults"][0].get("kill")) is not None:
        small["spec"] |= {"runs": 3, "replacements": 2}
        kill["restartAfter"] = "12s"
    assert yaml.safe_load(path.read_text()) == small


@pytest.mark.parametrize("path", [*IN_A_CLUSTER, *MORE], ids=lambda path: path.stem)
def test_in_a_cluster_it_tells_how_it_is_applied(path: Path) -> None:
    assert f"--filename {path.relative_to(FOLDER.parent)}" in path.read_text()
    assert f"dedup/{path.stem}" in path.read_text()


def test_there_is_one_for_each_other_way_of_being_deployed_and_of_keeping_histories() -> None:
    """And the differences to an example that is carried out on a cluster are what it shows, and its name."""
    known = load(FOLDER / "kubernetes" / "kafka-kill-tcp.yaml").model_dump(mode="json", by_alias=True)
    differ = {path.stem: differences(load(path).model_dump(mode="json", by_alias=True), known) for path in MORE}
    name = "metadata/name"
    assert differ == {
        "kafka-existing": {name, "spec/systems", "spec/variants", "spec/faults"},
        "kafka-existing-kill-tcp": {name, "spec/systems"},
        "kafka-existing-lost-reply": {name, "spec/systems", *TEN_MESSAGES},
        "kafka-existing-pods": {name, "spec/systems", "spec/workload", "spec/variants", "spec/faults", *PRIVILEGED},
        "kafka-faults": {name, "spec/systems", "spec/workload", "spec/variants", "spec/faults", *PRIVILEGED},
        "kafka-on-a-volume": {name, "spec/artifacts"},
        "kafka-strimzi": {name, "spec/systems"},
        "kafka-strimzi-kill": {name, *STRIMZI},
        "kafka-strimzi-partition": {name, *STRIMZI, *PRIVILEGED},
        "kafka-strimzi-pod-delete": {name, *STRIMZI},
    }
    deployed = {path.stem: load(path).spec.systems[0] for path in MORE}
    strimzi, existing = deployed["kafka-strimzi"], [each for name, each in deployed.items() if "existing" in name]
    assert all(each.existing is not None and each.existing.tls and each.existing.sasl for each in existing)
    (named,) = [each.existing for each in existing if each.existing and each.existing.pod_selector]
    others = [each.existing for each in existing if each.existing and not each.existing.pod_selector]
    assert len(set(others)) == 1, "the same Kafka, and the same Secrets"
    assert (named.tls, named.sasl) == (others[0].tls, others[0].sasl)
    assert ".lab.svc:" in str(named.bootstrap), "pods are in the experiment's namespace"
    assert (strimzi.existing, strimzi.chart) == (None, "strimzi-kafka")


def differences(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    """Where two experiments are not the same, two keys deep."""
    keys = {(above, key) for each in (one, other) for above in ("metadata", "spec") for key in each[above]}
    return {f"{above}/{key}" for above, key in keys if one[above].get(key) != other[above].get(key)}


@pytest.mark.parametrize("protocol", CLIENTS_SIDE_BY_SIDE)
def test_one_has_every_client_of_a_protocol_side_by_side(protocol: Protocol) -> None:
    spec = load(CLIENTS_SIDE_BY_SIDE[protocol]).spec
    assert {system.library for system in spec.systems} == {client.library for client in speaking(protocol)}
    assert {system.client_version[:2] for system in spec.systems if "java" in system.library} == {"4.", "2."}
    same = [system.model_copy(update={"name": "", "client": spec.systems[0].client}) for system in spec.systems]
    assert all(each == same[0] for each in same), "they differ in the client alone"


def test_one_has_every_fault_of_connections_on_brokers_of_ones_own() -> None:
    spec = load(YOUR_OWN).spec
    (system,) = spec.systems
    assert system.existing is not None and system.network.latency_s
    assert {fault.kind for fault in spec.faults} == {Message.key, KillTCP.key}
    for option in (f"--secret {each.name}=FOLDER" for each in system.existing.secrets.values()):
        assert option in YOUR_OWN.read_text()


@pytest.mark.parametrize(
    "path",
    [*EXAMPLES, *CLIENTS_SIDE_BY_SIDE.values(), OWN_CLIENT, YOUR_OWN, *IN_A_CLUSTER, *MORE],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_an_example_is_named_after_its_file_and_opens_with_what_it_teaches(path: Path) -> None:
    opening = path.read_text().split("\napiVersion")[0].splitlines()
    assert load(path).name == path.stem
    assert len(opening) >= 5
    assert all(line.startswith("#") for line in opening)
    assert any(line.startswith("# Expect: ") for line in opening)


@pytest.mark.parametrize("path", OF_S0, ids=lambda path: path.stem)
def test_an_example_has_the_numbers_of_s0(path: Path) -> None:
    spec = load(path).spec
    assert (spec.workload.messages, spec.workload.in_flight, spec.runs) == (1_000_000, 10_000, 50)
    assert {variant.name: variant.deduplication for variant in spec.variants} == {
        "control": Switch.DISABLED,
        "dedup": Switch.ENABLED,
    }
    assert all(system.network.latency_s == LATENCY_S[system.kind] for system in spec.systems)
    assert [fault.at.message for fault in spec.faults] == [50_000]


@pytest.mark.parametrize("path", OF_S0, ids=lambda path: path.stem)
def test_only_the_demonstration_asks_for_no_confidence(path: Path) -> None:
    """Two runs a variant (make demo) can never reach 95 %: with it, the demonstration could only be inconclusive."""
    assert load(path).spec.confidence_percent == (None if path.stem == "kafka-vs-pulsar" else 95)


@pytest.mark.parametrize("path", OF_S0, ids=lambda path: path.stem)
def test_an_example_injects_the_fault_of_its_name(path: Path) -> None:
    fault = fault_of(load(path))
    if "kill-leader" in path.stem or "kill-topic-owner" in path.stem:
        assert isinstance(fault.given, Kill)
        assert fault.given.restart_after_s == 20
    else:
        assert isinstance(fault.given, KillTCP)
        assert fault.given.duration_s == 10


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem in SMALL], ids=lambda path: path.stem)
def test_a_small_example_loses_the_reply_to_the_third_of_ten_messages(path: Path) -> None:
    experiment = load(path)
    fault = fault_of(experiment)
    assert (experiment.spec.workload.messages, fault.at.message) == (10, 3)
    assert isinstance(fault.given, Message)
    assert (fault.given.frame, fault.given.action, fault.given.nth) == (Side.REPLY, Action.LOSE, 1)


def fault_of(experiment: Experiment) -> Fault:
    (fault,) = experiment.spec.faults
    return fault
