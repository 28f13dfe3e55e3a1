"""Every row of the table of messages (docs/install.md): an experiment that stalls, and says just that.

A message is looked up as people do it: from the top, in the first row that it begins as. What is left out of a row's
words (…) differs from one experiment to another.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pytest
from testbed.specs import changed
from testbed.worlds import LOCKING, NAMESPACE, SETTINGS, FakeCluster, ScriptedHelm, World
from tests.operator import test_consents as consents
from tests.operator import test_listed as listed
from tests.operator import test_preview as preview
from tests.operator import test_strimzi as strimzi
from tests.operator.gates import ROOT
from tests.operator.test_existing import allowed, secret
from tests.operator.test_existing import applied as on_existing
from tests.operator.test_held_back import guarded
from tests.operator.test_privileged_faults import NET_FILTER, privileged
from tests.operator.test_reconciliations import SMALL, applied, edit, fake, message
from tests.operator.test_settings_of_executions import sealed
from tests.operator.test_stores import ON_VOLUME, without_store
from tests.operator.test_without_spark import unserved

from dedup_operator.clusters import Object, Refused, Taken
from dedup_operator.objects.names import Owner
from dedup_operator.objects.settings import Artifacts, ChaosImage, Defaults, Volume
from dedup_operator.objects.snapshots import FILE, snapshot_name
from dedup_operator.objects.snapshots import SETTINGS as SETTINGS_FILE
from dedup_operator.possibilities import MOST
from dedup_operator.reconciliations import LOOK_AGAIN_S, STALLED_AGAIN_S, Reconciler

LARGE: Final = ("spec/workload", {"messages": 1000, "inFlight": 1000, "payload": {"bytes": 900_000}})
OWN_TEXT: Final = {"experiment": "own.json", "deadline": "5s"}
OWN: Final = {"name": "own", "at": {"message": 1}, "chaos": OWN_TEXT}
ROLLING: Final = {"name": "rolling", "at": {"message": 1}, "rollingRestart": {}}
SERVES: Final = (
    "spec/workload",
    {
        "messages": 1000,
        "inFlight": 1000,
        "consumer": {
            "at": {"message": 500},
            "end": "Kill",
            "service": {"pattern": "Outbox", "after": "Commit", "effect": "Row"},
        },
    },
)
BY_STRIMZI: Final = ("spec/systems", [{"name": "kafka", "kafka": {}, "deploy": {"chart": "strimzi-kafka"}}])
WORKS: Final = (
    ("spec/systems", [{"name": "p", "pulsar": {}, "deploy": {"chart": "theirs"}}]),
    ("spec/workload/consumer", {"at": {"message": 500}, "end": "Kill", "function": {"guarantee": "AtLeastOnce"}}),
)
BY_THEIRS: Final = {key: listed.PULSARS[key] for key in ("protocol", "brokers")}
REPLICATED: Final[tuple[tuple[str, Any], ...]] = (
    ("spec/systems", [{"name": "p", "pulsar": {}, "client": {"properties": {"batching_enabled": "false"}}}]),
    ("spec/workload", {"messages": 1000, "inFlight": 1000, "replication": {"at": {"message": 500}}}),
    ("spec/faults", []),
)
TRANSACTING: Final = (
    ("spec/systems", [{"name": "pulsar", "pulsar": {}, "client": {"library": "pulsar-java"}}]),
    ("spec/workload", {"messages": 1000, "inFlight": 1000, "transactions": {"size": 100}}),
    ("spec/variants", [{"name": "committed", "deduplication": "Enabled", "expect": "CommittedOnce"}]),
)
OWN_PROGRAM: Final = ("spec/systems", [{"name": "kafka", "kafka": {}, "client": {"command": ["./mine"]}}])
OTHER: Final = "any other words"
SNAPSHOT: Final = snapshot_name(Owner(NAMESPACE, "e", "6f1c"))
STORE: Final = ("spec/artifacts", {"s3": {"bucket": "bucket", "secretRef": {"name": "keys"}}})
PRIVILEGED: Final = (("spec/faults", [NET_FILTER]), ("spec/allowPrivilegedFaults", True))


def rows() -> list[str]:
    """What is in the table's first column, from the top."""
    page = (ROOT / "docs" / "install.md").read_text()
    table = page.partition("When it is *stalled*")[2].partition("| message | what to do |")[2].partition("\n\n")[0]
    return [row.strip("`") for row in re.findall(r"^\| (`[^|]+`|\w[^|]*) \|", table, re.MULTILINE)]


def row_of(said: str) -> str:
    """Where a message is looked up."""
    return next((row for row in rows() if re.match(re.escape(row).replace("…", ".+"), said)), OTHER)


def looked(world: World) -> World:
    operator, _ = world.operator()
    operator.look((NAMESPACE, "e"))
    return world


def wrong() -> World:
    return looked(applied(("spec/runs", 0)))


def no_store() -> World:
    world = applied()
    defaults = Defaults(**{name: getattr(SETTINGS, name) for name in Defaults.model_fields if name != "artifacts"})
    Reconciler(world.cluster, ScriptedHelm(world.cluster), defaults, lambda: world.now_s).look((NAMESPACE, "e"))
    return world


def no_privilege() -> World:
    world = applied(*PRIVILEGED)
    privileged(world, allowed=False).look((NAMESPACE, "e"))
    return world


def own_without_its_text() -> World:
    world = applied(("spec/faults", [OWN | {"chaos": OWN_TEXT | {"image": "list"}}]))
    defaults = SETTINGS.model_copy(update={"chaos_images": [ChaosImage(name="list", sha256=["0" * 64])]})
    Reconciler(world.cluster, ScriptedHelm(world.cluster), defaults, lambda: world.now_s).look((NAMESPACE, "e"))
    return world


def strict_namespace() -> World:
    world = applied(*PRIVILEGED)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    world.cluster.create({"kind": "Namespace", "metadata": {"name": NAMESPACE, "namespace": "", "labels": labels}})
    privileged(world, allowed=True).look((NAMESPACE, "e"))
    return world


def used_token() -> World:
    world = applied(("spec/runToken", "1"))
    world.run()
    edit(world, runToken="2")
    world.run()
    edit(world, runToken="1")
    return looked(world)


def no_label() -> World:
    world = applied(STORE)
    world.cluster.create({"kind": "Secret", "metadata": {"name": "keys", "namespace": NAMESPACE}})
    return looked(world)


def no_key() -> World:
    world = allowed(on_existing())
    secret(world, "login", keys=("username",))
    return looked(world)


def by_program() -> World:
    return on_existing(system={"client": {"library": "kafka-java"}})


def shown_elsewhere() -> World:
    world = allowed(on_existing())
    made = fake(world).objects["Secret", NAMESPACE, "login"]
    made["metadata"]["annotations"] = {"dedup.dev/hosts": "kafka.prod.example:9093"}
    return looked(world)


def shown_nowhere() -> World:
    world = allowed(on_existing())
    del fake(world).objects["Secret", NAMESPACE, "login"]["metadata"]["annotations"]
    return looked(world)


def on_no_volume() -> World:
    """The administrator's claim is not there."""
    world = applied()
    defaults = SETTINGS.model_copy(update={"artifacts": Artifacts(volume=Volume(claim="histories"))})
    Reconciler(world.cluster, ScriptedHelm(world.cluster), defaults, lambda: world.now_s).look((NAMESPACE, "e"))
    return world


def unknown(world: World, kind: str) -> World:
    fake(world).unknown = {kind}
    return looked(world)


def unserved_for_long(world: World) -> World:
    world.now_s += 181
    return looked(world)


def kafka_that_nobody_looks_at() -> World:
    world = strimzi.applied()
    world.run(until=lambda _status: bool(world.cluster.list("Kafka", NAMESPACE, "")))
    return world


def anothers_snapshot() -> World:
    world = applied()
    meta = {"name": SNAPSHOT, "namespace": NAMESPACE}
    world.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {FILE: "{}"}})
    return looked(world)


@dataclass
class Forgetful(FakeCluster):
    """Somebody deletes every ConfigMap at once."""

    def create(self, made: Object) -> bool:
        return made["kind"] == "ConfigMap" or super().create(made)


def snapshot_that_goes() -> World:
    world = World(Forgetful())
    world.apply(changed(*SMALL))
    return looked(world)


def with_data(said: Callable[[Object], Object], *, seals: bool = True) -> World:
    """In mid-run the snapshot says something else; `seals`: as if that were what was written."""
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    kept = (world.cluster.get("ConfigMap", NAMESPACE, SNAPSHOT) or {})["data"]
    world.cluster.patch("ConfigMap", NAMESPACE, SNAPSHOT, {"data": said(kept)})
    if seals:
        sealed(world)
    return looked(world)


def snapshot_of_another_version() -> World:
    return with_data(lambda _: {FILE: json.dumps(changed(*SMALL, ("spec/speed", 3)))})


def settings_of_another_version() -> World:
    return with_data(lambda kept: {SETTINGS_FILE: json.dumps({**json.loads(kept[SETTINGS_FILE]), "warp": 9})})


def snapshot_without_text() -> World:
    return with_data(lambda _: {FILE: "{"})


def snapshot_of_somebody() -> World:
    return with_data(lambda _: {FILE: "{}"}, seals=False)


def snapshot_that_went() -> World:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    world.cluster.delete("ConfigMap", NAMESPACE, SNAPSHOT)
    edit(world, seed=7)
    return looked(world)


def take_over(world: World, job: str) -> None:
    world.cluster.patch("Job", NAMESPACE, job, {"metadata": {"ownerReferences": []}})


def anothers_run() -> World:
    world = applied()
    world.run(until=lambda _status: any(world.player.jobs.values()))
    take_over(world, next(name for name, run in world.player.jobs.items() if run))
    edit(world, suspend=True)
    return looked(world)


def anothers_readiness() -> World:
    world = allowed(on_existing())
    world.run(until=lambda _status: bool(world.player.jobs))
    take_over(world, next(iter(world.player.jobs)))
    edit(world, runToken="2")
    return looked(world)


def in_helms_way() -> World:
    world = applied()
    world.refuses = Taken("helm: Error: release: already exists")
    operator, _ = world.operator()
    with suppress(Refused):
        while world.status().get("phase") != "Stalled":
            operator.look((NAMESPACE, "e"))
    return world


def impossible_state() -> World:
    world = applied()
    world.run(until=lambda status: status.get("phase") == "Running")
    live = world.live()
    state: dict[str, Any] = {**live["status"]["state"], "failures": MOST + 1}
    world.cluster.set_status(live, {**live["status"], "state": state})
    return looked(world)


def kafka_that_is_not_paused() -> World:
    world = strimzi.applied(strimzi.READY)
    world.run(until=lambda _status: strimzi.asked_to_keep_still(world))
    strimzi.scaled_to_0(world)
    return world


def of_others(
    fault: dict[str, Any] = consents.KILL, containers: int = 1, spec: dict[str, Any] | None = None, **changes: Any
) -> World:
    """A Kafka of others with one pod, which has so many containers."""
    pod = consents.pod(0, **changes)
    pod["spec"] |= spec or {}
    pod["spec"]["containers"] = [{"name": f"c-{number}", "image": "none"} for number in range(containers)]
    return consents.world(fault, pods=(pod,))


def without_leave() -> World:
    return preview.world(consents.document(consents.KILL))


def begun_without_a_lock() -> World:
    world = preview.world(preview.without_pods())
    world.run(until=lambda status: bool(status.get("state")))
    world.settings = LOCKING
    return looked(world)


def template_without_consent() -> World:
    world = of_others(consents.DELETE)
    consents.stateful(world)
    return looked(world)


BROUGHT: Final = {**consents.LABELS, "dedup.dev/faults": "allowed", "dedup.dev/experiment": "theirs"}


STALLS: Final[list[tuple[str, Callable[[], World]]]] = [
    ("DedupExperiment: spec.…: got …", wrong),
    ("spec.artifacts: got nothing", no_store),
    ("spec.faults: got …, a partition by NetFilter", no_privilege),
    ("system …: client.library: got …, a program", lambda: looked(allowed(by_program()))),
    ("system …: client.command: got …, a program of your own", lambda: looked(applied(OWN_PROGRAM))),
    ("spec.workload: got transactions, …", lambda: looked(applied(*TRANSACTING))),
    ("spec.workload.consumer.service: got …", lambda: looked(applied(BY_STRIMZI, SERVES))),
    ("spec.workload.replication: got …", lambda: looked(applied(*REPLICATED))),
    ("spec.workload.consumer.function: got …", lambda: looked(listed.applied(listed.CHART, *WORKS, **BY_THEIRS))),
    ("spec.workload.payload.bytes: got …", lambda: looked(applied(LARGE))),
    ("spec.faults[…].rollingRestart: got fault …", lambda: looked(applied(("spec/faults", [ROLLING])))),
    ("spec.faults[…].chaos.image: got …", lambda: looked(applied(("spec/faults", [OWN])))),
    ("spec.faults[…].chaos.document: got …", own_without_its_text),
    ("spec.….…: got fault …, of a system that is there already", lambda: looked(allowed(on_existing(disturbed=OWN)))),
    ("system …: deploy.existing.podSelector: got …", lambda: looked(without_leave())),
    ("system …: got an execution that was begun without its lock", begun_without_a_lock),
    ("pods …: got no label …", lambda: looked(of_others(labels=consents.LABELS))),
    ("pods …: got pods that experiments have brought", lambda: looked(of_others(labels=BROUGHT))),
    ("pod …: got host…: true", lambda: looked(of_others(spec={"hostNetwork": True}))),
    ("StatefulSet …: got no label … in its pod template", template_without_consent),
    ("pods …: got none with these labels", lambda: looked(of_others(labels={"app": "other"}))),
    ("pod …: got the containers …", lambda: looked(of_others(containers=2))),
    ("pod …: got no annotation …", lambda: looked(of_others(annotations={}))),
    ("pod …: got no owner …", lambda: looked(of_others(consents.DELETE, ownerReferences=[]))),
    ("pod …, annotation …: got …", lambda: looked(of_others(annotations={"dedup.dev/hold": "hold"}))),
    ("system …: deploy.chart: got …", lambda: looked(listed.applied(listed.CHART, name="others"))),
    (
        "spec.….…: got fault …, on a system of the administrator's list",
        lambda: looked(listed.applied(listed.CHART, ("spec/faults", [listed.KILL]))),
    ),
    ("chart …: digest: got …", lambda: looked(listed.applied(listed.WRONG))),
    ("chart …: got …", lambda: looked(listed.applied([listed.CLUSTER_ROLE]))),
    ("Namespace …: got Pod Security level …", strict_namespace),
    ("spec.runToken: got …, which was used before", used_token),
    ("….secretRef.name: got …, which is not there", lambda: looked(applied(STORE))),
    ("…, which has no such label", no_label),
    ("….secretRef.name: got …, which has no such annotation", shown_nowhere),
    ("….secretRef.name: got …, which has no …", no_key),
    ("….secretRef.name: got …, which may not be shown to …", shown_elsewhere),
    ("settings.artifacts.s3.secret: got …", lambda: looked(without_store())),
    ("settings.artifacts.volume.claim: got …", on_no_volume),
    ("spec.artifacts.pvc.claimName: got …", lambda: looked(applied(ON_VOLUME))),
    ("SparkApplication: got a cluster that does not know this kind", lambda: unknown(applied(), "SparkApplication")),
    ("SparkApplication d-…: got no status for more than 180 s", lambda: unserved_for_long(unserved())),
    ("Kafka: got a cluster that does not know this kind", lambda: unknown(strimzi.applied(), "Kafka")),
    ("Kafka d-…: got no status for more than 180 s", lambda: unserved_for_long(kafka_that_nobody_looks_at())),
    ("Kafka d-…: got no pause for more than 180 s", kafka_that_is_not_paused),
    ("ConfigMap d-…: got one that does not belong …", anothers_snapshot),
    ("ConfigMap d-…: got none, though it was just made", snapshot_that_goes),
    ("ConfigMap d-…: got another one than was written", snapshot_of_somebody),
    ("ConfigMap d-…: got none, and the experiment or …", snapshot_that_went),
    ("ConfigMap d-…: experiment.yaml: got …", snapshot_without_text),
    ("ConfigMap d-…: settings.json: …: got …", settings_of_another_version),
    ("ConfigMap d-…: spec.…: got …", snapshot_of_another_version),
    ("…: got one that does not belong …", anothers_run),
    ("…: got one that does not belong …", anothers_readiness),
    ("helm: …; find out who made it, and delete it", in_helms_way),
    ("status.state: got …", impossible_state),
]


@pytest.mark.parametrize(("row", "stall"), STALLS)
def test_a_row_is_what_a_stalled_experiment_says(row: str, stall: Callable[[], World]) -> None:
    world = stall()
    assert world.condition("Stalled") == ("True", "Stalled")
    assert row_of(message(world, "Stalled")) == row


def test_the_page_has_these_rows_and_one_for_all_else() -> None:
    assert set(rows()) == {*dict(STALLS), OTHER}
    assert rows()[-1] == OTHER


def test_what_the_api_server_refuses_is_in_its_own_words() -> None:
    _, world = guarded("ConfigMap")
    looked(world)
    assert message(world, "Stalled").startswith("ConfigMap is forbidden; give the operator's account that right")
    assert row_of(message(world, "Stalled")) == OTHER


def test_what_is_stalled_for_long_is_looked_at_less_often_and_at_once_when_it_has_just_stalled() -> None:
    """A thousand that nobody mends cost an operator little; whoever mends a mistake at once need not wait."""
    world = applied(STORE)
    operator, _ = world.operator()
    began_s, looks = world.now_s, list[float]()
    while world.now_s < began_s + 3600:
        again_s = operator.look((NAMESPACE, "e"))
        assert again_s is not None
        looks.append(again_s)
        world.now_s += again_s
    assert looks[:4] == [LOOK_AGAIN_S] * 4
    assert looks == sorted(looks) and looks[-1] == STALLED_AGAIN_S
    assert 3600 / STALLED_AGAIN_S < len(looks) < 60


def test_one_that_is_mended_goes_on_however_long_it_was_stalled() -> None:
    world = looked(applied(STORE))
    world.now_s += 24 * 3600
    looked(world)
    keys = {"AWS_ACCESS_KEY_ID": "YQ==", "AWS_SECRET_ACCESS_KEY": "Yg=="}
    made = {"name": "keys", "namespace": NAMESPACE, "labels": {"dedup.dev/use": "true"}}
    world.cluster.create({"kind": "Secret", "metadata": made, "data": keys})
    world.run()
    assert world.status()["verdict"] == "Pass"
