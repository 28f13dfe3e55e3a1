"""One attempt of one run, as a Job of one pod, and the ConfigMap that tells its programs what to do.

All programs of a run stand side by side in one pod. They share a clock, so that sends and faults can be compared; a
network, so that one Toxiproxy stands in the path of all clients; and two folders: /history, in which the history grows,
and /shared, in which each shows that it lives. Nobody needs a right at the API server to see another one die.

Three helpers are there before the programs and outlive them, as sidecars that Kubernetes starts first and ends last:
Toxiproxy, the watchdog that heals every fault at its deadline whoever has died, and the courier that carries the
history to the store. The clients under test have no token of the API server; the conductor and the faults have one,
and the consumer where it is to kill the worker of a function.
Where a system is there already, whoever speaks to it sees its credentials. Clients go straight to it, unless something
is to act on their connections: then the conductor leads them, through a Toxiproxy that it tells what to do and that has
a user of its own. It speaks TLS for them, so the producer sees no more than its log-in; the consumer, which also asks
brokers what they cannot deliver, sees all.

A fault by NetworkPolicy outlives its pod, so a second Job removes what is past its deadline.

The Job never tries again: an attempt that broke is an attempt, and the next one has a number of its own. Should
Kubernetes start its pod twice all the same, the conductor of the second finds the attempt claimed and sends nothing.
"""

from typing import Any, Final

from dedup.experiment.assignments import FILE, FOLDER, GRACE_S, SHARED, Assignment
from dedup.experiment.plans import Run
from dedup.experiment.spec import Experiment
from dedup.faults.registry import Fault
from dedup_operator.objects.accounts import deadline_account, policies_of, run_account
from dedup_operator.objects.brokers import PROXY_USER, TOXIPROXY_URL
from dedup_operator.objects.credentials import credential_mounts, credential_volumes
from dedup_operator.objects.kafka import database_of
from dedup_operator.objects.names import Owner, labels_of, metadata, name_of
from dedup_operator.objects.own_experiments import image_of
from dedup_operator.objects.pods import (
    CONFIG,
    CONTAINER_SECURITY,
    TOKEN_MOUNT,
    Object,
    container,
    pod_security,
    pod_template,
    store_environment,
    store_mounts,
    store_volumes,
    token_volume,
)
from dedup_operator.objects.settings import Image, Settings
from dedup_operator.objects.systems import database, endpoints, proxies_of, release_of, worker

RUN: Final = "run"
"""The component that pods of runs are labelled as."""
PROXIES: Final = "/etc/toxiproxy"
WATCHDOG: Final = SHARED / "watchdog.sock"
WATCHDOG_PROGRAM: Final = "/usr/local/dedup/code/dedup_runners/chaos/watchdog.py"
STAGES: Final = 4
START_S: Final = 600
"""What a pod may take to be scheduled and to get its images, beside its four stages."""
HELPER_MEMORY: Final = "256Mi"
SIDECAR: Final[dict[str, Any]] = {"restartPolicy": "Always", "memory": HELPER_MEMORY}
COURIER_MEMORY: Final = "512Mi"


def assignment(owner: Owner, experiment: Experiment, run: Run, attempt: int, settings: Settings) -> Assignment:
    """What the programs of the pod are told."""
    system = next(each for each in experiment.spec.systems if each.name == run.system)
    removable = settings.allow_faults_on_pods_of_others
    found = endpoints(system, release_of(owner, system), owner.namespace, removable=removable, listed=settings.systems)
    if system.existing is not None and experiment.spec.proxied(system):
        found = found.model_copy(update={"toxiproxy_url": TOXIPROXY_URL})
    return Assignment(
        experiment=experiment,
        run_id=run.run_id,
        attempt=attempt,
        endpoints=found,
        folder=FOLDER,
        shared=SHARED,
        artifacts=settings.artifacts.root(owner.folder),
        database=database(experiment.spec, system, release_of(owner, system), owner.namespace),
        watchdog=WATCHDOG,
        worker=worker(experiment.spec, system, release_of(owner, system), owner.namespace),
    )


def job_of(owner: Owner, run_id: str, attempt: int) -> str:
    """The name of an attempt's Job, and of its ConfigMap."""
    return name_of(owner, "run", run_id, str(attempt))


def deadlines_of(owner: Owner, run_id: str, attempt: int) -> str:
    """The name of the Job that minds deadlines of an attempt's policies, if it makes any."""
    return name_of(owner, "deadline", run_id, str(attempt))


def run_objects(owner: Owner, experiment: Experiment, run: Run, attempt: int, settings: Settings) -> list[Object]:
    """The ConfigMap and, last, the Job of an attempt, of the same name; and a Job that minds deadlines of policies."""
    told = assignment(owner, experiment, run, attempt, settings)
    name = job_of(owner, run.run_id, attempt)
    meta = metadata(owner, name, RUN, **labels_of(run, attempt))
    meta["annotations"] = {"dedup.dev/run": run.run_id}
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "immutable": True,
        "data": {FILE: told.document()},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "activeDeadlineSeconds": _lasts_s(experiment),
            "template": pod_template(settings, meta["labels"], _pod(told, name, owner, settings), meta["annotations"]),
        },
    }
    if policies_of(experiment):
        # First: once there is the run's Job, nobody comes back to make anything.
        return [config, _deadlines(owner, experiment, run, attempt, settings), job]
    return [config, job]


def _lasts_s(experiment: Experiment) -> int:
    """Seconds that an attempt's pod may take."""
    return int(STAGES * experiment.spec.timeouts.run_s) + START_S


def _deadlines(owner: Owner, experiment: Experiment, run: Run, attempt: int, settings: Settings) -> Object:
    lasts_s = _lasts_s(experiment)
    told = (owner.namespace, str(lasts_s), job_of(owner, run.run_id, attempt), str(policies_of(experiment)))
    program = ["python", "-m", "dedup_runners.chaos.deadlines", *told]
    mounts = {"tmp": "/tmp", "token": TOKEN_MOUNT}
    meta = metadata(owner, deadlines_of(owner, run.run_id, attempt), "deadline", **labels_of(run, attempt))
    pod = {
        "restartPolicy": "OnFailure",
        "serviceAccountName": deadline_account(owner),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": [container("deadlines", settings.runner_image, program, memory=HELPER_MEMORY, mounts=mounts)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}, token_volume("token")],
    }
    spec = {
        "backoffLimit": 100,
        "ttlSecondsAfterFinished": 0,
        "activeDeadlineSeconds": lasts_s + START_S,
        "template": pod_template(settings, meta["labels"], pod),
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def _pod(told: Assignment, config: str, owner: Owner, settings: Settings) -> Object:
    proxied, charted = told.endpoints.toxiproxy_url is not None, told.system.existing is None
    proxies = {"name": "toxiproxy", "configMap": {"name": proxies_of(release_of(owner, told.system))}}
    volumes: list[Object] = [
        {"name": "config", "configMap": {"name": config}},
        *([proxies] if proxied and charted else []),
        {"name": "history", "emptyDir": {"sizeLimit": settings.runner.history}},
        {"name": "shared", "emptyDir": {"sizeLimit": "16Mi"}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
        token_volume("token"),
        *store_volumes(settings.artifacts),
        *credential_volumes(told.system),
    ]
    return {
        "restartPolicy": "Never",
        "serviceAccountName": run_account(owner),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_S,
        "securityContext": pod_security(),
        "initContainers": [*([_proxy(settings, charted=charted)] if proxied else []), *_sidecars(settings)],
        "containers": _programs(told, owner, settings),
        "volumes": volumes,
    }


def _proxy(settings: Settings, *, charted: bool) -> Object:
    """Toxiproxy, the first of the sidecars: with the proxies of the system's chart, or with none yet."""
    proxying = ["toxiproxy-server", "-host=127.0.0.1"]
    mounts = {"tmp": "/tmp"}
    more: dict[str, Any] = {"securityContext": {**CONTAINER_SECURITY, "runAsUser": PROXY_USER}}
    if charted:
        proxying.append(f"-config={PROXIES}/toxiproxy.json")
        mounts, more = {"toxiproxy": PROXIES, **mounts}, {}
    return container("toxiproxy", settings.runner_image, proxying, mounts=mounts, **SIDECAR, **more)


def _sidecars(settings: Settings) -> list[Object]:
    """In the order in which they start; they end the other way round, the courier first."""
    image = settings.runner_image
    courier = {**SIDECAR, "memory": COURIER_MEMORY, "env": store_environment(settings.artifacts)}
    watching = ["python", "-I", "-S", WATCHDOG_PROGRAM, "--serve", str(WATCHDOG)]
    carrying = ["python", "-m", "dedup_runners.courier", f"{CONFIG}/{FILE}"]
    shared = {"history": str(FOLDER), "shared": str(SHARED), "tmp": "/tmp"}
    store = {"config": CONFIG, **store_mounts(settings.artifacts)}
    return [
        container("watchdog", image, watching, mounts=shared, **SIDECAR),
        container("courier", image, carrying, mounts={**shared, **store}, **courier),
    ]


def _programs(told: Assignment, owner: Owner, settings: Settings) -> list[Object]:
    image, memory = settings.runner_image, settings.runner.memory
    shared = {"history": str(FOLDER), "shared": str(SHARED), "tmp": "/tmp"}
    led = told.experiment.spec.leads(told.system)
    speaking = {**shared, **credential_mounts(told.system)}
    sending = {**shared, **credential_mounts(told.system, behind_tls=led)}
    trusted = {**speaking, "token": TOKEN_MOUNT}
    in_pod = [{"name": "DEDUP_SHARED", "value": str(SHARED)}]
    store = {"config": CONFIG, **store_mounts(settings.artifacts)}

    def program(
        name: str, *arguments: str, mounts: dict[str, str], env: list[Object] = in_pod, image: Image = image
    ) -> Object:
        module = f"dedup_runners.{name.partition('-')[0]}"
        return container(name, image, ["python", "-m", module, *arguments], memory=memory, mounts=mounts, env=env)

    return [
        program(
            "conductor",
            f"{CONFIG}/{FILE}",
            mounts={**trusted, **store},
            env=[*in_pod, *store_environment(settings.artifacts)],
        ),
        program(
            "producer",
            str(FOLDER / "config" / "producer.json"),
            mounts=sending,
            image=image if told.program is None else settings.clients_image,
        ),
        program(
            "consumer",
            str(FOLDER / "config" / "consumer.json"),
            mounts=speaking if told.worker is None else trusted,
            env=[*in_pod, *_log_in(told, owner)],
        ),
        *(
            program(
                f"chaos-{name}",
                *(str(FOLDER), name),
                mounts=trusted,
                env=[*in_pod, *_image_of(fault, settings)],
                image=image_of(fault, settings),
            )
            for name, fault in told.faults.items()
        ),
    ]


def _log_in(told: Assignment, owner: Owner) -> list[Object]:
    """The password for the database of a service, which runs beside the consumer, and which the consumer asks."""
    if told.database is None:
        return []
    at = {"name": database_of(release_of(owner, told.system)), "key": "database"}
    return [{"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": at}}]


def _image_of(fault: Fault | None, settings: Settings) -> list[Object]:
    """A fault that adds a container to a broker's pod is told of which image."""
    if fault is None or not fault.privileged:
        return []
    return [{"name": "DEDUP_IMAGE", "value": settings.runner_image.reference}]
