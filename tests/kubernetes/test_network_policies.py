"""The rules that are made of NetworkPolicies: what each part of a policy lets through, and its twin that does not."""

from typing import Any, Final

import pytest
from testbed.cluster.policies import Standing, ruleset, selects

ONE: Final = "10.244.0.1"
TWO: Final = "10.244.0.2"
AWAY: Final = "10.244.0.3"
NAMESPACES: Final = [{"metadata": {"name": name, "labels": {"team": name}}} for name in ("home", "away")]


def pod(address: str, namespace: str = "home", **labels: str) -> dict[str, Any]:
    ports = [{"name": "web", "containerPort": 8080}]
    return {
        "metadata": {"name": f"pod-{address}", "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "main", "ports": ports}]},
        "status": {"phase": "Running", "podIP": address},
    }


PODS: Final = [pod(ONE, app="one"), pod(TWO, app="two"), pod(AWAY, "away", app="two")]


def policy(kind: str, *rules: dict[str, Any], **selector: str) -> dict[str, Any]:
    """One that isolates the first pod, unless other labels are said."""
    chosen = {"podSelector": {"matchLabels": selector or {"app": "one"}}, "policyTypes": [kind]}
    return {"metadata": {"name": "p", "namespace": "home"}, "spec": chosen | {kind.lower(): list(rules)}}


def chains(*policies: dict[str, Any], pods: list[dict[str, Any]] = PODS) -> dict[str, list[str]]:
    """The lines of each chain, without what each chain of a pod has: itself before, `drop` at the end."""
    found: dict[str, list[str]] = {}
    for line in ruleset(policies, pods, NAMESPACES, Standing.CUT).splitlines():
        if line.startswith("  chain "):
            found[line.split()[1]] = lines = []
        elif line.startswith("    "):
            lines.append(line.strip())
    for name, lines in found.items():
        if name != "forward":
            way = "saddr" if name.startswith("ingress") else "daddr"
            assert lines.pop(0) == f"ip {way} {name.partition('-')[2]} return"
            assert lines.pop() == "counter drop"
    return found


def ingress(*rules: dict[str, Any]) -> list[str]:
    return chains(policy("Ingress", *rules))[f"ingress-{ONE}"]


def test_without_a_policy_everything_passes() -> None:
    assert [*chains()] == ["forward"]
    assert not [line for line in chains()["forward"] if "drop" in line or "vmap" in line]


def test_who_is_selected_is_isolated_in_that_direction_and_nobody_else() -> None:
    found = chains(policy("Ingress"))
    assert [*found] == [f"ingress-{ONE}", "forward"]
    assert found[f"ingress-{ONE}"] == []
    assert found["forward"][-1] == f"ip daddr vmap {{ {ONE} : jump ingress-{ONE} }}"
    assert chains(policy("Egress"))["forward"][-1] == f"ip saddr vmap {{ {ONE} : jump egress-{ONE} }}"


def test_a_policy_of_another_namespace_isolates_nobody_here() -> None:
    elsewhere = policy("Ingress", app="two")
    assert f"ingress-{TWO}" in chains(elsewhere)
    assert f"ingress-{AWAY}" not in chains(elsewhere)


def test_a_rule_without_peers_lets_everybody_in_and_no_rule_nobody() -> None:
    assert ingress({}) == ["return"]
    assert ingress() == []


@pytest.mark.parametrize(
    ("peer", "lines"),
    [
        ({"podSelector": {}}, [f"ip saddr {{ {ONE}, {TWO} }} return"]),
        ({"podSelector": {"matchLabels": {"app": "two"}}}, [f"ip saddr {{ {TWO} }} return"]),
        ({"podSelector": {"matchLabels": {"app": "three"}}}, []),
        ({"namespaceSelector": {}}, [f"ip saddr {{ {ONE}, {TWO}, {AWAY} }} return"]),
        ({"namespaceSelector": {"matchLabels": {"team": "away"}}}, [f"ip saddr {{ {AWAY} }} return"]),
        (
            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "two"}}},
            [f"ip saddr {{ {TWO}, {AWAY} }} return"],
        ),
        ({"ipBlock": {"cidr": "10.0.0.0/8"}}, ["ip saddr 10.0.0.0/8 return"]),
        (
            {"ipBlock": {"cidr": "0.0.0.0/0", "except": [f"{TWO}/32", f"{AWAY}/32"]}},
            [f"ip saddr 0.0.0.0/0 ip saddr != {TWO}/32 ip saddr != {AWAY}/32 return"],
        ),
        ({"ipBlock": {"cidr": "fd00::/8"}}, []),
    ],
)
def test_peers_are_known_by_their_addresses(peer: dict[str, Any], lines: list[str]) -> None:
    assert ingress({"from": [peer]}) == lines


@pytest.mark.parametrize(
    ("port", "line"),
    [
        ({"port": 80}, "tcp dport 80 return"),
        ({"port": 80, "endPort": 90}, "tcp dport 80-90 return"),
        ({"port": 53, "protocol": "UDP"}, "udp dport 53 return"),
        ({"protocol": "UDP"}, "meta l4proto udp return"),
        ({"port": "web"}, f"ip daddr {ONE} tcp dport 8080 return"),
    ],
)
def test_ports_are_numbers_ranges_names_and_protocols(port: dict[str, Any], line: str) -> None:
    assert ingress({"ports": [port]}) == [line]


def test_a_port_whose_name_no_container_has_lets_nothing_in() -> None:
    assert ingress({"ports": [{"port": "metrics"}]}) == []
    assert ingress({"ports": [{"port": "web", "protocol": "UDP"}]}) == []


def test_the_name_of_a_port_means_that_of_each_pod_that_is_called() -> None:
    out = policy("Egress", {"to": [{"podSelector": {"matchLabels": {"app": "two"}}}], "ports": [{"port": "web"}]})
    lines = chains(out)[f"egress-{ONE}"]
    assert lines == [f"ip daddr {{ {TWO} }} ip daddr {each} tcp dport 8080 return" for each in (ONE, TWO, AWAY)]


def test_policies_add_to_each_other() -> None:
    both = chains(policy("Ingress", {"ports": [{"port": 1}]}), policy("Ingress", {"ports": [{"port": 2}]}))
    assert both[f"ingress-{ONE}"] == ["tcp dport 1 return", "tcp dport 2 return"]


def test_a_policy_without_types_is_of_ingress_and_of_egress_only_if_it_says_so() -> None:
    plain = policy("Ingress")
    del plain["spec"]["policyTypes"]
    assert [*chains(plain)] == [f"ingress-{ONE}", "forward"]
    plain["spec"]["egress"] = []
    assert [*chains(plain)] == [f"egress-{ONE}", f"ingress-{ONE}", "forward"]


@pytest.mark.parametrize("gone", [{"phase": "Succeeded"}, {"phase": "Failed"}, {"podIP": None}, {"host": True}])
def test_a_pod_that_has_no_network_of_its_own_now_has_no_chain(gone: dict[str, Any]) -> None:
    one = pod(ONE, app="one")
    assert f"ingress-{ONE}" in chains(policy("Ingress"), pods=[one])
    if gone.pop("host", False):
        one["spec"]["hostNetwork"] = True
    one["status"] |= gone
    assert [*chains(policy("Ingress"), pods=[one])] == ["forward"]


def test_what_becomes_of_connections_that_stand_is_one_line() -> None:
    cut, kept = (ruleset([], [], [], each).splitlines() for each in (Standing.CUT, Standing.KEPT))
    differ = [(one.strip(), other.strip()) for one, other in zip(cut, kept, strict=True) if one != other]
    assert differ == [("ct direction reply accept", "ct state established accept")]


@pytest.mark.parametrize(
    ("operator", "values", "those"),
    [
        ("In", ["a", "b"], {"a"}),
        ("NotIn", ["a"], {"c", None}),
        ("Exists", None, {"a", "c"}),
        ("DoesNotExist", None, {None}),
    ],
)
def test_labels_are_selected_by_expressions(operator: str, values: list[str] | None, those: set[str | None]) -> None:
    selector = {"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}
    found = {value for value in ("a", "c", None) if selects(selector, {} if value is None else {"k": value})}
    assert found == those


def test_an_operator_that_nobody_knows_is_no_selector() -> None:
    with pytest.raises(ValueError, match="Like"):
        selects({"matchExpressions": [{"key": "k", "operator": "Like"}]}, {})
