"""A function worker of Pulsar beside the brokers, as a process of its own: it runs the function of `consumer.function`.

It is the worker of Pulsar's own jars (`FunctionWorkerStarter`), whose instances are threads of it. So who kills the
process kills worker and instance at once, as when a machine dies; its keeper starts it again. Instances as processes of
their own need a jar (`pulsar-functions-runtime-all`) that Maven has not of this version. Functions have no state here,
so no storage of states is started; the package is a file, and needs no storage either.

Its REST interface cannot be bound to an address (Pulsar's WorkerServer gives Jetty a port alone), and who speaks to it
can have it run programs. So it asks for a token, which is made for this lab, and lies in a file beside its settings.
"""

import base64
import json
from pathlib import Path
from typing import Final

import httpx

from dedup.experiment.endpoints import Broker, Endpoints, Worker
from dedup_lab.caches import Progress
from dedup_lab.systems import pulsar
from dedup_lab.systems.jvms import Jvm
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import LOOPBACK, free
from dedup_runners import tokens
from dedup_runners.waiting import until

NAME: Final = "pulsar-functions"
READY_S: Final = 120.0
HEAP: Final = ("-Xms64m", "-Xmx384m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseG1GC")
FLAGS: Final = (*pulsar.COMMON, pulsar.QUICK, *HEAP)
MAIN: Final = "org.apache.pulsar.functions.worker.FunctionWorkerStarter"
_PARTS: Final = "org.apache.pulsar.functions"


def start(lab: Lab, endpoints: Endpoints, version: str, package: Path, progress: Progress) -> Worker:
    """Start it in the lab of the brokers, and return when it leads; DedupError if it does not come up.

    `package`: the jar of the function, which is named after the function's class.
    """
    jvm = Jvm.of("pulsar", version, progress)
    (port,) = free(1)
    folder, key = lab.data(NAME), tokens.key()
    path, token_file = folder / "functions_worker.yml", folder / "token"
    for secret, text in (
        (path, json.dumps(settings(endpoints, port, folder, package, key))),
        (token_file, tokens.token(key)),
    ):
        secret.touch(mode=0o600)
        secret.write_text(text, encoding="ascii")  # JSON is YAML
    kept = jvm.start(lab, NAME, FLAGS, MAIN, ["-c", str(path)])
    worker = Worker(
        url=f"http://{LOOPBACK}:{port}",
        token_file=str(token_file),
        version=version,
        package=package.as_uri(),
        function=package.stem,
        process=Broker(id=NAME, client_port=port, status_file=kept.status_file, hold_file=kept.hold_file),
    )

    shown = {"Authorization": f"Bearer {tokens.token(key)}"}

    def leads() -> bool:
        kept.check()
        try:
            return httpx.get(f"{worker.url}/admin/v2/worker/cluster/leader", headers=shown, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    until(leads, READY_S, "the function worker leads", 0.2)
    return worker


def settings(endpoints: Endpoints, port: int, folder: Path, package: Path, key: bytes) -> dict[str, object]:
    """Its functions_worker.yml: Pulsar's own values, but for places, ports, names and the token."""
    return {
        "authenticationEnabled": True,
        "authenticationProviders": ["org.apache.pulsar.broker.authentication.AuthenticationProviderToken"],
        "properties": {"tokenSecretKey": f"data:;base64,{base64.b64encode(key).decode()}"},
        "workerId": "dedup",
        "workerHostname": LOOPBACK,
        "workerPort": port,
        "pulsarServiceUrl": endpoints.direct_bootstrap,
        "pulsarWebServiceUrl": endpoints.admin_urls[0],
        "pulsarFunctionsCluster": pulsar.CLUSTER,
        "pulsarFunctionsNamespace": "public/functions",
        "functionMetadataTopicName": "metadata",
        "clusterCoordinationTopicName": "coordinate",
        "functionAssignmentTopicName": "assignments",
        "functionsDirectory": str(package.parent),  # from elsewhere it takes no file
        "connectorsDirectory": str(folder / "connectors"),
        "downloadDirectory": str(folder / "downloads"),
        "narExtractionDirectory": str(folder / "nars"),
        "numFunctionPackageReplicas": 1,
        "schedulerClassName": f"{_PARTS}.worker.scheduler.RoundRobinScheduler",
        "functionRuntimeFactoryClassName": f"{_PARTS}.runtime.thread.ThreadRuntimeFactory",
        "functionRuntimeFactoryConfigs": {"threadGroupName": "functions"},
        "secretsProviderConfiguratorClassName": (
            f"{_PARTS}.secretsproviderconfigurator.DefaultSecretsProviderConfigurator"
        ),
        "failureCheckFreqMs": 30_000,
        "rescheduleTimeoutMs": 60_000,
        "rebalanceCheckFreqSec": -1,
        "initialBrokerReconnectMaxRetries": 60,
        "assignmentWriteMaxRetries": 60,
        "instanceLivenessCheckFreqMs": 30_000,
        "topicCompactionFrequencySec": 1_800,
    }
