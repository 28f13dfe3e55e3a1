"""`dedup results` and `dedup logs` before an API server: each error is one line that says what to do."""

import json
import sys
from pathlib import Path

import pytest
from tests.lab.api_servers import kubeconfig, refusal, serving
from tests.lab.conftest import Command, one_line
from tests.operator.gates import GENERATION, STATUSES, resource

EXPERIMENT = "/apis/dedup.dev/v1alpha1/namespaces/lab/dedupexperiments/e"
PODS = "/api/v1/namespaces/lab/pods"
OF_RUNS = f"{PODS}?labelSelector=dedup.dev/experiment%3De%2Cdedup.dev/component%3Drun"
POD = {
    "metadata": {
        "name": "d-run-x",
        "creationTimestamp": "2026-11-22T08:00:00Z",
        "labels": {"dedup.dev/attempt": "1"},
        "annotations": {"dedup.dev/run": "kafka-dedup-001"},
    },
    "spec": {"initContainers": [{"name": "courier"}], "containers": [{"name": "producer"}]},
}
MADE = {**resource(STATUSES["Pass"]), "metadata": {"name": "e", "namespace": "lab", "generation": GENERATION}}


@pytest.mark.parametrize("command", ["results", "logs"])
def test_without_a_cluster_nothing_is_asked(command: str, dedup: Command, tmp_path: Path) -> None:
    said = dedup(command, "e", "--kubeconfig", tmp_path / "none")
    assert said.code == 4
    assert "--kubeconfig" in one_line(said)


def test_without_the_library_it_is_told_what_to_install(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)
    said = dedup("results", "e", "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"))
    assert said.code == 4
    assert "pip install 'dedup[lab]'" in one_line(said)


def test_a_context_that_is_not_there_is_told(dedup: Command, tmp_path: Path) -> None:
    said = dedup("results", "e", "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"), "--context", "there")
    assert said.code == 4
    assert "there" in one_line(said)
    assert "--context" in one_line(said)


@pytest.mark.parametrize("command", ["results", "logs"])
def test_a_cluster_that_does_not_answer_is_told(command: str, dedup: Command, tmp_path: Path) -> None:
    said = dedup(command, "e", "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"))
    assert said.code == 4
    assert one_line(said).startswith("error http://127.0.0.1:1: got ")
    assert "the cluster's API server must answer" in one_line(said)


NO = {
    "no such experiment": (refusal(404, 'dedupexperiments.dedup.dev "e" not found'), "kubectl get dedup"),
    "no definition": ((404, "404 page not found\n"), "install charts/dedup-operator"),
    "no right": (refusal(403, 'User "u" cannot get resource "dedupexperiments"'), "the role view"),
    "nobody": (refusal(401, "Unauthorized"), "the role view"),
    "trouble": (refusal(500, "etcdserver: leader changed"), "try again later"),
}


@pytest.mark.parametrize("command", ["results", "logs"])
@pytest.mark.parametrize("name", NO)
def test_a_refusal_is_one_line_and_exit_code_4(name: str, command: str, dedup: Command, tmp_path: Path) -> None:
    answer, todo = NO[name]
    with serving({EXPERIMENT: answer}) as address:
        said = dedup(command, "e", "--kubeconfig", kubeconfig(tmp_path, address))
    assert said.code == 4
    assert todo in one_line(said)
    assert "secret" not in said.err


def test_no_right_to_pods_is_told(dedup: Command, tmp_path: Path) -> None:
    with serving({EXPERIMENT: (200, MADE), OF_RUNS: refusal(403, "pods is forbidden")}) as address:
        said = dedup("logs", "e", "--kubeconfig", kubeconfig(tmp_path, address))
    assert said.code == 4
    assert "pods/log" in one_line(said)


def test_what_became_of_an_experiment_is_shown(dedup: Command, tmp_path: Path) -> None:
    with serving({EXPERIMENT: (200, MADE)}) as address:
        config = kubeconfig(tmp_path, address)
        said = dedup("results", "e", "--kubeconfig", config)
        document = dedup("results", "e", "--kubeconfig", config, "--format", "json")
    assert (said.code, document.code, said.err) == (0, 0, "")
    assert "verdict: pass" in said.out
    assert json.loads(document.out)["verdict"] == "Pass"


def test_the_namespace_is_the_option_s_or_the_context_s_or_default(dedup: Command, tmp_path: Path) -> None:
    for namespace, options, wanted in (
        ("lab", [], "lab"),
        ("lab", ["-n", "other"], "other"),
        (None, [], "default"),
    ):
        with serving({EXPERIMENT.replace("/lab/", f"/{wanted}/"): (200, MADE)}) as address:
            said = dedup("results", "e", "--kubeconfig", kubeconfig(tmp_path, address, namespace), *options)
        assert said.code == 0, said.err


@pytest.mark.parametrize("follow", [[], ["--follow"]])
def test_every_container_is_read(follow: list[str], dedup: Command, tmp_path: Path) -> None:
    more = "&follow=true" if follow else ""
    answers = {
        EXPERIMENT: (200, MADE),
        OF_RUNS: (200, {"items": [POD]}),
        f"{PODS}/d-run-x/log?container=courier{more}": (200, "carried\n"),
        f"{PODS}/d-run-x/log?container=producer{more}": (200, "sent\nno end of line"),
    }
    with serving(answers) as address:
        said = dedup("logs", "e", "--kubeconfig", kubeconfig(tmp_path, address), *follow)
    assert (said.code, said.err) == (0, "")
    assert sorted(said.out.splitlines()) == [
        "d-run-x/courier carried",
        "d-run-x/producer no end of line",
        "d-run-x/producer sent",
    ]


def test_histories_without_a_folder_are_a_wrong_command_line(dedup: Command) -> None:
    assert dedup("results", "e", "--histories").code == 2
