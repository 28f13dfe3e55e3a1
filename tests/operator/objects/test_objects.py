"""The objects of an experiment, as far as they can be judged without a cluster: names, rights, and who sees what."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import ValidationError

from dedup.errors import SpecificationError
from dedup.experiment.assignments import Assignment
from dedup.experiment.plans import Run, plan
from dedup.experiment.spec import Experiment, load, parse
from dedup.experiment.stages import Stage, Task
from dedup.experiment.systems import PRODUCTS
from dedup.experiment.verifications import Method, Verifying
from dedup_operator.objects import settings as settings_files
from dedup_operator.objects.__main__ import printed
from dedup_operator.objects.accounts import accounts, deadline_account
from dedup_operator.objects.names import Owner, metadata, name_of
from dedup_operator.objects.pods import STAYS
from dedup_operator.objects.readiness import readiness
from dedup_operator.objects.reports import MOST_FAILURES, failures, report, report_objects, with_failure
from dedup_operator.objects.runs import run_objects
from dedup_operator.objects.settings import (
    Affinity,
    Artifacts,
    Defaults,
    Image,
    Limits,
    PodTemplate,
    PullSecret,
    Requests,
    Resources,
    Settings,
    Toleration,
    Volume,
)
from dedup_operator.objects.systems import CHARTS, endpoints, release_of, values
from dedup_operator.objects.verifications import verification

EXAMPLES: Final = Path(__file__).parents[3] / "examples"
OWNER: Final = Owner("lab", "kafka-vs-pulsar", "6f1c")
SETTINGS: Final = Settings.model_validate(
    {
        "namespace": "lab",
        "artifacts": {"s3": {"bucket": "b", "prefix": "p/", "endpoint": "http://store:9000", "secret": "keys"}},
    }
)
ON_VOLUME: Final = SETTINGS.model_copy(update={"artifacts": Artifacts(volume=Volume(claim="disk"))})


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return load(EXAMPLES / "kafka-vs-pulsar.yaml")


def first(experiment: Experiment, system: str) -> Run:
    return next(run for run in plan(experiment) if run.system == system)


def job(experiment: Experiment, system: str = "kafka", settings: Settings = SETTINGS) -> dict[str, Any]:
    return run_objects(OWNER, experiment, first(experiment, system), 1, settings)[-1]


def containers(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    spec = job["spec"]["template"]["spec"]
    return {each["name"]: each for each in [*spec["initContainers"], *spec["containers"]]}


def mounted(container: dict[str, Any]) -> set[str]:
    return {each["name"] for each in container["volumeMounts"]}


@pytest.mark.parametrize("path", sorted((EXAMPLES / "kubernetes").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_for_a_cluster_has_all_that_its_objects_need(path: Path) -> None:
    experiment = load(path)
    settings = settings_files.for_experiment(Defaults(), experiment, "lab")
    assert settings.artifacts.root(experiment.name) == f"s3://dedup/{experiment.name}"
    runs = printed("runs", None, 1, experiment, settings).split()
    assert runs == [run.run_id for run in plan(experiment)]
    for run in runs:
        text = printed("run", run, 1, experiment, settings)
        assert "http://minio.minio:9000" in text and "name: store" in text
    assert list(yaml.safe_load_all(printed("verification", None, 1, experiment, settings)))
    assert all(values(system, settings) for system in experiment.spec.systems)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kafka-existing", ["secretName: kafka-authority", "secretName: kafka-login", "kafka-0.kafka.prod.svc:9093"]),
        ("kafka-existing-kill-tcp", ["secretName: kafka-authority", "http://127.0.0.1:8474", "name: chaos-latency"]),
        ("kafka-existing-lost-reply", ["secretName: kafka-login", "name: chaos-lost-reply"]),
        ("kafka-on-a-volume", ["claimName: histories"]),
        ("kafka-strimzi", ["name: store"]),
    ],
)
def test_of_another_example_too_objects_are_made_with_all_that_it_names(name: str, words: list[str]) -> None:
    experiment = load(EXAMPLES / "kubernetes" / "more" / f"{name}.yaml")
    settings = settings_files.for_experiment(Defaults(), experiment, "lab")
    runs = printed("runs", None, 1, experiment, settings).split()
    assert runs == [run.run_id for run in plan(experiment)]
    for run in runs:
        text = printed("run", run, 1, experiment, settings)
        assert [each for each in words if each not in text] == []
    assert list(yaml.safe_load_all(printed("verification", None, 1, experiment, settings)))


def test_a_name_is_always_the_same_and_fits_everywhere() -> None:
    assert name_of(OWNER, "run", "a") == name_of(OWNER, "run", "a")
    assert len(name_of(OWNER, "run", "a" * 500)) == 12


def test_other_parts_and_other_owners_have_other_names() -> None:
    names = {name_of(owner, part) for owner in (OWNER, OWNER._replace(uid="7a")) for part in ("a", "b")}
    assert len(names) == 4


def test_an_object_belongs_to_the_resource_that_asked_for_it() -> None:
    assert metadata(OWNER, "x", "run")["ownerReferences"][0]["uid"] == "6f1c"


def test_without_a_resource_nobody_owns_it() -> None:
    assert "ownerReferences" not in metadata(OWNER._replace(uid=None), "x", "run")


def test_labels_have_room_for_the_longest_names(experiment: Experiment) -> None:
    labels = job(experiment)["metadata"]["labels"]
    assert all(len(each) <= 63 for each in labels.values())
    assert labels["dedup.dev/system"] == "kafka" and labels["dedup.dev/attempt"] == "1"


def test_the_programs_are_told_the_whole_run(experiment: Experiment) -> None:
    config, made = run_objects(OWNER, experiment, first(experiment, "pulsar"), 3, SETTINGS)
    told = Assignment.model_validate_json(config["data"]["run.json"])
    assert (told.run, told.attempt) == (first(experiment, "pulsar"), 3)
    assert told.experiment.digest() == experiment.digest()
    assert told.place() == f"s3://b/p/{OWNER.folder}/runs/{told.run_id}/attempt-3"
    assert made["metadata"]["name"] == config["metadata"]["name"]


def test_a_run_is_never_tried_again(experiment: Experiment) -> None:
    spec = job(experiment)["spec"]
    assert (spec["backoffLimit"], spec["template"]["spec"]["restartPolicy"]) == (0, "Never")


def test_a_report_is_tried_again_on_another_node() -> None:
    """With a podFailurePolicy the Job would wait for a pod on a lost node, which is Terminating for ever."""
    spec = report(OWNER, SETTINGS)["spec"]
    assert spec.keys() == {"backoffLimit", "template"}
    assert (spec["backoffLimit"] > 0, spec["template"]["spec"]["restartPolicy"]) == (True, "Never")


def test_each_fault_and_the_latency_have_a_container(experiment: Experiment) -> None:
    spec = job(experiment)["spec"]["template"]["spec"]
    names = [each["name"] for each in spec["containers"]]
    faults = [f"chaos-{fault.name}" for fault in experiment.spec.faults]
    assert names == ["conductor", "producer", "consumer", "chaos-latency", *faults]


def test_clients_under_test_have_no_token_and_no_keys(experiment: Experiment) -> None:
    made = containers(job(experiment))
    for name in ("producer", "consumer", "toxiproxy", "watchdog"):
        assert "token" not in mounted(made[name])
        assert "AWS_SECRET_ACCESS_KEY" not in {each["name"] for each in made[name].get("env", [])}


def test_who_kills_and_who_conducts_has_a_token(experiment: Experiment) -> None:
    made = containers(job(experiment))
    having = {name for name, each in made.items() if "token" in mounted(each)}
    assert having == {"conductor"} | {name for name in made if name.startswith("chaos-")}


def test_keys_come_from_a_secret_only(experiment: Experiment) -> None:
    made = [*run_objects(OWNER, experiment, first(experiment, "kafka"), 1, SETTINGS)]
    made.append(verification(OWNER, experiment, SETTINGS))
    found = [each for each in walk(made) if each.get("name") == "AWS_SECRET_ACCESS_KEY"]
    assert len(found) == 4  # the conductor, the courier, Spark's driver, its executors
    assert all(set(each) == {"name", "valueFrom"} for each in found)


def test_keys_that_are_lent_have_a_token_which_others_need_not_have(experiment: Experiment) -> None:
    made = [each["name"] for each in walk(job(experiment)) if "secretKeyRef" in json.dumps(each) and "name" in each]
    refs = [each["secretKeyRef"] for each in walk(job(experiment)) if "secretKeyRef" in each]
    assert "AWS_SESSION_TOKEN" in made
    optional = {each["key"]: each.get("optional", False) for each in refs}
    assert optional == {"AWS_ACCESS_KEY_ID": False, "AWS_SECRET_ACCESS_KEY": False, "AWS_SESSION_TOKEN": True}


@pytest.mark.parametrize("tag", ["1.0", f"1.0@sha256:{'a' * 64}"])
def test_an_image_may_be_pinned_by_its_digest(tag: str) -> None:
    assert Image(repository="r.example/dedup-runner", tag=tag).reference == f"r.example/dedup-runner:{tag}"


@pytest.mark.parametrize("tag", ["", "1.0@sha256:abc", f"@sha256:{'a' * 64}", "a b", f"1.0@md5:{'a' * 64}"])
def test_half_a_digest_is_none(tag: str) -> None:
    with pytest.raises(ValidationError):
        Image(repository="r.example/dedup-runner", tag=tag)


def walk(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for each in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from walk(each)


def test_a_volume_is_mounted_where_histories_are_carried_and_read(experiment: Experiment) -> None:
    made = containers(job(experiment, settings=ON_VOLUME))
    assert {name for name, each in made.items() if "store" in mounted(each)} == {"conductor", "courier"}
    spec = verification(OWNER, experiment, ON_VOLUME)["spec"]
    assert spec["arguments"][-1] == f"/store/dedup/{OWNER.folder}"
    assert all("store" in mounted(spec[part]) for part in ("driver", "executor"))


def test_findings_are_kept_beside_the_verification(experiment: Experiment) -> None:
    arguments = verification(OWNER, experiment, SETTINGS)["spec"]["arguments"]
    root = f"s3://b/p/{OWNER.folder}"
    assert arguments == ["--output", f"{root}/verification.json", "--keep", "--findings", f"{root}/findings", root]


def test_a_report_is_told_of_failures_if_there_are_any() -> None:
    calm, troubled = (report(OWNER, SETTINGS, failed=failed)["spec"]["template"]["spec"] for failed in (False, True))
    assert "--failures" not in calm["containers"][0]["command"]
    assert troubled["containers"][0]["command"][-5:-3] == ["--failures", "/failures/failures.json"]
    assert mounted(troubled["containers"][0]) - mounted(calm["containers"][0]) == {"failures"}


def test_failures_are_told_by_run_and_by_system_and_are_not_too_many() -> None:
    lost = Task(stage=Stage.PRODUCE, system="kafka", run_id="kafka-control-001")
    told = with_failure({}, Task(stage=Stage.PROVISION, system="pulsar"), "refused")
    told = with_failure(told, lost, "first")
    assert with_failure(told, lost, "then") == {
        "pulsar": "refused",
        "kafka": "kafka failed last with: then",
        "kafka-control-001": "then",
    }
    for number in range(2 * MOST_FAILURES):
        told = with_failure(told, lost._replace(run_id=f"kafka-control-{number}"), "\u00e9" * 500)
    assert len(told) == MOST_FAILURES
    assert len(json.dumps(failures(OWNER, told))) < 2**20


PLACED: Final = SETTINGS.model_copy(
    update={
        "pod_template": PodTemplate(
            image_pull_secrets=[PullSecret(name="mirror")],
            node_selector={"pool": "tests"},
            tolerations=[Toleration(key="tests", operator="Exists", effect="NoSchedule")],
            affinity=Affinity(node_affinity={"requiredDuringSchedulingIgnoredDuringExecution": {}}),
            priority_class_name="tests",
            annotations={"team.example/of": "us", "karpenter.sh/do-not-disrupt": "false"},
        ),
        "resources": Resources(requests=Requests(cpu="100m", memory="300Mi"), limits=Limits(cpu="2")),
    }
)


def pods_of(experiment: Experiment, settings: Settings) -> list[dict[str, Any]]:
    """The pods of all our Jobs."""
    apart = with_fault(experiment, partition={"by": "NetworkPolicy", "duration": "5s"})
    jobs = run_objects(OWNER, apart, first(apart, "kafka"), 1, settings)[1:]
    jobs += [readiness(OWNER, experiment, experiment.spec.systems[0], settings), report(OWNER, settings)]
    return [each["spec"]["template"]["spec"] for each in jobs]


def templates_of(experiment: Experiment, settings: Settings) -> list[dict[str, Any]]:
    """The templates of the pods of all our Jobs, the one that verifies without Spark too."""
    apart = with_fault(experiment, partition={"by": "NetworkPolicy", "duration": "5s"})
    local = apart.model_copy(
        update={"spec": apart.spec.model_copy(update={"verification": Verifying(engine=Method.LOCAL)})}
    )
    jobs = run_objects(OWNER, apart, first(apart, "kafka"), 1, settings)[1:]
    jobs += [readiness(OWNER, experiment, experiment.spec.systems[0], settings), report(OWNER, settings)]
    return [each["spec"]["template"] for each in (*jobs, verification(OWNER, local, settings))]


def test_every_pod_of_ours_has_the_administrators_place_rank_notes_and_size(experiment: Experiment) -> None:
    for each in templates_of(experiment, PLACED):
        spec, notes = each["spec"], each["metadata"]["annotations"]
        assert spec["affinity"] == {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}
        assert spec["priorityClassName"] == "tests"
        assert notes["team.example/of"] == "us" and notes.items() >= STAYS.items(), "ours win"
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            asked, most = container["resources"]["requests"], container["resources"]["limits"]
            assert (asked["cpu"], most["cpu"]) == ("100m", "2")
            assert asked["memory"] == ("300Mi" if most["memory"] not in ("64Mi", "256Mi") else most["memory"])
    spark = verification(OWNER, experiment, PLACED)["spec"]
    for part in (spark["driver"], spark["executor"]):
        assert (part["priorityClassName"], part["coreLimit"], part["coreRequest"]) == ("tests", "2", "100m")
        assert "nodeAffinity" in part["affinity"] and part["annotations"]["team.example/of"] == "us"


def test_without_a_word_of_the_administrators_they_are_small_and_anywhere(experiment: Experiment) -> None:
    for each in templates_of(experiment, SETTINGS):
        assert each["spec"].keys().isdisjoint({"affinity", "priorityClassName", "nodeSelector", "tolerations"})
        for container in (*each["spec"].get("initContainers", ()), *each["spec"]["containers"]):
            assert container["resources"]["requests"] == {"cpu": "20m", "memory": "64Mi"}
            assert container["resources"]["limits"].keys() == {"memory"}
    assert "coreLimit" not in verification(OWNER, experiment, SETTINGS)["spec"]["driver"]


def test_autoscalers_leave_every_pod_of_ours_where_it_is(experiment: Experiment) -> None:
    apart = with_fault(experiment, partition={"by": "NetworkPolicy", "duration": "5s"})
    jobs = run_objects(OWNER, apart, first(apart, "kafka"), 1, SETTINGS)[1:]
    jobs += [readiness(OWNER, experiment, experiment.spec.systems[0], SETTINGS), report(OWNER, SETTINGS)]
    spark = verification(OWNER, experiment, SETTINGS)["spec"]
    for told in (*(each["spec"]["template"]["metadata"] for each in jobs), spark["driver"], spark["executor"]):
        assert told["annotations"].items() >= STAYS.items()


def test_pods_run_where_the_administrator_says(experiment: Experiment) -> None:
    bears = {"key": "tests", "operator": "Exists", "effect": "NoSchedule"}
    for pod in pods_of(experiment, PLACED):
        assert pod["imagePullSecrets"] == [{"name": "mirror"}]
        assert (pod["nodeSelector"], pod["tolerations"]) == ({"pool": "tests"}, [bears])
    spec = verification(OWNER, experiment, PLACED)["spec"]
    assert spec["imagePullSecrets"] == ["mirror"]  # names only, for driver and executors
    for part in ("driver", "executor"):
        assert (spec[part]["nodeSelector"], spec[part]["tolerations"]) == ({"pool": "tests"}, [bears])
        assert "imagePullSecrets" not in spec[part]


def test_where_he_says_nothing_nothing_is_said(experiment: Experiment) -> None:
    spec = verification(OWNER, experiment, SETTINGS)["spec"]
    for part in (*pods_of(experiment, SETTINGS), spec, spec["driver"], spec["executor"]):
        assert not part.keys() & {"imagePullSecrets", "nodeSelector", "tolerations"}


def with_fault(experiment: Experiment, **kind: Any) -> Experiment:
    document = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["spec"]["faults"] = [{"name": "apart", "at": {"message": 1}, **kind}]
    return parse(document, source="test")


def rights(experiment: Experiment) -> set[tuple[str, str]]:
    """What any of our accounts may do: (resource, verb)."""
    rules = [rule for each in accounts(OWNER, experiment) if each["kind"] == "Role" for rule in each["rules"]]
    return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


def test_accounts_read_no_secrets(experiment: Experiment) -> None:
    assert ("pods/exec", "create") in rights(experiment)
    assert not any(resource == "secrets" for resource, _ in rights(experiment))


def test_accounts_that_reach_the_store_have_the_identity_that_the_administrator_says(experiment: Experiment) -> None:
    """By annotations, as clouds have it. Who minds deadlines has nothing to do with the store."""
    apart = with_fault(experiment, partition={"by": "NetworkPolicy", "duration": "5s"})
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/dedup"}
    with_role = SETTINGS.model_copy(update={"account_annotations": role})
    plain, identified = (
        {each["metadata"]["name"]: each for each in made if each["kind"] == "ServiceAccount"}
        for made in (
            [*accounts(OWNER, apart), *report_objects(OWNER, SETTINGS)],
            [*accounts(OWNER, apart, role), *report_objects(OWNER, with_role)],
        )
    )
    having = {name for name, each in identified.items() if each["metadata"].get("annotations") == role}
    pods = [job(experiment, settings=with_role), report(OWNER, with_role)]
    spark = verification(OWNER, experiment, with_role)["spec"]
    used = {each["spec"]["template"]["spec"]["serviceAccountName"] for each in pods}
    assert having == used | {spark["driver"]["serviceAccount"], spark["executor"]["serviceAccount"]}
    assert len(identified) == 5 and identified.keys() - having == {deadline_account(OWNER)}
    assert not any("annotations" in each["metadata"] for each in plain.values())


@pytest.mark.parametrize("chart", [None, "strimzi-kafka"])
def test_runs_may_enter_and_hurt_the_brokers_by_name_and_no_other_pod(
    chart: str | None, experiment: Experiment
) -> None:
    """Names follow from whose they are, so a right can name them."""
    document = with_fault(experiment, podDelete={"target": "Leader"}).model_dump(by_alias=True, exclude_none=True)
    if chart:
        document["spec"]["systems"] = [{"name": "k", "kafka": {}, "deploy": {"chart": chart}}]
    made = parse(json.loads(json.dumps(document, default=str)), source="test")
    at = [endpoints(each, release_of(OWNER, each), OWNER.namespace) for each in made.spec.systems]
    pods = {each.pod.name for told in at for each in (*told.brokers, *told.bookies) if each.pod}
    role = next(each for each in accounts(OWNER, made) if each["kind"] == "Role")
    named = {(rule["resources"][0], rule["verbs"][0]): set(rule.get("resourceNames", ())) for rule in role["rules"]}
    assert named == {("pods", "get"): set(), ("pods/exec", "get"): pods, ("pods", "delete"): pods}
    assert len(pods) == (3 if chart else 9)


def test_only_faults_that_need_more_get_more(experiment: Experiment) -> None:
    apart = with_fault(experiment, partition={"by": "NetworkPolicy", "duration": "5s"})
    right = ("networkpolicies", "create")
    assert right in rights(apart) and right not in rights(experiment)


def test_a_policy_has_somebody_who_removes_it(experiment: Experiment) -> None:
    apart = with_fault(experiment, partition={"by": "NetworkPolicy", "duration": "5s"})
    made = run_objects(OWNER, apart, first(apart, "kafka"), 1, SETTINGS)
    assert [each["kind"] for each in made] == ["ConfigMap", "Job", "Job"]
    (minding,) = made[1]["spec"]["template"]["spec"]["containers"]
    lasts_s, of_run = made[2]["spec"]["activeDeadlineSeconds"], made[2]["metadata"]["name"]
    assert minding["command"][-5:] == ["dedup_runners.chaos.deadlines", "lab", str(lasts_s), of_run, "1"]


def test_pods_are_restricted(experiment: Experiment) -> None:
    spec = job(experiment)["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    for each in containers(job(experiment)).values():
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert each["securityContext"]["readOnlyRootFilesystem"] is True


def test_kafkas_brokers_are_where_their_chart_puts_them(experiment: Experiment) -> None:
    found = endpoints(experiment.spec.systems[0], "r", "lab")
    assert found.direct_bootstrap.startswith("r-0.r-brokers.lab.svc:9092,")
    assert found.client_bootstrap == "127.0.0.1:39092,127.0.0.1:39093,127.0.0.1:39094"
    assert found.brokers[2].pod is not None and found.brokers[2].pod.name == "r-2"


def test_pulsars_brokers_are_called_as_they_call_themselves(experiment: Experiment) -> None:
    found = endpoints(experiment.spec.systems[1], "r", "lab")
    assert found.brokers[1].id == "r-broker-1.r-broker.lab.svc:8080"
    assert found.listener_name == "loopback"
    assert found.bookies[2].id == "r-bookie-2.r-bookie.lab.svc:3181"


def test_only_a_function_has_a_worker_which_runs_may_enter_and_its_consumer_kills() -> None:
    """Its twin, another workload on the same system, has none, and a consumer without a token of the API server."""
    works = load(EXAMPLES / "workloads" / "pulsar-functions.yaml")
    plain = load(EXAMPLES / "workloads" / "pulsar-restart.yaml")
    pod = f"{release_of(OWNER, works.spec.systems[0])}-functions-0"
    for made, there in ((works, True), (plain, False)):
        (system,) = made.spec.systems
        assert values(system, SETTINGS, OWNER, made.spec).get("functions", {}).get("enabled", False) is there
        made_job = job(made, system.name)
        told = Assignment.model_validate_json(
            run_objects(OWNER, made, first(made, system.name), 1, SETTINGS)[0]["data"]["run.json"]
        )
        assert (told.worker is not None) is there
        if told.worker is not None:
            assert told.worker.process.pod is not None and told.worker.process.pod.name == pod
        assert ("token" in mounted(containers(made_job)["consumer"])) is there
        assert "token" not in mounted(containers(made_job)["producer"])
        rules = [rule for each in accounts(OWNER, made) if each["kind"] == "Role" for rule in each["rules"]]
        (entered,) = [rule["resourceNames"] for rule in rules if rule["resources"] == ["pods/exec"]]
        assert (pod in entered) is there


def test_a_fault_may_delete_pods_of_brokers_and_bookies_and_not_the_workers() -> None:
    works = load(EXAMPLES / "workloads" / "pulsar-functions.yaml")
    deleted = works.model_dump(by_alias=True, mode="json", exclude_none=True)
    deleted["spec"]["faults"] = [{"name": "deleted", "at": {"message": 1}, "podDelete": {}}]
    made = parse(deleted, source="test")
    release = release_of(OWNER, made.spec.systems[0])
    rules = [rule for each in accounts(OWNER, made) if each["kind"] == "Role" for rule in each["rules"]]
    (names,) = [rule["resourceNames"] for rule in rules if rule["verbs"] == ["delete"]]
    assert {f"{release}-broker-0", f"{release}-bookie-0"} <= set(names)
    assert f"{release}-functions-0" not in names


def test_a_chart_is_told_what_the_experiment_says_whatever_else_it_is_told(experiment: Experiment) -> None:
    more = SETTINGS.model_copy(update={"charts": {"kafka": {"brokers": 1, "heapMiB": 300}}})
    said = values(experiment.spec.systems[0], more)
    assert (said["brokers"], said["heapMiB"]) == (3, 300)


def test_what_is_printed_is_yaml_that_holds_the_same(experiment: Experiment) -> None:
    run = first(experiment, "kafka")
    text = printed("run", run.run_id, 2, experiment, SETTINGS)
    owner = Owner("lab", experiment.name)
    assert list(yaml.safe_load_all(text)) == json.loads(json.dumps(run_objects(owner, experiment, run, 2, SETTINGS)))


def test_an_unknown_run_is_refused_in_words(experiment: Experiment) -> None:
    with pytest.raises(SpecificationError, match=r"got kafka-none-001; .* runs are kafka-.* and \d+ more"):
        printed("run", "kafka-none-001", 1, experiment, SETTINGS)


def test_settings_of_nothing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("namespace: lab\nartifacts: {}\n")
    with pytest.raises(SpecificationError, match="exactly one of s3 and volume"):
        settings_files.load(path)


def test_every_chart_of_a_product_is_known_to_the_operator() -> None:
    assert CHARTS.keys() == {chart for product in PRODUCTS.values() for chart in product.charts}
