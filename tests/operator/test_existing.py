"""A system that is there already: what pods are given of it, and that nothing of it is installed or taken away."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from testbed.specs import changed
from testbed.worlds import NAMESPACE, SETTINGS, STORE, FakeCluster, ScriptedHelm, World
from tests.operator.test_reconciliations import fake, message
from tests.operator.wrong_specs import OVER_TLS, REF, kafka, pulsar, sasl

from dedup.errors import SpecificationError
from dedup.experiment.assignments import Assignment
from dedup.experiment.endpoints import OPEN, Security
from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, parse
from dedup_operator.objects.__main__ import printed
from dedup_operator.objects.accounts import accounts
from dedup_operator.objects.credentials import Named, secrets_named
from dedup_operator.objects.names import Owner
from dedup_operator.objects.readiness import readiness
from dedup_operator.objects.runs import run_objects
from dedup_operator.objects.systems import release_of
from dedup_operator.reconciliations import Reconciler

OWNER: Final = Owner(NAMESPACE, "e", "6f1c")
TLS: Final = {"secretRef": {"name": "authority"}}
LOGIN: Final = sasl(secretRef={"name": "login"})
GUARDED: Final = kafka(tls=TLS, sasl=LOGIN)
MOVE: Final = {"name": "move", "at": {"message": 1}, "moveLeader": {}}
KEYS: Final = {"authority": ("ca.crt",), "login": ("username", "password")}


def experiment(*changes: tuple[str, Any]) -> Experiment:
    return parse(changed(*changes), source="test")


def job(of: Experiment, system: str = "kafka") -> dict[str, Any]:
    run = next(run for run in plan(of) if run.system == system)
    return dict(run_objects(OWNER, of, run, 1, SETTINGS)[-1]["spec"]["template"]["spec"])


def told(of: Experiment, system: str = "kafka") -> Assignment:
    run = next(run for run in plan(of) if run.system == system)
    return Assignment.model_validate_json(run_objects(OWNER, of, run, 1, SETTINGS)[0]["data"]["run.json"])


def mounts(pod: dict[str, Any]) -> dict[str, set[str]]:
    """Which containers mount which credentials."""
    return {
        each["name"]: {mount["mountPath"] for mount in each["volumeMounts"] if "/credentials" in mount["mountPath"]}
        for each in [*pod["initContainers"], *pod["containers"]]
    }


# --- what pods are given -------------------------------------------------------------------------------------------


def test_every_secret_that_is_named_is_known() -> None:
    store = ("spec/artifacts", {"s3": {"bucket": "bucket", "secretRef": {"name": "keys"}}})
    found = secrets_named(experiment(*GUARDED, *pulsar(**OVER_TLS, tls=TLS, token=REF)[1:], store))
    at = "spec.systems[{}].deploy.existing.{}.secretRef.name"
    assert found == [
        Named("spec.artifacts.s3.secretRef.name", "keys"),
        Named(at.format(0, "tls"), "authority", ("ca.crt",)),
        Named(at.format(0, "sasl"), "login", ("username", "password"), shown_to=("k:9092",)),
        Named(at.format(1, "tls"), "authority", ("ca.crt",)),
        Named(at.format(1, "token"), "s", ("token",), shown_to=("b:6651", "b:8443")),
    ]
    assert secrets_named(experiment()) == []


def test_secrets_are_mounted_key_by_key_where_clients_are_and_nowhere_else() -> None:
    pod = job(experiment(*GUARDED, ("spec/faults", [MOVE])))
    volumes = {each["name"]: each["secret"] for each in pod["volumes"] if "secret" in each}
    assert {each["secretName"]: tuple(item["key"] for item in each["items"]) for each in volumes.values()} == KEYS
    assert all(item["key"] == item["path"] for each in volumes.values() for item in each["items"])
    both = {"/credentials/tls", "/credentials/sasl"}
    assert mounts(pod) == {
        "watchdog": set(),
        "courier": set(),
        **dict.fromkeys(("conductor", "producer", "consumer", "chaos-move"), both),
    }


def test_a_system_of_the_same_experiment_that_is_deployed_sees_none_of_them() -> None:
    of = experiment(*GUARDED)
    assert not any(mounts(job(of, "pulsar")).values())
    assert told(of, "pulsar").endpoints.security == OPEN
    assert "toxiproxy" in mounts(job(of, "pulsar"))


def test_programs_are_told_where_the_files_are_and_not_what_is_in_them() -> None:
    found = told(experiment(*GUARDED)).endpoints
    assert found.security == Security(
        ca=Path("/credentials/tls/ca.crt"), sasl="SCRAM-SHA-512", login=Path("/credentials/sasl")
    )
    assert (found.client_bootstrap, found.direct_bootstrap, found.brokers) == ("k:9092", "k:9092", [])
    assert found.toxiproxy_url is None


def test_a_certificate_of_our_own_is_mounted_with_its_key() -> None:
    """It is a log-in: its Secret's owner names the hosts that may see it."""
    own = {**TLS, "clientSecretRef": {"name": "own"}}
    for of, system in (
        (experiment(*kafka(tls=own)), "kafka"),
        (experiment(*pulsar(**OVER_TLS, tls=own)), "pulsar"),
    ):
        found = told(of, system).endpoints.security
        place = Path("/credentials/client")
        assert (found.certificate, found.key) == (place / "tls.crt", place / "tls.key")
        (named,) = [each for each in secrets_named(of) if each.name == "own"]
        assert (named.keys, bool(named.shown_to)) == (("tls.crt", "tls.key"), True)
        assert named.where.endswith("deploy.existing.tls.clientSecretRef.name")
        assert {"/credentials/tls", "/credentials/client"} == mounts(job(of, system))["producer"]


def test_a_pulsar_is_told_by_its_two_addresses_and_a_token() -> None:
    found = told(experiment(*pulsar(**OVER_TLS, tls=TLS, token=REF)), "pulsar").endpoints
    assert (found.client_bootstrap, found.admin_urls) == (OVER_TLS["serviceUrl"], [OVER_TLS["adminUrl"]])
    assert found.listener_name is None
    assert found.security.token == Path("/credentials/token/token")


def test_topics_on_it_have_names_of_their_own() -> None:
    """Whatever else is there, and whatever an earlier execution has left."""
    of = experiment(*GUARDED)
    run = next(run for run in plan(of) if run.system == "kafka")

    def prefix(owner: Owner) -> str:
        made = run_objects(owner, of, run, 1, SETTINGS)[0]["data"]["run.json"]
        return Assignment.model_validate_json(made).endpoints.topic_prefix

    assert prefix(OWNER).startswith("dedup-d-")
    assert len({prefix(OWNER), prefix(OWNER._replace(token="2")), prefix(OWNER._replace(uid="7a"))}) == 3
    assert told(of, "pulsar").endpoints.topic_prefix == ""


def test_its_readiness_is_a_round_trip_with_the_credentials_of_runs() -> None:
    of = experiment(*GUARDED)
    pod = readiness(OWNER, of, of.spec.systems[0], SETTINGS)["spec"]["template"]["spec"]
    assert pod["initContainers"] == [] and mounts(pod) == {"round-trip": {"/credentials/tls", "/credentials/sasl"}}
    _, _, *command = pod["containers"][0]["command"]
    assert command[:4] == ["python", "-m", "dedup_runners.round_trips", "existing"]
    assert json.loads(command[4].removeprefix("--endpoints=")) == json.loads(
        told(of).endpoints.model_dump_json(exclude_defaults=True)
    )


def test_who_touches_no_pod_has_no_right_to() -> None:
    def rights(of: Experiment) -> list[str]:
        roles = [each for each in accounts(OWNER, of) if each["kind"] == "Role"]
        run = next(each for each in roles if each["metadata"]["labels"]["dedup.dev/component"] == "run")
        return [resource for rule in run["rules"] for resource in rule["resources"]]

    existing_only = ("spec/systems", [{"name": "k", "kafka": {}, "deploy": {"existing": {"bootstrap": "k:9092"}}}])
    assert rights(experiment(*kafka(), existing_only)) == []
    assert rights(experiment(*GUARDED)) == ["pods", "pods/exec"]


@pytest.mark.parametrize("what", ["release", "values"])
def test_it_has_no_release_to_be_printed(what: str) -> None:
    with pytest.raises(SpecificationError, match="got kafka; the experiment's systems are pulsar"):
        printed(what, "kafka", 1, experiment(*GUARDED), SETTINGS)
    assert printed(what, "pulsar", 1, experiment(*GUARDED), SETTINGS)


# --- before a fake cluster -----------------------------------------------------------------------------------------


SMALL: Final = (("metadata/name", "e"), ("spec/runs", 1))
ALONE: Final = {
    "name": "kafka",
    "kafka": {},
    "deploy": {"existing": {"bootstrap": "k:9092", "tls": TLS, "sasl": LOGIN}},
}


def applied(disturbed: dict[str, Any] = MOVE, system: dict[str, Any] | None = None, **more: Any) -> World:
    world = World(FakeCluster(), **more)
    world.apply(changed(*SMALL, ("spec/faults", [disturbed]), ("spec/systems", [ALONE | (system or {})])))
    return world


def secret(world: World, name: str, *, label: str = "true", keys: tuple[str, ...] | None = None) -> None:
    """As its owner makes it: for experiments, and a log-in for its broker."""
    meta = {"name": name, "namespace": NAMESPACE, "labels": {"dedup.dev/use": label}}
    if name == "login":
        meta["annotations"] = {"dedup.dev/hosts": "k:9092"}
    data = dict.fromkeys(KEYS[name] if keys is None else keys, "c2VjcmV0")
    world.cluster.delete("Secret", NAMESPACE, name)
    world.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})


def allowed(world: World) -> World:
    for name in KEYS:
        secret(world, name)
    return world


def test_it_goes_to_its_verdict_and_nothing_is_installed_or_taken_away() -> None:
    world = allowed(applied())
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert world.installed == []
    assert sorted(filter(None, world.player.jobs.values())) == ["kafka-control-001", "kafka-dedup-001"]
    assert {each["metadata"]["name"] for each in world.cluster.list("Secret", NAMESPACE, "")} == {*KEYS, STORE}
    assert world.cluster.list("Job", NAMESPACE, "dedup.dev/component=readiness") == []


def test_helm_is_not_even_asked() -> None:
    """Nor where a release has the very name that one of ours would have."""
    world = allowed(applied(refuses=AssertionError("Helm was asked")))
    release = release_of(OWNER, experiment(*GUARDED).spec.systems[0])
    labels = {"owner": "helm", "name": release, "version": "1", "status": "deployed"}
    meta = {"name": "theirs", "namespace": NAMESPACE, "labels": labels}
    world.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
    world.run()
    assert world.status()["verdict"] == "Pass"
    assert world.cluster.get("Secret", NAMESPACE, "theirs") is not None


@pytest.mark.long
def test_a_crash_anywhere_changes_nothing() -> None:
    calm = allowed(applied())
    calm.run()
    for moment in range(1, calm.moments + 1):
        world = allowed(applied())
        assert world.run(crash_at=moment)
        assert world.status()["verdict"] == "Pass"
        assert (world.installed, world.orphans()) == ([], ["Secret authority", "Secret login"])


@pytest.mark.parametrize(
    ("allowed_to", "refused"),
    [
        ("k:9092", None),
        ("other.example:1, k", None),
        ("*", None),
        ("k:9093", "k:9092"),
        ("*.prod.example", "k:9092"),
        ("", "k:9092"),
    ],
)
def test_a_log_in_is_shown_only_where_its_owner_says(allowed_to: str, refused: str | None) -> None:
    """Whoever writes an experiment may name any address; the owner of the Secret decides who hears what is in it."""
    world = allowed(applied())
    made = fake(world).objects["Secret", NAMESPACE, "login"]
    made["metadata"]["annotations"] = {"dedup.dev/hosts": allowed_to}
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    stalled = world.status()["phase"] == "Stalled"
    assert stalled == (refused is not None)
    if refused:
        assert f"got login, which may not be shown to {refused}" in message(world, "Stalled")


def silent(world: World) -> World:
    """The owner of the log-in does not say where it may be shown."""
    del fake(world).objects["Secret", NAMESPACE, "login"]["metadata"]["annotations"]
    return world


def to_any_host(world: World) -> Reconciler:
    """An operator whose administrator lets log-ins be shown to any host."""
    defaults = SETTINGS.model_copy(update={"allow_logins_to_any_host": True})
    return Reconciler(world.cluster, ScriptedHelm(world.cluster), defaults, lambda: world.now_s)


def test_a_log_in_whose_owner_does_not_say_where_is_shown_nowhere() -> None:
    world = silent(allowed(applied()))
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    assert message(world, "Stalled").endswith(
        "sasl.secretRef.name: got login, which has no such annotation; a log-in is shown only where its owner says, "
        "in the annotation dedup.dev/hosts; have its owner add it, such as dedup.dev/hosts=k:9092"
    )
    assert world.cluster.list("Job", NAMESPACE, "") == world.cluster.list("ConfigMap", NAMESPACE, "") == []
    secret(world, "login")
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_authorities_are_no_secret_and_need_no_host() -> None:
    world = allowed(applied())
    assert "annotations" not in fake(world).objects["Secret", NAMESPACE, "authority"]["metadata"]
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_an_administrator_may_let_log_ins_be_shown_to_any_host_but_overrules_no_owner() -> None:
    world = silent(allowed(applied()))
    to_any_host(world).look((NAMESPACE, "e"))
    assert world.condition("Stalled")[0] == "False"
    kept = fake(world).objects["Secret", NAMESPACE, "login"]["metadata"]
    kept["annotations"] = {"dedup.dev/hosts": "other:9092"}
    to_any_host(world).look((NAMESPACE, "e"))
    assert "which may not be shown to k:9092" in message(world, "Stalled")


def test_that_right_is_todays_also_for_what_has_begun() -> None:
    """Begun while any host would do, it halts once the administrator takes that back, until the owner says."""
    world = silent(allowed(applied()))
    for _ in range(3):
        to_any_host(world).look((NAMESPACE, "e"))
    begun = world.status()["state"]
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    assert "which has no such annotation" in message(world, "Stalled")
    assert world.status()["state"] == begun
    secret(world, "login")
    world.run()
    assert world.status()["verdict"] == "Pass"


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("login", {"label": "false"}, "sasl.secretRef.name: got login, which has no such label"),
        ("authority", {"label": "yes"}, "tls.secretRef.name: got authority, which has no such label"),
        ("login", {"keys": ("username",)}, "got login, which has no password; it has the keys username, password"),
        ("authority", {"keys": ()}, "got authority, which has no ca.crt; it has the keys ca.crt; add the key"),
    ],
)
def test_a_secret_that_may_not_or_cannot_be_used_stalls_before_anything_is_made(
    name: str, more: dict[str, Any], words: str
) -> None:
    world = allowed(applied())
    secret(world, name, **more)
    operator, _ = world.operator()
    assert operator.look((NAMESPACE, "e")) is not None
    (stalled,) = (each for each in world.status()["conditions"] if each["type"] == "Stalled")
    assert stalled["status"] == "True" and words in stalled["message"]
    assert world.cluster.list("Job", NAMESPACE, "") == world.cluster.list("ConfigMap", NAMESPACE, "") == []
    secret(world, name)
    world.run()
    assert world.status()["verdict"] == "Pass"


def test_what_is_in_a_secret_is_in_no_object_of_ours() -> None:
    world = allowed(applied())
    assert isinstance(world.cluster, FakeCluster)
    world.run(until=lambda _status: any(world.player.jobs.values()))
    others = {key: made for key, made in world.cluster.objects.items() if key[0] != "Secret"}
    assert {"ConfigMap", "Job"} <= {kind for kind, _, _ in others}
    assert "c2VjcmV0" not in json.dumps([*others.values()])


def test_a_round_trip_that_fails_is_told_and_no_run_begins() -> None:
    world = allowed(applied(fails=lambda made: made["metadata"]["labels"]["dedup.dev/component"] == "readiness"))
    world.run()
    assert not any(world.player.jobs.values())
    assert world.installed == []
