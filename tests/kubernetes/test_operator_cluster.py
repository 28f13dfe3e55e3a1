"""From `helm install` and `kubectl apply` to the verdict, with everything real: systems, faults, pods, Spark.

The experiments are those of examples/kubernetes/ as they are. How long each took is among the closing lines.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import yaml
from pydantic.alias_generators import to_camel, to_snake
from testbed.cluster import api_servers
from testbed.requests import ask
from tests.kubernetes import guarded, operated
from tests.kubernetes.operated import Document, Operated, condition
from tests.lab import harness
from tests.lab.pages import Page

from dedup.experiment.endpoints import OURS
from dedup.experiment.spec import parse
from dedup.history.histories import read_manifest
from dedup.judgement.summaries import COLUMNS
from dedup.wire.manifests import Manifest
from dedup_operator.objects.names import COMPONENT, LABEL, name_of
from dedup_operator.objects.systems import endpoints, release_of
from dedup_operator.schema import crd
from dedup_runners.admins.pulsar import namespace_of
from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

MESSAGES: Final = 300_000
MOST_SEEDS: Final = 4


Tell = Callable[[str], None]
Fetched = Callable[[str, Path], object]
"""Everything of an experiment, from where it keeps it, into a folder."""


def carried_out(
    operator: Operated, document: Document, folder: Path, tell: Tell, fetched: Fetched | None = None
) -> Document:
    """Apply it, wait for its end, and delete it: nothing may be left of it but what lies in the store. Its status.

    Before that everything is fetched from the store, and judged here: the counts are those that Spark found there.
    """
    name, before, began = document["metadata"]["name"], operator.objects(), time.monotonic()
    operator.apply(document)
    status = operator.verdict(name)
    told = [
        f"{system['name']} {row['name']}: {row['counts']['valuesWithDuplicates']} duplicates"
        for system in status["systems"]
        for row in system["variants"]
    ]
    tell(f"{name}: {status['verdict']} after {time.monotonic() - began:.0f} s; {', '.join(told)}")
    (fetched or operator.fetched)(name, folder)
    page_of(folder, status)
    if "uri" in status["artifacts"]:
        opened = operator.opened(name, folder.with_name(f"{folder.name}-opened"))
        assert opened.read_bytes() == (folder / "report.html").read_bytes()
    if status["verdict"] == "Pass":  # else a run may be void, and its counts are not in the sums
        judged_here(folder, status)
    assert operator.place.kubectl("wait", "--for=condition=Finished", "--timeout=10s", f"dedup/{name}")
    code, said, problem = harness.dedup("logs", name, *operator.told(), environment=api_servers.direct())
    assert code == 0 and "conductor" in said, problem
    began = time.monotonic()
    assert operator.objects() - before, "there is something that could be left"
    operator.delete(name)
    assert operator.left(before) == set()
    tell(f"{name}: nothing is left after {time.monotonic() - began:.0f} s")
    if root := status["artifacts"].get("uri"):
        assert "summary.json" in operator.files(root)
    return status


def words(status: Document, kind: str) -> str:
    """What a condition says."""
    return next(str(each["message"]) for each in status["conditions"] if each["type"] == kind)


def judged_here(folder: Path, status: Document) -> None:
    """`dedup verify` counts in the histories what the status says: the last attempt of each run is its result."""
    _, said, problem = harness.dedup("verify", folder / "runs", "--engine", "local", "--format", "json")
    assert said, problem
    here: dict[tuple[str, str], Counter[str]] = {}
    last: dict[str, tuple[Manifest, Counter[str]]] = {}
    for run in json.loads(said)["runs"]:
        manifest = read_manifest(Path(run["path"]))
        if manifest.run_id not in last or manifest.attempt > last[manifest.run_id][0].attempt:
            last[manifest.run_id] = (manifest, run["counts"])
    for manifest, counts in last.values():
        here.setdefault((manifest.system, manifest.variant), Counter()).update(counts)
    there = {(system["name"], row["name"]): row["counts"] for system in status["systems"] for row in system["variants"]}
    assert here.keys() == there.keys()
    for group, row in there.items():
        assert {name: here[group][to_snake(name)] for name in row} == row


def page_of(folder: Path, status: Document) -> None:
    """The page beside the summary has the status's numbers, and each history that the summary counts is drawn on it."""
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    rows = [row for system in status["systems"] for row in system["variants"]]
    table = page.table("effective runs")
    for heading, count in COLUMNS.items():
        if all(to_camel(count) in row["counts"] for row in rows):
            assert table[heading] == [f"{row['counts'][to_camel(count)]:,}" for row in rows], heading
    runs = json.loads((folder / "summary.json").read_text())["runs"]
    counted = sum(1 for row in runs if row["counts"] is not None)
    assert sum(words.startswith("Order") for words in page.images) >= counted
    assert "Its history is not drawn" not in page.words and "no report was drawn" not in words(status, "Finished")


def of(status: Document, system: str, variant: str) -> Document:
    (found,) = [each for each in status["systems"] if each["name"] == system]
    (row,) = [each for each in found["variants"] if each["name"] == variant]
    return dict(row)


EXAMPLES: Final = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.smoke] if path.stem == "kafka-kill-tcp" else [])
    for path in sorted((harness.ROOT / "examples" / "kubernetes").glob("*.yaml"))
]


def document_of(example: Path, attempt: int) -> Document:
    """What people apply; tried again, another seed and name."""
    document: Document = yaml.safe_load(example.read_text())
    if attempt:
        document["metadata"]["name"] += f"-{attempt}"
        document["spec"]["seed"] = attempt
    return document


@pytest.mark.timeout(MOST_SEEDS * 900)
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_leaves_duplicates_without_deduplication_and_none_with_it(
    example: Path, operator: Operated, tmp_path: Path, tell: Tell
) -> None:
    """If no control has any, the verdict says so, and it is done again with another seed.

    A kill leaves duplicates in some runs only, and a fault that comes when all is acknowledged leaves none.
    """
    for attempt in range(MOST_SEEDS):
        document = document_of(example, attempt)
        spec = document["spec"]
        status = carried_out(operator, document, tmp_path / str(attempt), tell)
        systems = [each["name"] for each in spec["systems"]]
        for system in systems:
            counts = of(status, system, "dedup")["counts"]
            assert (counts["valuesWithDuplicates"], counts["notReceived"]) == (0, 0)
        if status["verdict"] == "Pass":
            messages = spec["runs"] * spec["workload"]["messages"]
            assert all(of(status, each, "dedup")["counts"]["send"] == messages for each in systems)
            assert all(of(status, each, "control")["counts"]["valuesWithDuplicates"] for each in systems)
            assert (condition(status, "Succeeded"), condition(status, "Stalled")) == ("True", "False")
            return
        assert status["verdict"] == "Inconclusive"
    raise AssertionError(f"inconclusive: {words(status, 'Finished')}")


MORE: Final = harness.ROOT / "examples" / "kubernetes" / "more"
INSTALL: Final = harness.ROOT / "docs" / "install.md"


def test_a_kafka_that_is_there_asks_for_tls_and_a_log_in(operator: Operated, tmp_path: Path, tell: Tell) -> None:
    """With a wrong password the verdict says what is wrong. What the Secret holds is to be read nowhere."""
    document = document_of(MORE / "kafka-existing.yaml", 0)
    existing = document["spec"]["systems"][0]["deploy"]["existing"]
    authority, login = (existing[kind]["secretRef"]["name"] for kind in ("tls", "sasl"))
    with guarded.kafka(operator.place, tmp_path) as existing["bootstrap"]:
        with guarded.secrets(operator.place, authority, login):
            status = carried_out(operator, document, tmp_path / "fetched", tell)
        assert (status["verdict"], condition(status, "FaultsInjected")) == ("Pass", "True")
        assert of(status, "kafka", "dedup")["counts"]["send"] == document["spec"]["workload"]["messages"]
        document["metadata"]["name"] = "turned-away"
        with guarded.secrets(operator.place, authority, login, password="another$one"):
            operator.apply(document)
            wrong = operator.verdict("turned-away")
            operator.fetched("turned-away", tmp_path / "wrong")
            operator.delete("turned-away")
        assert wrong["verdict"] == "Error" and "the Secret's username and password" in words(wrong, "Finished"), wrong
    fetched = [path for folder in ("fetched", "wrong") for path in (tmp_path / folder).rglob("*") if path.is_file()]
    told = "".join([operator.log(), str(status), str(wrong), *(path.read_text(errors="replace") for path in fetched)])
    assert guarded.USER not in told and guarded.PASSWORD not in told and "another$one" not in told


def test_histories_on_a_volume(operator: Operated, tmp_path: Path, tell: Tell) -> None:
    """They are copied from there as docs/install.md says, and are there when the experiment is gone."""
    document, place = document_of(MORE / "kafka-on-a-volume.yaml", 0), operator.place
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"name": document["spec"]["artifacts"]["pvc"]["claimName"]}
    place.apply(yaml.safe_dump({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim, "spec": spec}))
    (pod,) = re.findall(r"<<'END'\n(apiVersion: v1\nkind: Pod\n.*?)^END", INSTALL.read_text(), re.DOTALL | re.MULTILINE)
    image = place.settings.runner_image
    place.apply(pod.replace("registry.example/dedup/dedup-runner:dev", f"{image.repository}:{image.tag}"))

    def copied(name: str, folder: Path) -> None:
        where = operator.status(name)["artifacts"]
        assert where["claimName"] == claim["name"]
        place.kubectl("wait", "--for=condition=Ready", "pod/copier", "--timeout=50s")
        place.kubectl("cp", f"copier:/store/{where['folder']}", str(folder))

    try:
        status = carried_out(operator, document, tmp_path / "first", tell, copied)
        assert status["verdict"] == "Pass"
        assert of(status, "kafka", "control")["counts"]["valuesWithDuplicates"]
        place.kubectl("cp", f"copier:/store/{status['artifacts']['folder']}", str(tmp_path / "again"))
        assert (tmp_path / "again" / "summary.json").exists()
    finally:
        place.kubectl("delete", "pod/copier", f"pvc/{claim['name']}", "--grace-period=0")


@pytest.mark.timeout(MOST_SEEDS * 900)
def test_an_experiment_is_verified_without_spark(operator: Operated, tmp_path: Path, tell: Tell) -> None:
    """By the Job of its own, whose counts are those of `dedup verify` on the same histories."""
    example = harness.ROOT / "examples" / "kubernetes" / "kafka-kill-tcp.yaml"

    def fetched(name: str, folder: Path) -> None:
        made = operator.place.kubectl(
            "get", "jobs", f"--selector={LABEL}={name},{COMPONENT}=verification", "--output=name"
        )
        assert made.startswith("job.batch/")
        owner = name_of(operator.owner(name), "verification")
        assert f"sparkapplication.sparkoperator.k8s.io/{owner}" not in operator.objects()
        operator.fetched(name, folder)

    for attempt in range(MOST_SEEDS):
        document = document_of(example, attempt)
        document["metadata"]["name"] += "-locally"
        document["spec"]["verification"] = {"engine": "Local"}
        status = carried_out(operator, document, tmp_path / str(attempt), tell, fetched)
        summary = json.loads((tmp_path / str(attempt) / "summary.json").read_text())
        assert {tuple(row["judges"]) for row in summary["runs"]} == {("local", "oracle")}
        if status["verdict"] == "Pass":
            return
        assert status["verdict"] == "Inconclusive"
    raise AssertionError(f"inconclusive: {words(status, 'Finished')}")


def test_deduplication_flipped_off_behind_its_back_is_a_fail(operator: Operated, tmp_path: Path, tell: Tell) -> None:
    """Somebody else switches it off for Pulsar's namespace while the producer is at work."""
    document = operator.example("pulsar-kill-tcp", messages=MESSAGES, runs=1)
    spec = document["spec"]
    document["metadata"]["name"] = "flipped"
    spec["variants"] = spec["variants"][1:]
    spec["faults"][0]["at"]["message"] = MESSAGES // 2
    operator.apply(document)
    (system,) = parse(document, source="test").spec.systems
    release = release_of(operator.owner("flipped"), system)
    web, *_ = endpoints(system, release, operator.place.namespace).admin_urls
    operator.place.ask(FLIP, web, namespace_of(OURS, True), timeout_s=operated.VERDICT_S)
    status = carried_out(operator, document, tmp_path / "fetched", tell)
    assert (status["verdict"], condition(status, "Stalled")) == ("Fail", "True")
    assert "not in force" in words(status, "Finished")
    assert of(status, "pulsar", "dedup")["counts"]["valuesWithDuplicates"] > 0


FLIP: Final = """
import json, sys, time, urllib.request
web, namespace = sys.argv[1:]
def ask(path, body=None):
    json_ = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{web}/admin/v2/{path}", body, json_), timeout=60) as answer:
        return answer.read()
def sending():
    try:
        topics = json.loads(ask(f"persistent/{namespace}"))
        return any(json.loads(ask(topic.replace("://", "/") + "/stats"))["publishers"] for topic in topics)
    except OSError:
        return False
while not sending():
    time.sleep(0.05)
ask(f"namespaces/{namespace}/deduplication", b"false")
"""


def test_a_fault_that_cannot_bite_is_inconclusive(operator: Operated, tmp_path: Path, tell: Tell) -> None:
    document = operator.example("kafka-kill-leader", messages=60_000, runs=1)
    spec = document["spec"]
    document["metadata"]["name"] = "too-late"
    spec["variants"] = spec["variants"][1:]
    spec["faults"][0]["at"]["message"] = 60_000
    spec["faults"][0]["kill"]["restartAfter"] = "2s"
    before = metrics(operator)
    status = carried_out(operator, document, tmp_path / "fetched", tell)
    after = metrics(operator)
    counted = ('verdicts_total{verdict="Inconclusive"}', 'stage_seconds_count{stage="Verify"}', "runs_total")
    assert {name: after[name] - before[name] for name in counted} == dict.fromkeys(counted, 1.0)
    assert (status["verdict"], condition(status, "Succeeded")) == ("Inconclusive", "False")
    assert condition(status, "FaultsInjected") == "False", words(status, "FaultsInjected")


def metrics(operator: Operated) -> dict[str, float]:
    """What a pod reads through the Service of the operator's chart."""
    url = f"http://{operated.RELEASE}-metrics.{operator.namespace}.svc:8080/metrics"
    lines = operator.place.ask(READ, url).splitlines()
    rows = (line.removeprefix("dedup_operator_").rsplit(" ", 1) for line in lines if line and line[0] != "#")
    return {name: float(value) for name, value in rows}


READ: Final = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())"

MAY: Final = {
    ("view", "get", ""): True,
    ("view", "list", ""): True,
    ("view", "get", "status"): True,
    ("view", "create", ""): False,
    ("view", "delete", ""): False,
    ("edit", "get", ""): True,
    ("edit", "create", ""): True,
    ("edit", "patch", ""): True,
    ("edit", "delete", ""): True,
    ("edit", "update", "status"): False,
    ("edit", "patch", "status"): False,
}
"""What Kubernetes' own roles may do with experiments (verb, subresource), once the chart is installed."""


def test_who_may_view_or_edit_a_namespace_may_view_or_edit_its_experiments(operator: Operated) -> None:
    place = operator.place
    for role in ("view", "edit"):
        place.kubectl("create", "rolebinding", f"people-{role}", f"--clusterrole={role}", f"--user={role}er")

    def may() -> dict[tuple[str, str, str], bool]:
        return {(role, verb, part): allowed(operator, f"{role}er", verb, part) for role, verb, part in MAY}

    try:
        until(lambda: may() == MAY, operated.LEFT_S, f"people may do what they should, and no more: {may()}", 1.0)
        assert not any(allowed(operator, "nobody", verb, part) for _, verb, part in MAY)
    finally:
        place.kubectl("delete", "rolebinding", "people-view", "people-edit")


def allowed(operator: Operated, user: str, verb: str, part: str) -> bool:
    """What the API server answers when it is asked for somebody's rights."""
    where = {"namespace": operator.place.namespace, "group": crd.GROUP, "resource": crd.PLURAL, "subresource": part}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    asked = {**review, "spec": {"user": user, "resourceAttributes": {**where, "verb": verb}}}
    status, said = ask(operator.place.client, "POST", REVIEWS, asked)
    assert status == 201, said
    return bool(said["status"]["allowed"])


REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
