"""The proof that a system is ready, as a Job: a message was written and read back on the clients' own path.

Workloads that say they are ready have open ports, and no more. Clients whose first messages go to a system that is not
quite there lose them to errors that look like findings. So the Job's pod has a Toxiproxy beside it, as a run's has, and
asks until the system answers or `timeouts.provision` is over. A system that is there already is asked without one, with
the credentials that runs will have.
"""

from collections.abc import Callable, Mapping
from typing import Final

from dedup.experiment.endpoints import Endpoints
from dedup.experiment.spec import Experiment, System
from dedup.experiment.systems import Protocol
from dedup_operator.objects.credentials import credential_mounts, credential_volumes
from dedup_operator.objects.names import Owner, metadata, name_of
from dedup_operator.objects.pods import Object, container, pod_security, pod_template
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.systems import endpoints, proxies_of, release_of

LATER_S: Final = 60
"""The operator's own time limit comes first: it tells what held a pod up, and Kubernetes ends it without a word."""


def readiness_name(owner: Owner, system: System) -> str:
    return name_of(owner, "readiness", system.name)


def readiness(owner: Owner, experiment: Experiment, system: System, settings: Settings) -> Object:
    """The Job. It is complete once a message went there and back."""
    release = release_of(owner, system)
    locks = settings.allow_faults_on_pods_of_others
    told = endpoints(system, release, owner.namespace, removable=locks, listed=settings.systems)
    lasts_s = int(experiment.spec.timeouts.provision_s)
    program = ["python", "-m", "dedup_runners.round_trips", *_asking(told, locks=locks), f"--timeout-s={lasts_s}"]
    mounts = {"tmp": "/tmp", **credential_mounts(system)}
    image = settings.runner_image
    meta = metadata(owner, readiness_name(owner, system), "readiness", system=system.name)
    proxied = told.toxiproxy_url is not None
    proxies = {"name": "toxiproxy", "configMap": {"name": proxies_of(release)}}
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": pod_security(),
        "initContainers": [_proxy(settings)] if proxied else [],
        "containers": [container("round-trip", image, program, memory="256Mi", mounts=mounts)],
        "volumes": [
            *([proxies] if proxied else []),
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            *credential_volumes(system),
        ],
    }
    spec = {
        "backoffLimit": 2,
        "activeDeadlineSeconds": lasts_s + LATER_S,
        "template": pod_template(settings, meta["labels"], pod),
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def _asking(told: Endpoints, *, locks: bool) -> list[str]:
    """What the round trip's command line says of the system; for its lock it must say who it is."""
    if not told.brokers:
        known = ["--identify"] if locks else []
        return ["existing", f"--endpoints={told.model_dump_json(exclude_defaults=True)}", *known]
    return [told.system, f"--clients={told.client_bootstrap}", *_ASKING[told.system](told)]


_ASKING: Final[Mapping[Protocol, Callable[[Endpoints], list[str]]]] = {
    "kafka": lambda told: [f"--direct={told.direct_bootstrap}"],
    "pulsar": lambda told: [f"--admin={','.join(told.admin_urls)}", f"--listener={told.listener_name}"],
}


def _proxy(settings: Settings) -> Object:
    proxying = ["toxiproxy-server", "-host=127.0.0.1", "-config=/etc/toxiproxy/toxiproxy.json"]
    mounts = {"toxiproxy": "/etc/toxiproxy", "tmp": "/tmp"}
    return container("toxiproxy", settings.runner_image, proxying, memory="64Mi", mounts=mounts, restartPolicy="Always")
