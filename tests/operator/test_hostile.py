"""Hostile experiments before an operator that has nothing but itself: no definition, no API server, no Helm.

Each is put to the models and, with a fake cluster, to the operator as a whole. What is refused leaves a status and
nothing else; what is run makes objects that keep their bounds (hostile_bounds), and touches nothing of others.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from testbed.specs import changed
from testbed.worlds import NAMESPACE, Crashing, FakeCluster, Player, ScriptedHelm, rests, store_secret
from tests.operator.gates import EXECUTION
from tests.operator.hostile import HELMS, HOSTILE, LABELLED, SECRET, UNLABELLED, Gate, Hostile
from tests.operator.hostile_bounds import Bounds, Installed, breaches, breaches_of_helm
from tests.operator.hostile_statuses import FORGED, WHEN

from dedup.errors import SpecificationError
from dedup.experiment.plans import plan
from dedup.experiment.spec import MAX_RUNS, Experiment, parse
from dedup.experiment.stages import State, schedule
from dedup.judgement.abridgements import MOST_CHARACTERS
from dedup_operator.clusters import Object, path_of
from dedup_operator.conditions import Situation, noted, stalled, status_of
from dedup_operator.objects.accounts import accounts, reporting
from dedup_operator.objects.credentials import secrets_named
from dedup_operator.objects.names import Owner, name_of
from dedup_operator.objects.readiness import readiness
from dedup_operator.objects.reports import failures, home_name, report_objects
from dedup_operator.objects.runs import run_objects
from dedup_operator.objects.settings import Defaults, for_experiment
from dedup_operator.objects.snapshots import snapshot
from dedup_operator.objects.systems import release_of, values
from dedup_operator.objects.verifications import verification
from dedup_operator.reconciliations import Reconciler
from dedup_operator.sights import Told, ToldFaults
from dedup_operator.statuses import (
    MOST_EXECUTIONS,
    Execution,
    Judgement,
    Kept,
    SealedSummary,
    Status,
    Sums,
    SystemStatus,
    VariantStatus,
)

UID: Final = "6f1c0000-0000-4000-8000-000000000000"
CHART: Final = Path(__file__).parents[2] / "charts" / "dedup-operator"
THEIRS: Final = "others"
MAX_LOOKS: Final = 200
DEFAULTS: Final = Defaults.model_validate(
    {
        "artifacts": {"s3": {"bucket": "results", "endpoint": "http://store:9000", "secret": "administrators"}},
        "allow_faults_on_pods_of_others": True,
    }
)
BY_GATE: Final = {gate: [each for each in HOSTILE if each.gate is gate] for gate in Gate}
RENDERED: Final = [
    each for each in (*BY_GATE[Gate.HARMLESS], *BY_GATE[Gate.STALLED]) if not each.name.startswith("metadata:")
]
SHALLOW: Final = [each for each in HOSTILE if not each.name.startswith("five thousand")]
"""All but one that no program could even copy."""
STOPPED: Final = [each for each in SHALLOW if each.gate is not Gate.HARMLESS]


LARGEST: Final = changed(
    ("metadata/name", "x" * 40),
    ("spec/systems", [{"name": f"s{n}{'x' * 38}", "pulsar": {}} for n in range(8)]),
    ("spec/variants", [{"name": f"v{n}{'x' * 38}", "deduplication": "Enabled", "expect": "None"} for n in range(8)]),
    ("spec/runs", MAX_RUNS // 64),
)


def name_of_case(each: Hostile) -> str:
    return ascii(each.name)[1:-1]


def owner_of(experiment: Experiment) -> Owner:
    return Owner(NAMESPACE, experiment.name, UID, experiment.spec.run_token or "")


def bounds_of(experiment: Experiment) -> Bounds:
    """What it may reach: the administrator's Secret, or its own."""
    own, claims = experiment.spec.artifacts, set[str]()
    secrets = {named.name for named in secrets_named(experiment)} | ({"administrators"} if own is None else set())
    if own is not None:
        claims = {own.pvc.claim_name} if own.pvc else set()
    return Bounds(
        NAMESPACE,
        experiment.name,
        UID,
        frozenset(secrets),
        frozenset(claims),
        frozenset({"localhost/dedup-runner:dev", "localhost/dedup-spark:dev"}),
        frozenset(
            made["metadata"]["name"]
            for made in [
                *accounts(owner_of(experiment), experiment),
                *reporting(owner_of(experiment), home_name(owner_of(experiment))),
            ]
            if made["kind"] == "ServiceAccount"
        ),
        privileged=any(fault.privileged for fault in experiment.spec.faults),
    )


# --- the table -----------------------------------------------------------------------------------------------------


def test_there_are_enough_and_each_tries_something_else() -> None:
    assert len(HOSTILE) >= 120
    assert len({each.name for each in HOSTILE}) == len(HOSTILE)
    written = {repr(each.document) for each in SHALLOW}
    assert len(written) == len(SHALLOW) and repr(changed()) not in written


def test_each_says_what_it_tries_and_the_harmless_why() -> None:
    assert [each.name for each in HOSTILE if not each.tries] == []
    assert [each.name for each in HOSTILE if bool(each.because) != (each.gate is Gate.HARMLESS)] == []


# --- what the models say alone -------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", BY_GATE[Gate.REFUSED], ids=name_of_case)
def test_the_models_refuse_in_one_line_that_repeats_no_secret(each: Hostile) -> None:
    with pytest.raises(SpecificationError) as caught:
        parse(each.document, source="e")
    words = str(caught.value)
    assert words.isprintable() and len(words) < 1500
    assert SECRET not in words


@pytest.mark.parametrize("each", RENDERED, ids=name_of_case)
def test_what_is_rendered_keeps_its_bounds(each: Hostile) -> None:
    experiment = parse(each.document, source="e")
    assert everything(experiment) == []


def everything(experiment: Experiment) -> list[str]:
    """The breaches of all objects and values that an experiment could ever have, once each."""
    owner, bounds = owner_of(experiment), bounds_of(experiment)
    settings = for_experiment(DEFAULTS, experiment, NAMESPACE)
    objects = [
        snapshot(owner, experiment, settings),
        *accounts(owner, experiment),
        *(readiness(owner, experiment, system, settings) for system in experiment.spec.systems),
        *(made for run in plan(experiment) for made in run_objects(owner, experiment, run, 1, settings)),
        verification(owner, experiment, settings),
        *report_objects(owner, settings, failed=True),
        failures(owner, {run.run_id: "no room" for run in plan(experiment)}),
    ]
    told = [
        Installed(release_of(owner, system), NAMESPACE, system.kind, values(system, settings, owner))
        for system in experiment.spec.systems
    ]
    return breaches(objects, bounds) + [breach for each in told for breach in breaches_of_helm(each, bounds)]


def test_the_innocent_twin_of_all_keeps_them_too() -> None:
    assert everything(parse(changed(), source="e")) == []


@pytest.mark.parametrize(
    ("place", "value", "breach"),
    [
        (("metadata", "namespace"), "kube-system", "namespace kube-system"),
        (("metadata", "ownerReferences"), [{"uid": "0"}], "owner"),
        (("metadata", "labels", "dedup.dev/system"), "a b", "label 'a b'"),
        (("spec", "template", "spec", "hostNetwork"), True, "hostNetwork"),
        (("spec", "template", "spec", "serviceAccountName"), "dedup-operator", "account dedup-operator"),
        (("spec", "template", "spec", "volumes", 0), {"name": "x", "hostPath": {"path": "/"}}, "a volume of hostPath"),
        (("spec", "template", "spec", "volumes", 0), {"name": "x", "secret": {}}, "a volume of secret"),
        (("spec", "template", "spec", "containers", 0, "image"), "evil", "image evil"),
        (("spec", "template", "spec", "containers", 0, "command"), ["sh", "-c", "id"], "program"),
        (("spec", "template", "spec", "containers", 0, "command", 5), "--post-renderer=x", "flag --post-renderer=x"),
        (("spec", "template", "spec", "containers", 0, "command", 5), "/history/../x", "argument '/history/../x'"),
        (("spec", "template", "spec", "containers", 0, "command", 5), "$(KEY)", "text '$(KEY)'"),
        (("spec", "template", "spec", "containers", 0, "command", 5), "{{ x }}", "text '{{ x }}'"),
        (("spec", "template", "spec", "containers", 0, "env", 1, "valueFrom"), {"secretKeyRef": {"name": "x"}}, "Secr"),
        (("spec", "template", "spec", "containers", 0, "securityContext", "privileged"), True, "privileged"),
    ],
)
def test_each_bound_sees_its_breach(place: tuple[Any, ...], value: Any, breach: str) -> None:
    experiment = parse(changed(), source="e")
    settings = for_experiment(DEFAULTS, experiment, NAMESPACE)
    owner = owner_of(experiment)
    job = copy.deepcopy(run_objects(owner, experiment, plan(experiment)[0], 1, settings)[-1])
    at: Any = job
    for part in place[:-1]:
        at = at[part]
    at[place[-1]] = value
    found = breaches([job], bounds_of(experiment))
    assert any(breach in each for each in found), found


def test_a_name_that_may_be_given_leads_the_operator_to_no_other_namespace() -> None:
    """Names become parts of the API's paths."""
    for name in ("a..b", "sh.helm.release.v1.x.v1", "x" * 253):
        experiment = parse(changed(("spec/artifacts/s3", {"bucket": "abc", "secretRef": {"name": name}})), source="e")
        assert experiment.spec.artifacts and experiment.spec.artifacts.s3 and experiment.spec.artifacts.s3.secret_ref
        path = path_of("Secret", NAMESPACE, experiment.spec.artifacts.s3.secret_ref.name)
        assert path.split("/") == ["", "api", "v1", "namespaces", NAMESPACE, "secrets", name]


def test_a_token_is_no_part_of_an_experiment() -> None:
    """Else the report of one execution would be called as a Job of another."""
    readiness_of_report = name_of(Owner("n", "e", UID), "readiness", "report")
    assert name_of(Owner("n", "e", UID, "readiness"), "report") != readiness_of_report


# --- the operator as a whole ---------------------------------------------------------------------------------------


@dataclass
class Witness(Crashing):
    """The operator's way to its cluster, which never breaks, and remembers what went by."""

    made: list[Object] = field(default_factory=list)
    touched: list[tuple[str, str, str]] = field(default_factory=list)

    def create(self, made: Object) -> bool:
        self.made.append(copy.deepcopy(made))
        return super().create(made)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self.touched.append((kind, namespace, name))
        super().delete(kind, namespace, name)

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> None:
        holds = change.keys() == {"metadata"} and change["metadata"].keys() <= {"finalizers", "resourceVersion"}
        if kind == "DedupExperiment" and holds:
            super().patch(kind, namespace, name, change)  # its deletion, which is the operator's to hold up
            return
        self.touched.append((kind, namespace, name))
        super().patch(kind, namespace, name, change)


@dataclass
class WatchedHelm(ScriptedHelm):
    """Helm's player, who remembers what he was told."""

    told: list[Installed] = field(default_factory=list)

    def install(self, release: str, namespace: str, chart: str, values: Object, marks: Mapping[str, str]) -> None:
        self.told.append(Installed(release, namespace, chart, copy.deepcopy(values)))
        super().install(release, namespace, chart, values, marks)


class Stage:
    """A cluster in which others live too, with one experiment applied."""

    def __init__(self, document: Object) -> None:
        self.cluster = FakeCluster()
        for namespace, name, labels in (
            (THEIRS, "keys", {"dedup.dev/use": "true"}),
            (NAMESPACE, LABELLED, {"dedup.dev/use": "true"}),
            (NAMESPACE, UNLABELLED, {}),
            (NAMESPACE, HELMS, {"owner": "helm", "name": "theirs", "status": "deployed"}),
        ):
            meta = {"name": name, "namespace": namespace, "labels": labels}
            self.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
        self.cluster.create(store_secret(NAMESPACE, "administrators"))
        claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "theirs", "namespace": NAMESPACE}}
        self.cluster.create({"apiVersion": "v1", **claim})
        for kind in ("Job", "ConfigMap", "StatefulSet"):
            meta = {"name": "theirs", "namespace": THEIRS, "labels": {"dedup.dev/experiment": "e"}}
            self.cluster.create({"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": {"replicas": 0}})
        self.theirs = copy.deepcopy(self.cluster.objects)
        metadata = {**document["metadata"], "namespace": NAMESPACE, "uid": UID}
        self.key = (NAMESPACE, str(metadata["name"]))
        self.cluster.create({**document, "metadata": metadata})
        self.way = Witness(self.cluster)
        self.helm = WatchedHelm(self.cluster)
        self.player = Player(self.cluster, NAMESPACE)
        self.now_s = 1_800_000_000.0
        self.operator = Reconciler(self.way, self.helm, DEFAULTS, lambda: self.now_s)

    def run(self) -> None:
        """To the end, or until there is nothing but to wait for somebody."""
        for _ in range(MAX_LOOKS):
            again_s = self.operator.look(self.key)
            if rests(again_s) or self.condition("Stalled") == "True":
                return
            if again_s:
                self.player.move()
                self.now_s += 1
        raise AssertionError(f"going round in circles: {self.status}")

    @property
    def status(self) -> Object:
        return dict((self.cluster.get("DedupExperiment", *self.key) or {}).get("status") or {})

    def condition(self, kind: str) -> str | None:
        found = [each["status"] for each in self.status.get("conditions", ()) if each["type"] == kind]
        return found[0] if found else None

    def breaches(self, bounds: Bounds) -> list[str]:
        """What is out of bounds in all that was ever made, told to Helm, or touched."""
        ours = {(each["kind"], each["metadata"]["namespace"], each["metadata"]["name"]) for each in self.way.made}
        releases = {told.release for told in self.helm.told}  # and the chart's workload is called as they are
        releases |= {f"sh.helm.release.v1.{release}.v1" for release in releases}
        return [
            *breaches(self.way.made, bounds),
            *(breach for told in self.helm.told for breach in breaches_of_helm(told, bounds)),
            *(f"touched {key}" for key in self.way.touched if key not in ours and key[2] not in releases),
            *(f"changed {key}" for key, made in self.theirs.items() if self.cluster.objects.get(key) != made),
        ]


@pytest.mark.parametrize("each", STOPPED, ids=name_of_case)
def test_what_is_refused_leaves_a_status_and_nothing_else(each: Hostile) -> None:
    """Even where no definition of the resource kept it out."""
    stage = Stage(each.document)
    stage.run()
    assert stage.condition("Stalled") == "True" or each.document["kind"] != "DedupExperiment"
    assert all(each["kind"] == "Event" for each in stage.way.made)
    assert stage.helm.told == [] and stage.way.touched == []
    assert SECRET not in json.dumps(stage.way.made)
    assert all(said["message"].isprintable() for said in stage.status.get("conditions", ()))
    assert SECRET not in json.dumps(stage.status)


@pytest.mark.long
@pytest.mark.parametrize("each", BY_GATE[Gate.HARMLESS], ids=name_of_case)
def test_what_is_run_keeps_its_bounds_and_touches_nothing_of_others(each: Hostile) -> None:
    document = each.document
    stage = Stage(document)
    stage.run()
    experiment = parse({**document, "metadata": {"name": document["metadata"]["name"]}}, source="e")
    assert stage.condition("Finished") == "True"
    deployed = [each for each in experiment.spec.systems if each.existing is None]
    assert len(stage.helm.told) >= len(deployed) and len(stage.way.made) > 10
    assert stage.breaches(bounds_of(experiment)) == []


@pytest.mark.parametrize("forged", FORGED)
def test_a_status_that_somebody_else_wrote_harms_nobody_else(forged: str) -> None:
    document = changed(("metadata/name", "e"))
    stage = Stage({**document, "status": copy.deepcopy(FORGED[forged])})
    stage.run()
    assert stage.breaches(bounds_of(parse(document, source="e"))) == []


# --- how much an experiment may say ---


@pytest.mark.long
@pytest.mark.parametrize("letter", ["x", "\u00e9", "\u6d88", "\U0001f4a5", '"', "\\"])
def test_a_status_fits_into_128_kib_at_the_largest_experiment_and_the_most_talkative_report(letter: str) -> None:
    """As the API server stores it: JSON in UTF-8. Letters of up to 4 bytes, and those that JSON writes as two."""
    experiment = parse(LARGEST, source="e")
    tasks, sums = schedule(experiment), Sums(**dict.fromkeys(Sums.model_fields, 2**53))
    most = dict.fromkeys(("runs", "finished_runs", "effective_runs", "runs_with_copies"), 2**53)
    variants = [
        VariantStatus(name=each.name, counts=sums, verdict=Judgement.ERROR, **most) for each in experiment.spec.variants
    ]
    systems = [SystemStatus(name=each.name, variants=variants) for each in experiment.spec.systems]
    words = letter * 100_000
    faults = ToldFaults(planned=2**53, runs=2**53, struck=0, missed=words)
    told = Told(
        spec_digest="0" * 64,
        verdict=Judgement.INCONCLUSIVE,
        reasons=[words] * 8,
        systems=systems,
        uri=words,
        faults=faults,
        sealed=SealedSummary(packed="x" * MOST_CHARACTERS, digest=f"sha256:{'0' * 64}"),
    )
    numbers = dict.fromkeys(("attempt", "restarts", "failed_in_a_row", "failures"), 2**53)
    state = State(digest="0" * 64, since_unix_s=2**53 - 0.5, last_failure=letter * 500, **numbers)
    over = state.model_copy(update={"cursor": len(tasks)})
    token, now = "t" * 63, datetime(2026, 11, 22, tzinfo=UTC)
    s3 = Kept(uri="u" * 1024, endpoint=letter * 300, region=letter * 253)  # buckets, prefixes and folders are ASCII
    for kept in (s3, Kept(claim_name="c" * 253, folder="f" * 1024)):
        past = Execution(execution=EXECUTION, run_token=token, verdict=Judgement.INCONCLUSIVE, artifacts=kept)
        past = past.model_copy(update={"summary_digest": f"sha256:{'0' * 64}", "finished_at": WHEN, "started_at": WHEN})
        before = Status(history=[past] * MOST_EXECUTIONS, started_at=WHEN)
        ends = Situation(2**53, token, EXECUTION, tasks, over, told, changed=True, artifacts=kept)
        finished = status_of(ends, before, now)
        waiting = Situation(2**53, token, EXECUTION, tasks, state, heard=words, changed=True, artifacts=kept)
        between = status_of(waiting, finished, now)
        for status in (finished, between, stalled(finished, 2**53, words, now), noted(finished, 2**53, True, now)):
            written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
            assert len(json.dumps(written, ensure_ascii=False).encode()) <= 128 << 10


# --- what only rights can stop -------------------------------------------------------------------------------------


def test_people_get_no_right_to_write_a_status() -> None:
    """Who could would decide the verdict. It is the operator's alone."""
    text = (CHART / "templates" / "people.yaml").read_text()
    rules = [rule.split("verbs:")[1].splitlines()[0] for rule in text.split("resources:") if "/status]" in rule]
    assert rules == [" [get, list, watch]"] * 2


def test_the_right_to_add_privileged_containers_is_the_administrators_to_give() -> None:
    """Kubernetes lets the operator hand on no right that it does not have."""
    text = (CHART / "templates" / "_rules.tpl").read_text()
    before, _, rest = text.partition("{{- if .Values.allowPrivilegedFaults }}")
    given, _, after = rest.partition("{{- end }}")
    assert "pods/ephemeralcontainers" in given
    assert "pods/ephemeralcontainers" not in before + after
