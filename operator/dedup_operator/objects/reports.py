"""The conclusion from all runs and their verification, as a Job.

It reads the evidence from the store, writes the summary and the tables there, and tells the operator in one line of
JSON, the last of its log, what goes into the resource's status. It reaches no API server and has no rights.
"""

from dedup_operator.objects.names import Owner, metadata, name_of
from dedup_operator.objects.pods import (
    CONFIG,
    Object,
    container,
    pod_security,
    store_environment,
    store_mounts,
    store_volumes,
)
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.snapshots import FILE, snapshot_name


def report_name(owner: Owner) -> str:
    return name_of(owner, "report")


def report(owner: Owner, settings: Settings) -> Object:
    """The Job."""
    root = settings.artifacts.root(owner.folder)
    program = ["python3", "-m", "dedup_spark.report", "--experiment", f"{CONFIG}/{FILE}", root]
    mounts = {"config": CONFIG, "tmp": "/tmp", **store_mounts(settings.artifacts)}
    env = store_environment(settings.artifacts)
    memory = f"{settings.spark.memory_mi}Mi"
    told = container("report", settings.spark_image, program, memory=memory, mounts=mounts, env=env)
    meta = metadata(owner, report_name(owner), "report")
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": [told],
        "volumes": [
            {"name": "config", "configMap": {"name": snapshot_name(owner)}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
            *store_volumes(settings.artifacts),
        ],
    }
    spec = {"backoffLimit": 2, "template": {"metadata": {"labels": meta["labels"]}, "spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
