"""The proof that a system is ready, as a Job: a message was written and read back on the clients' own path.

Workloads that say they are ready have open ports, and no more. Clients whose first messages go to a system that is not
quite there lose them to errors that look like findings. So the Job's pod has a Toxiproxy beside it, as a run's has, and
asks until the system answers or `timeouts.provision` is over.
"""

from dedup.experiments import Experiment, System
from dedup_operator.objects.names import Owner, metadata, name_of
from dedup_operator.objects.pods import Object, container, pod_security
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.systems import endpoints, proxies_of, release_of


def readiness_name(owner: Owner, system: System) -> str:
    return name_of(owner, "readiness", system.name)


def readiness(owner: Owner, experiment: Experiment, system: System, settings: Settings) -> Object:
    """The Job. It is complete once a message went there and back."""
    release = release_of(owner, system)
    told = endpoints(system, release, owner.namespace)
    lasts_s = int(experiment.spec.timeouts.provision_s)
    program = ["python", "-m", "dedup_runners.round_trips", system.kind, f"--clients={told.client_bootstrap}"]
    if system.kind == "kafka":
        program.append(f"--direct={told.direct_bootstrap}")
    else:
        program += [f"--admin={','.join(told.admin_urls)}", f"--listener={told.listener_name}"]
    proxying = ["toxiproxy-server", "-host=127.0.0.1", "-config=/etc/toxiproxy/toxiproxy.json"]
    proxy = {"toxiproxy": "/etc/toxiproxy", "tmp": "/tmp"}
    image = settings.runner_image
    meta = metadata(owner, readiness_name(owner, system), "readiness", system=system.name)
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": pod_security(),
        "initContainers": [
            container("toxiproxy", image, proxying, memory="64Mi", mounts=proxy, restartPolicy="Always")
        ],
        "containers": [
            container("round-trip", image, [*program, f"--timeout-s={lasts_s}"], memory="256Mi", mounts={"tmp": "/tmp"})
        ],
        "volumes": [
            {"name": "toxiproxy", "configMap": {"name": proxies_of(release)}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
    }
    spec = {
        "backoffLimit": 2,
        "activeDeadlineSeconds": lasts_s,
        "template": {"metadata": {"labels": meta["labels"]}, "spec": pod},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
