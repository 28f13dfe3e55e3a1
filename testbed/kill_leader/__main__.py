"""kafka-kill-leader in a cluster, driven by hand: `python -m testbed.kill_leader strimzi-kafka | kafka`.

For each variant of examples/kafka-kill-leader.yaml (deduplication off and on) one run: the leader's broker is killed
with SIGKILL at message N and held down. The chart is installed in a namespace of its own, which goes at the end. The
cluster is the one that DEDUP_TEST_KUBECONFIG names; it must be able to run the image localhost/dedup-runner:dev, or
another that `--values` names in `tools.image`.

The exit code is that of the worst verdict: 0 pass, 1 fail, 3 inconclusive; 4 with one sentence if something is missing
or broke. A control without copies passes here: only the many runs of the experiment can show that kills duplicate.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import yaml
from kubernetes.client import ApiClient, ApiException, CoreV1Api
from kubernetes.utils import create_from_dict

from dedup.errors import EXIT_ERROR, DedupError, EnvironmentError_, PlatformError
from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, Network, load
from dedup.judgement.verdicts import RunVerdict, Verdict, demand_of, judge_run, worst
from dedup_lab.children import Children
from dedup_lab.judging import judge
from dedup_runners.waiting import until
from testbed.cluster import api_servers
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.helm import CHARTS, Helm, Refused
from testbed.kill_leader.runs import Scene, carry_out
from testbed.kill_leader.sessions import Pod
from testbed.kill_leader.targets import TARGETS, Target

ROOT: Final = CHARTS.parent
EXAMPLE: Final = ROOT / "examples" / "kafka-kill-leader.yaml"
RELEASE: Final = "kafka"
CLIENT: Final = "client"
BEGUN_S: Final = 120.0
READY_S: Final = 900.0
JUDGED_S: Final = 600.0
GONE_S: Final = 180.0
ROUND_TRIP_S: Final = 300
Values = dict[str, Any]


def experiment(messages: int | None) -> Experiment:
    """The example, once for each variant, without the link's latency: one fault is enough for a hand."""
    found = load(EXAMPLE).with_changes(runs=1, messages=messages)
    (system,) = found.spec.systems
    spec = found.spec.model_copy(update={"systems": [system.model_copy(update={"network": Network()})]})
    return found.model_copy(update={"spec": spec.model_copy(update={"confidence_percent": None})})


def drive(chart: str, values: Values, messages: int | None, results: Path, keep: bool) -> Verdict:
    """Install, test, kill, judge, uninstall."""
    server = api_servers.named()
    if server is None:
        raise EnvironmentError_(
            where=api_servers.VARIABLE,
            got="nothing",
            rule="the cluster to work on is named by this variable, the path of a kubeconfig file",
            todo="set it, for example to the kubeconfig file of a kind cluster",
        )
    target = TARGETS[chart]
    with connect(server) as client, tempfile.TemporaryDirectory() as home:
        target.require(client)
        helm = Helm(CHARTS / chart, RELEASE, f"dedup-kill-leader-{uuid4().hex[:6]}", Path(home), server.kubeconfig)
        results.mkdir(parents=True)
        with installed(helm, client, target, values, keep=keep):
            scene = prepare(helm, client, target, values, experiment(messages))
            verdicts = judged(scene.experiment, [carry_out(scene, run, results) for run in plan(scene.experiment)])
    for each in verdicts:
        note(f"{each.run_id}: {each.verdict}; " + "; ".join(reason.text for reason in each.reasons))
    note(f"histories: {results}")
    return worst(each.verdict for each in verdicts)


def connect(server: ApiServer) -> ApiClient:
    """A client of a server that answers; EnvironmentError_ if it does not."""
    try:
        client = server.client()
        CoreV1Api(client).list_namespace(limit=1)
    except Exception as error:  # no file, no address, no certificate, no right: each has an exception of its own
        raise EnvironmentError_(
            where=api_servers.VARIABLE,
            got=f"{server.kubeconfig}: {str(error).splitlines()[0]}",
            rule="the cluster that it names must answer",
            todo="try `kubectl get namespaces` with the same kubeconfig file",
        ) from None
    return client


@contextmanager
def installed(helm: Helm, client: ApiClient, target: Target, values: Values, *, keep: bool) -> Iterator[None]:
    """The chart as a release in a namespace of its own, ready and tested by `helm test`; then both are gone."""
    core, place = CoreV1Api(client), (helm.namespace, helm.release)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    core.create_namespace({"metadata": {"name": helm.namespace, "labels": labels}})
    try:
        began = time.monotonic()
        helm.upgrade(values)
        begun = f"an operator that watches namespace {helm.namespace} takes up {helm.release}"
        until(lambda: target.is_begun(client, *place), BEGUN_S, begun, 1.0)
        ready = f"{helm.release} in {helm.namespace} is ready"
        until(lambda: target.is_ready(client, *place), READY_S, ready, 1.0)
        note(f"{ready} after {time.monotonic() - began:.0f} s")
        helm.test(ROUND_TRIP_S)
        note("helm test: a message was written and read back")
        target.keep_still(client, *place)
        yield
        helm.uninstall()
    finally:
        if keep:
            note(f"kept: namespace {helm.namespace}")
        else:
            core.delete_namespace(helm.namespace)
            until(lambda: is_gone(core, helm.namespace), GONE_S, f"namespace {helm.namespace} is gone", 1.0)


def is_gone(core: CoreV1Api, namespace: str) -> bool:
    try:
        core.read_namespace(namespace)
    except ApiException as error:
        return bool(error.status == 404)
    return False


def prepare(helm: Helm, client: ApiClient, target: Target, values: Values, experiment: Experiment) -> Scene:
    """The client's pod, running."""
    agent = Path(__file__).with_name("agent.py").read_text(encoding="utf-8")
    script = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "agent"}, "data": {"agent.py": agent}}
    for document in (script, client_pod(helm, values)):
        create_from_dict(client, document, namespace=helm.namespace)
    core = CoreV1Api(client)

    def runs() -> bool:
        return bool(core.read_namespaced_pod(CLIENT, helm.namespace).status.phase == "Running")

    until(runs, READY_S, "the client's pod runs", 0.5)
    assert helm.kubeconfig is not None
    pod = Pod(helm.kubeconfig, helm.home, helm.namespace, CLIENT, CLIENT)
    return Scene(client, target, pod, proxies_of(helm, values), experiment, note)


def client_pod(helm: Helm, values: Values) -> dict[str, Any]:
    """The pod of the chart's own `helm test`, Toxiproxy and all, with room for a history, and waiting for commands."""
    (pod,) = (each for each in helm.render(values) if each["kind"] == "Pod")
    spec = pod["spec"]
    (container,) = spec["containers"]
    container["name"] = CLIENT
    container["command"] = ["tini-static", "--", "sleep", "infinity"]
    container["resources"]["limits"] = {"memory": "1Gi"}
    container["volumeMounts"] += [
        {"name": "agent", "mountPath": "/agent", "readOnly": True},
        {"name": "data", "mountPath": "/data"},
    ]
    spec["initContainers"][0]["resources"]["limits"] = {"memory": "256Mi"}
    spec["volumes"] += [
        {"name": "agent", "configMap": {"name": "agent"}},
        {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}},
    ]
    return {**pod, "metadata": {"name": CLIENT}}


def proxies_of(helm: Helm, values: Values) -> list[dict[str, str]]:
    """The chart's own list of proxies, in the order of the brokers' ids."""
    name = f"{helm.release}-toxiproxy"
    (found,) = (each for each in helm.render(values) if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", name))
    proxies: list[dict[str, str]] = json.loads(found["data"]["toxiproxy.json"])
    return proxies


def judged(experiment: Experiment, folders: list[Path]) -> list[RunVerdict]:
    """The project's own verdict on each history, by both judges, against all that was planned."""
    children = Children()
    try:
        with tempfile.TemporaryDirectory() as work:
            evidence = judge(folders, children, Path(work), JUDGED_S, note)
    finally:
        children.close()
    runs = {run.run_id: run for run in plan(experiment)}
    return [judge_run(each, demand_of(experiment, runs[each.run_id])) for each in evidence]


def note(text: str) -> None:
    """Report progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m testbed.kill_leader", description="kill a leader by hand")
    parser.add_argument("chart", choices=sorted(TARGETS))
    parser.add_argument("--values", type=Path, metavar="FILE", help="values of the chart (YAML)")
    parser.add_argument("--messages", type=int, metavar="N", help="messages a run, instead of the example's")
    parser.add_argument("--keep", action="store_true", help="leave the namespace behind")
    asked = parser.parse_args()
    results = ROOT / "results" / f"kill-leader-{asked.chart}-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        values = yaml.safe_load(asked.values.read_text(encoding="utf-8")) if asked.values else {}
        return drive(asked.chart, values, asked.messages, results, asked.keep).exit_code
    except (DedupError, Refused, OSError) as error:
        print(error if isinstance(error, DedupError) else broke(error), file=sys.stderr)
        return EXIT_ERROR


def broke(error: Exception) -> PlatformError:
    """Helm's and the machine's errors, in the shape of ours."""
    return PlatformError(
        where="kill_leader", got=str(error), rule="every step must succeed", todo="correct that, run again"
    )


if __name__ == "__main__":
    sys.exit(main())
