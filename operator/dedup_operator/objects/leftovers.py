"""The Job that removes what an execution has made on a system that was there before, by its names."""

from typing import Final

from dedup.experiment.spec import System
from dedup_operator.objects.credentials import credential_mounts, credential_volumes
from dedup_operator.objects.names import Owner, metadata, name_of
from dedup_operator.objects.pods import Object, container, pod_security, pod_template
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.systems import endpoints, release_of

LASTS_S: Final = 240
TRIES: Final = 2


def leftovers_name(owner: Owner, system: System) -> str:
    return name_of(owner, "leftovers", system.name)


def leftovers(owner: Owner, system: System, settings: Settings) -> Object:
    """The Job. It is complete once nothing of that execution is there any more."""
    told = endpoints(system, release_of(owner, system), owner.namespace, removable=True, listed=settings.systems)
    program = ["python", "-m", "dedup_runners.leftovers", f"--endpoints={told.model_dump_json(exclude_defaults=True)}"]
    mounts = {"tmp": "/tmp", **credential_mounts(system)}
    meta = metadata(owner, leftovers_name(owner, system), "leftovers", system=system.name)
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": pod_security(),
        "containers": [container("leftovers", settings.runner_image, program, memory="256Mi", mounts=mounts)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}, *credential_volumes(system)],
    }
    template = pod_template(settings, meta["labels"], pod)
    spec = {"backoffLimit": TRIES, "activeDeadlineSeconds": LASTS_S, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
