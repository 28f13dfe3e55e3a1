"""A system by a chart of the administrator's list: from `deploy.chart` to its verdict, and each way to be refused."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import ValidationError
from testbed.specs import changed
from testbed.worlds import FIRST_S, NAMESPACE, SETTINGS, FakeCluster, World
from tests.operator.test_reconciliations import fake, message

from dedup.errors import PlatformError
from dedup.experiment.spec import parse
from dedup_operator.archives import NotFetched
from dedup_operator.clusters import Object, Unreachable
from dedup_operator.objects.accounts import accounts
from dedup_operator.objects.listed import ListedSystem
from dedup_operator.objects.names import LABEL, Owner
from dedup_operator.objects.rendered import RELEASE, check, owned, without_later_hooks
from dedup_operator.objects.settings import Defaults, Settings
from dedup_operator.objects.snapshots import SETTINGS as KEPT
from dedup_operator.objects.snapshots import settings_in, snapshot, snapshot_name
from dedup_operator.objects.systems import endpoints, values

DIGEST: Final = "sha256:" + "0" * 64
ENTRY: Final[Object] = {
    "name": "theirs",
    "protocol": "kafka",
    "chart": "kafka",
    "repository": "https://charts.example/stable",
    "version": "1.2.3",
    "digest": DIGEST,
    "objects": ["StatefulSet", "ConfigMap"],
    "brokers": {
        "pod": "{release}-broker",
        "service": "{release}-brokers",
        "container": "broker",
        "port": 9092,
        "listener": {"port": 9094, "firstPort": 39092},
    },
    "faults": ["killTCP"],
}
PULSARS: Final[Object] = {
    **ENTRY,
    "name": "apache",
    "protocol": "pulsar",
    "brokers": {
        "pod": "{release}-pulsar-broker",
        "service": "{release}-pulsar-broker-headless",
        "container": "{release}-pulsar-broker",
        "id": "{host}.cluster.local:8080",
        "port": 6650,
        "adminPort": 8080,
        "listener": {"name": "loopback", "port": 6660, "firstPort": 36650},
    },
}
POD: Final[Object] = {"metadata": {"labels": {"app": "kafka"}}, "spec": {"containers": []}}
BROKERS: Final[Object] = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "{release}-broker"},
    "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "kafka"}}, "template": POD},
}
SETTING: Final[Object] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{release}-more"}, "data": {}}
CHART: Final = [BROKERS, SETTING]
THEIRS: Final = [{"name": "kafka", "kafka": {}, "deploy": {"chart": "theirs"}}]
SMALL: Final = (("metadata/name", "e"), ("spec/systems", THEIRS), ("spec/runs", 1))
WRONG: Final = PlatformError(where="chart theirs 1.2.3: digest", got="sha256:12", rule="the list says", todo="compare")


def entry(**changes: Any) -> ListedSystem:
    return ListedSystem.model_validate_json(json.dumps(ENTRY | changes), by_alias=True)


def settings(*entries: ListedSystem) -> Settings:
    return SETTINGS.model_copy(update={"systems": list(entries)})


def applied(chart: list[Object] | Exception, *changes: tuple[str, object], **of_entry: Any) -> World:
    """An experiment on that chart, which an entry of this kind names."""
    world = World(FakeCluster(), settings=settings(entry(**of_entry)), charts={"theirs": chart})
    world.apply(changed(*SMALL, *changes))
    return world


def made(world: World) -> list[tuple[str, str]]:
    """What is there besides the experiment, the store's keys and what people are told."""
    kinds = [(kind, name) for kind, _, name in fake(world).objects if kind not in ("DedupExperiment", "Event")]
    return [each for each in kinds if each != ("Secret", "store")]


def looked(world: World, times: int = 3) -> None:
    operator, _ = world.operator()
    for _ in range(times):
        operator.look((NAMESPACE, "e"))


# --- from apply to verdict -----------------------------------------------------------------------------------------


def test_an_experiment_on_a_listed_chart_goes_from_apply_to_its_verdict() -> None:
    world = applied(CHART)
    world.run(until=lambda _status: any(world.player.jobs.values()))
    (brokers,) = world.cluster.list("StatefulSet", NAMESPACE, "")
    release, uid = world.installed[0], world.live()["metadata"]["uid"]
    assert brokers["metadata"]["labels"] == {LABEL: "e", RELEASE: release}
    assert brokers["spec"]["template"]["metadata"]["labels"] == {"app": "kafka", LABEL: "e", RELEASE: release}
    assert [each["uid"] for each in brokers["metadata"]["ownerReferences"]] == [uid]
    proxies = world.cluster.get("ConfigMap", NAMESPACE, f"{release}-toxiproxy")
    assert proxies is not None
    first, *_ = json.loads(proxies["data"]["toxiproxy.json"])
    assert (first["listen"], first["upstream"]) == (
        "127.0.0.1:39092",
        f"{release}-broker-0.{release}-brokers.{NAMESPACE}.svc:9094",
    )
    assert world.orphans() == []
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert world.installed == [release]
    assert (
        world.cluster.list("StatefulSet", NAMESPACE, "") == world.cluster.list("Secret", NAMESPACE, "owner=helm") == []
    )
    assert world.cluster.get("ConfigMap", NAMESPACE, f"{release}-toxiproxy") is None


@pytest.mark.long
@pytest.mark.parametrize("crash_at", range(1, 40))
def test_a_crash_at_any_write_changes_nothing(crash_at: int) -> None:
    world = applied(CHART)
    world.run(crash_at=crash_at)
    assert world.status()["verdict"] == "Pass"
    assert sorted(filter(None, world.player.jobs.values())) == ["kafka-control-001", "kafka-dedup-001"]
    assert world.cluster.list("StatefulSet", NAMESPACE, "") == []
    assert world.orphans() == []


def test_a_run_may_enter_the_brokers_pods_by_their_names_and_no_other() -> None:
    of = parse(changed(*SMALL), source="test")
    (role,) = [
        each for each in accounts(Owner(NAMESPACE, "e", "6f1c"), of, listed=[entry()]) if each["kind"] == "Role"
    ][:1]
    (entered,) = [each["resourceNames"] for each in role["rules"] if each["resources"] == ["pods/exec"]]
    assert [each.rpartition("-broker-")[2] for each in entered] == ["0", "1", "2"]


def test_brokers_are_where_the_entry_says() -> None:
    of = parse(
        changed(*SMALL, ("spec/systems", [{"name": "p", "pulsar": {}, "deploy": {"chart": "apache"}}])), source="t"
    )
    apaches = ListedSystem.model_validate_json(json.dumps(PULSARS), by_alias=True)
    told = endpoints(of.spec.systems[0], "r", "lab", listed=[entry(), apaches])
    host = "r-pulsar-broker-0.r-pulsar-broker-headless.lab.svc"
    one = told.brokers[0]
    assert (one.id, one.admin_url, one.host) == (f"{host}.cluster.local:8080", f"http://{host}:8080", None)
    assert one.pod is not None
    assert (one.pod.name, one.pod.container, one.pod.hold) == ("r-pulsar-broker-0", "r-pulsar-broker", None)
    assert (one.client_port, one.proxy_port, told.listener_name) == (6660, 36650, "loopback")
    assert told.client_bootstrap == "pulsar://127.0.0.1:36650,127.0.0.1:36651,127.0.0.1:36652"
    assert told.direct_bootstrap.startswith(f"pulsar://{host}:6650,")
    assert told.bookies == []


def test_by_hand_there_are_no_values_for_it() -> None:
    with pytest.raises(PlatformError, match="stand in the list, and an operator installs it"):
        values(parse(changed(*SMALL), source="test").spec.systems[0], SETTINGS)


# --- refused, before anything is made ------------------------------------------------------------------------------

KILL: Final = {"name": "k", "at": {"message": 1}, "kill": {"target": "Leader", "restartAfter": "0s"}}
BOOKIE: Final = {"name": "k", "at": {"message": 1}, "kill": {"target": "Bookie", "restartAfter": "0s"}}


@pytest.mark.parametrize(
    ("changes", "of_entry", "words"),
    [
        (
            [],
            {"name": "others"},
            "deploy.chart: got theirs; a chart of somebody else's is installed only if it is on the",
        ),
        (
            [("spec/systems", [{"name": "p", "pulsar": {}, "deploy": {"chart": "theirs"}}])],
            {},
            "got theirs, a kafka; the system is a pulsar",
        ),
        ([("spec/faults", [KILL])], {}, "spec.faults[0].kill: got fault k, on a system of the administrator's list"),
    ],
    ids=["not in the list", "of another protocol", "a fault that is not offered"],
)
def test_what_the_list_does_not_have_stalls_and_nothing_is_made(
    changes: list[tuple[str, object]], of_entry: Object, words: str
) -> None:
    world = applied(CHART, *changes, **of_entry)
    looked(world)
    assert words in message(world, "Stalled")
    assert made(world) == []


LATER: Final = {**KILL, "kill": {"target": "Leader", "restartAfter": "8s"}}
HOLDS: Final = {**ENTRY["brokers"], "hold": "/hold"}


def test_a_broker_that_nothing_holds_down_stalls_before_anything_is_made() -> None:
    """Its runs would all be errors: who strikes refuses a restartAfter that nobody keeps."""
    world = applied(CHART, ("spec/faults", [LATER]), faults=["kill"])
    looked(world)
    assert "spec.faults[0].kill: got fault k, and entry theirs without brokers.hold" in message(world, "Stalled")
    assert made(world) == []


def test_its_twin_whose_entry_names_the_hold_is_begun() -> None:
    world = applied(CHART, ("spec/faults", [LATER]), faults=["kill"], brokers=HOLDS)
    looked(world)
    assert world.status()["phase"] == "Provisioning"


def test_its_twin_that_is_offered_is_begun() -> None:
    world = applied(CHART, ("spec/faults", [KILL]), faults=["kill"])
    looked(world)
    assert world.status()["phase"] == "Provisioning"


def test_without_a_list_the_words_say_so() -> None:
    world = applied(CHART)
    world.settings = SETTINGS
    looked(world)
    assert "have the administrator put one into settings.systems" in message(world, "Stalled")


def test_each_of_two_entries_is_asked_for() -> None:
    both = [*THEIRS, {"name": "other", "kafka": {}, "deploy": {"chart": "mine"}}]
    for first, second in ((WRONG, CHART), (CHART, WRONG)):
        world = World(
            FakeCluster(), settings=settings(entry(), entry(name="mine")), charts={"theirs": first, "mine": second}
        )
        world.apply(changed(*SMALL, ("spec/systems", both)))
        looked(world)
        assert "digest: got sha256:12" in message(world, "Stalled")


def test_an_archive_of_another_digest_stalls_until_the_list_is_mended() -> None:
    world = applied(WRONG)
    looked(world)
    assert world.condition("Stalled") == ("True", "Stalled")
    assert "chart theirs 1.2.3: digest: got sha256:12" in message(world, "Stalled")
    assert made(world) == []
    world.charts = {"theirs": CHART}
    world.run()
    assert (world.status()["verdict"], world.status()["state"]["failures"]) == ("Pass", 0)


GONE: Final = NotFetched(where="chart theirs 1.2.3", got="connection refused", rule="it is fetched", todo="ask again")


def begun_anew(chart: Exception) -> World:
    """Helm did not come to its end, and what became of the chart's archive meanwhile is this."""
    world = applied(CHART)
    world.refuses = Unreachable("helm: Error: the server is away")
    with pytest.raises(Unreachable):
        looked(world, 9)
    assert world.status()["state"]["intended"]
    world.refuses, world.charts = None, {"theirs": chart}
    return world


def test_a_registry_that_is_away_fails_nothing_that_has_begun() -> None:
    world = begun_anew(GONE)
    operator, _ = world.operator()
    for _ in range(3):
        with pytest.raises(Unreachable, match="connection refused"):
            operator.look((NAMESPACE, "e"))
    world.charts = {"theirs": CHART}
    world.run()
    assert (world.status()["verdict"], world.status()["state"]["failures"]) == ("Pass", 0)


def test_its_twin_that_has_another_archive_does() -> None:
    world = begun_anew(WRONG)
    looked(world, 1)
    assert world.status()["state"]["failures"] == 1
    assert "digest: got sha256:12" in world.status()["state"]["lastFailure"]


CLUSTER_ROLE: Final = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "all"}}


def test_a_chart_that_wants_rights_in_the_cluster_stalls_and_nothing_is_made() -> None:
    world = applied([*CHART, CLUSTER_ROLE])
    looked(world)
    assert "got ClusterRole all; an entry's chart makes objects of the experiment's namespace" in message(
        world, "Stalled"
    )
    assert made(world) == []


def test_one_that_never_gets_ready_is_an_error_in_words_and_nothing_is_left() -> None:
    """Here: one Deployment of it, which nobody brings up."""
    more = {
        **BROKERS,
        "kind": "Deployment",
        "metadata": {"name": "{release}-more"},
        "spec": {"replicas": 1, "template": POD},
    }
    world = applied([*CHART, more], ("spec/timeouts", {"provision": "30s"}), objects=[*ENTRY["objects"], "Deployment"])
    world.run(until=lambda _status: world.now_s > FIRST_S + 20)
    assert "0 of 1 ready" in message(world, "Reconciling")
    for each in world.cluster.list("Deployment", NAMESPACE, ""):  # which Helm takes away, and its player does not
        world.cluster.delete("Deployment", NAMESPACE, each["metadata"]["name"])
    assert not any(world.player.jobs.values())


# --- what a chart may render ---------------------------------------------------------------------------------------


def changed_chart(**metadata: Any) -> list[Object]:
    return [{**BROKERS, "metadata": {"name": "r-broker", **metadata}}]


@pytest.mark.parametrize(
    ("objects", "got", "rule"),
    [
        ([CLUSTER_ROLE], "ClusterRole all", "gives no right beyond it"),
        ([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}], "Namespace n", "namespace only"),
        ([{"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "n"}}], "ConfigMap n", "namespace only"),
        (
            [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}],
            "Secret s",
            "names StatefulSet, ConfigMap",
        ),
        (changed_chart(namespace="kube-system"), "StatefulSet r-broker in kube-system", "is in its namespace, lab"),
        (changed_chart(annotations={"helm.sh/hook": "pre-install"}), "r-broker, a hook", "Helm waits for hooks"),
        (["text"], "text", "a kind, a name"),
        ([{"kind": "ConfigMap"}], "ConfigMap", "a kind, a name"),
        (changed_chart(labels=["a"]), "r-broker", "maps of labels"),
        ([{**BROKERS, "metadata": {"name": "r-broker"}, "spec": {"replicas": 3}}], "r-broker", "has a template"),
        (
            [{**SETTING, "metadata": {"name": "r-more"}}],
            "r-broker with 3 brokers; the chart's StatefulSets are: none",
            "find the brokers by",
        ),
        (
            [{**BROKERS, "metadata": {"name": "r-kafka"}}],
            "the chart's StatefulSets are: r-kafka with 3",
            "find the brokers",
        ),
        (
            [{**BROKERS, "metadata": {"name": "r-broker"}, "spec": {**BROKERS["spec"], "replicas": 1}}],
            "the chart's StatefulSets are: r-broker with 1",
            "find the brokers",
        ),
    ],
)
def test_what_a_chart_may_not_render_is_refused(objects: list[Any], got: str, rule: str) -> None:
    with pytest.raises(PlatformError) as refused:
        check(entry(), objects, "r", "lab")
    assert got in refused.value.got
    assert rule in refused.value.rule


@pytest.mark.parametrize("events", ["pre-upgrade", "test", "post-upgrade, pre-rollback"])
def test_hooks_that_nothing_will_ever_call_are_left_out(events: str) -> None:
    (hook,) = changed_chart(annotations={"helm.sh/hook": events})
    (at_install,) = changed_chart(annotations={"helm.sh/hook": f"{events},post-install"})
    assert without_later_hooks([hook, "text", at_install, *CHART]) == ["text", at_install, *CHART]


def test_claims_of_a_listed_chart_go_with_it() -> None:
    claims = {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    (found,) = owned([{**BROKERS, "spec": {**BROKERS["spec"], **claims}}], Owner(NAMESPACE, "e", "6f1c"), "r")
    assert found["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete"
    assert "persistentVolumeClaimRetentionPolicy" not in BROKERS["spec"]


SHIPPED: Final = (Path(__file__).parents[2] / "docs" / "charts.md").read_text(encoding="utf-8")


def documented() -> ListedSystem:
    """The entry of docs/charts.md for the Apache Pulsar chart."""
    (block,) = [each for each in re.findall(r"```yaml\n(.*?)```", SHIPPED, re.DOTALL) if "apache-pulsar" in each]
    said = json.dumps(yaml.safe_load(block)["settings"])
    (found,) = Defaults.model_validate_json(said, by_alias=True).systems
    return found


def test_the_entry_of_the_documentation_is_one() -> None:
    apaches = documented()
    assert apaches.brokers == ListedSystem.model_validate_json(json.dumps(PULSARS), by_alias=True).brokers
    assert not {"kill", "pause"} & {*apaches.faults}, "Java is process 1 there"


# --- settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"gives": [{"apiGroups": [""], "resources": ["pods"]}]},
        {"gives": [{"apiGroups": [""], "resources": ["*"], "verbs": ["get"]}]},
        {"name": "kafka"},
        {"chart": "--post-renderer=/tmp/evil"},
        {"chart": "oci://charts.example/kafka"},
        {"repository": None},
        {"repository": "file:///etc"},
        {"version": "latest"},
        {"digest": "sha256:abc"},
        {"digest": None},
        {"objects": []},
        {"objects": ["ClusterRole"]},
        {"faults": ["partition"]},
        {"protocol": "amqp"},
        {"brokers": {**ENTRY["brokers"], "pod": "{release.__class__}"}},
        {"brokers": {**ENTRY["brokers"], "pod": "{release"}},
        {"brokers": {**ENTRY["brokers"], "container": "{number}"}},
        {"brokers": {**ENTRY["brokers"], "adminPort": 8080}},
        {"protocol": "pulsar"},
        {"command": ["sh"]},
    ],
)
def test_an_entry_is_what_is_written_down_here_and_no_more(wrong: Object) -> None:
    with pytest.raises(ValidationError):
        entry(**wrong)


@pytest.mark.parametrize(
    "right",
    [
        {},
        {"chart": "oci://charts.example/lab/kafka", "repository": None},
        {"gives": [{"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["get"]}]},
        {"chart": "/usr/local/dedup/listed/kafka.tgz", "repository": None},
        {"brokers": {**ENTRY["brokers"], "id": "{number}", "hold": "/hold", "count": 5}},
    ],
)
def test_its_innocent_twins(right: Object) -> None:
    assert entry(**right).name == "theirs"


def test_two_entries_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="two entries of systems are called theirs"):
        Defaults.model_validate_json(json.dumps({"systems": [ENTRY, ENTRY]}), by_alias=True)


def test_a_snapshot_keeps_the_entry_that_is_used_and_no_other() -> None:
    """Without one it is what an operator of before can read; and an entry is read back as it was."""
    owner, theirs = Owner(NAMESPACE, "e", "6f1c"), parse(changed(*SMALL), source="test")
    ours = parse(changed(*SMALL, ("spec/systems", [{"name": "kafka", "kafka": {}}])), source="test")
    both = settings(entry(), entry(name="mine", values={"a": {"b": 1}}))
    assert "systems" not in json.loads(snapshot(owner, ours, both)["data"][KEPT])
    kept = snapshot(owner, theirs, both)
    assert settings_in(kept, SETTINGS).systems == [entry()]
    assert kept["metadata"]["name"] == snapshot_name(owner)


def test_an_entry_that_is_taken_away_is_still_that_of_what_has_begun_and_is_left() -> None:
    world = applied(CHART)
    world.run(until=lambda _status: any(world.player.jobs.values()))
    world.settings = SETTINGS
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert made(world) == [each for each in made(world) if each[0] != "StatefulSet"]
