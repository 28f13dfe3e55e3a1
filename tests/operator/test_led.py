"""Faults of the connections to a system that is there already: what a run's pod has that leads clients through them.

The twin of each: a fault that acts on no connection, of which test_existing.py tells. There clients go straight.
"""

from typing import Any, Final

import pytest
from testbed.worlds import SETTINGS
from tests.operator.test_existing import GUARDED, MOVE, OWNER, TLS, allowed, applied, experiment, job, mounts, told
from tests.operator.wrong_specs import OVER_TLS, REF, kafka, pulsar

from dedup.experiment.spec import Experiment
from dedup_operator.objects.accounts import accounts
from dedup_operator.objects.brokers import PROXY_USER, TOXIPROXY_URL
from dedup_operator.objects.readiness import readiness

CUT: Final = {"name": "cut", "at": {"message": 1}, "killTCP": {"duration": "1s"}}
LOST: Final = {
    "name": "lost",
    "at": {"message": 1},
    "message": {"api": "Produce", "frame": "Reply", "action": "Lose"},
}
OF_CONNECTIONS: Final = (
    CUT,
    {"name": "drop", "at": {"message": 1}, "dropTCP": {"duration": "1s"}},
    {"name": "late", "at": {"message": 1}, "delayTCP": {"delay": "1s", "duration": "2s"}},
    {"name": "slow", "at": {"message": 1}, "throttleTCP": {"kilobytesPerSecond": 10, "duration": "2s"}},
)
SLOWLY: Final = {"network": {"latency": "20ms"}}
ALL: Final = {"/credentials/tls", "/credentials/sasl"}


def led(*faults: dict[str, Any], at: Any = GUARDED) -> Experiment:
    return experiment(*at, ("spec/faults", [*faults]))


def alone(*faults: dict[str, Any]) -> Experiment:
    """With no other system, and so without pods of the experiment's own."""
    tested = {"name": "kafka", "kafka": {}, "deploy": {"existing": {"bootstrap": "k:9092"}}}
    return experiment(("spec/systems", [tested]), ("spec/faults", [*faults]))


def proxy_of(pod: dict[str, Any]) -> dict[str, Any] | None:
    return next((each for each in pod["initContainers"] if each["name"] == "toxiproxy"), None)


@pytest.mark.parametrize("fault", OF_CONNECTIONS, ids=lambda each: str(each["name"]))
def test_a_fault_of_connections_has_a_toxiproxy_with_a_user_of_its_own(fault: dict[str, Any]) -> None:
    """By the user the kernel's table tells its connections from the admins'. No chart says which proxies it has."""
    of = led(fault)
    pod = job(of)
    proxy = proxy_of(pod)
    assert proxy is not None
    assert proxy["securityContext"]["runAsUser"] == PROXY_USER != pod["securityContext"]["runAsUser"]
    assert not any("-config" in word for word in proxy["command"])
    others = [each for each in [*pod["initContainers"], *pod["containers"]] if each is not proxy]
    assert not any("runAsUser" in each["securityContext"] for each in others)
    assert "configMap" not in next((each for each in pod["volumes"] if each["name"] == "toxiproxy"), {})
    assert told(of).endpoints.toxiproxy_url == TOXIPROXY_URL


def test_it_may_no_more_than_before() -> None:
    """Pod Security's level restricted holds for it, too."""
    proxy, watchdog = (each["securityContext"] for each in job(led(CUT))["initContainers"][:2])
    assert {**proxy, "runAsUser": None} == {**watchdog, "runAsUser": None}


def test_what_a_chart_deploys_has_its_proxies_by_the_chart_and_no_user_of_its_own() -> None:
    pod = job(led(CUT), "pulsar")
    proxy = proxy_of(pod)
    assert proxy is not None and "runAsUser" not in proxy["securityContext"]
    assert any("-config" in word for word in proxy["command"])


@pytest.mark.parametrize("fault", [MOVE, LOST], ids=lambda each: str(each["name"]))
def test_what_acts_on_no_bytes_needs_no_toxiproxy(fault: dict[str, Any]) -> None:
    of = alone(fault)
    assert proxy_of(job(of)) is None and told(of).endpoints.toxiproxy_url is None


def test_a_latency_is_enough_to_need_one() -> None:
    tested = {"name": "kafka", "kafka": {}, "deploy": {"existing": {"bootstrap": "k:9092"}}, **SLOWLY}
    pod = job(experiment(("spec/systems", [tested]), ("spec/faults", [])))
    assert proxy_of(pod) is not None
    assert "chaos-latency" in [each["name"] for each in pod["containers"]]


def test_who_asks_brokers_sees_all_credentials_and_the_producer_its_log_in_alone() -> None:
    """Who speaks TLS for clients trusts authorities for them, too. Toxiproxy sees bytes that it cannot read.

    The consumer asks brokers itself what they cannot deliver.
    """
    told_apart = {
        "toxiproxy watchdog courier": set[str](),
        "conductor consumer chaos-cut": ALL,
        "producer": {"/credentials/sasl"},
    }
    assert mounts(job(led(CUT))) == {name: seen for names, seen in told_apart.items() for name in names.split()}


def test_clients_that_go_straight_see_what_they_need_for_tls() -> None:
    assert mounts(job(led(MOVE)))["producer"] == ALL


@pytest.mark.parametrize(
    ("at", "system", "seen"),
    [
        (kafka(tls={**TLS, "clientSecretRef": {"name": "own"}}), "kafka", set()),
        (pulsar(**OVER_TLS, tls={**TLS, "clientSecretRef": {"name": "own"}}), "pulsar", {"/credentials/client"}),
        (
            pulsar(**OVER_TLS, tls={**TLS, "clientSecretRef": {"name": "own"}}, token=REF),
            "pulsar",
            {"/credentials/token"},
        ),
    ],
    ids=["a Kafka does not ask its producer for it", "a Pulsar's greeting names it", "or a token instead"],
)
def test_our_certificate_is_shown_by_who_leads_and_producers_see_it_only_to_name_it(
    at: Any, system: str, seen: set[str]
) -> None:
    found = mounts(job(led(CUT, at=at), system))
    assert found["producer"] == seen
    assert {"/credentials/tls", "/credentials/client"} <= found["conductor"]


def test_it_needs_no_right_to_pods() -> None:
    def rights(of: Experiment) -> list[Any]:
        roles = [each for each in accounts(OWNER, of) if each["kind"] == "Role"]
        return [
            rule
            for each in roles
            if each["metadata"]["labels"]["dedup.dev/component"] == "run"
            for rule in each["rules"]
        ]

    assert rights(alone(*OF_CONNECTIONS, LOST)) == []
    assert rights(led(CUT)), "of the other system, which is the experiment's own, its runs have some"


def test_the_proof_that_it_answers_is_straight_as_before() -> None:
    of = led(CUT)
    pod = readiness(OWNER, of, of.spec.systems[0], SETTINGS)["spec"]["template"]["spec"]
    assert pod["initContainers"] == [] and TOXIPROXY_URL not in str(pod)


@pytest.mark.parametrize("fault", [*OF_CONNECTIONS, LOST], ids=lambda each: str(each["name"]))
def test_it_goes_to_its_verdict(fault: dict[str, Any]) -> None:
    world = allowed(applied(fault, SLOWLY))
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert world.installed == []
