"""The judgement of all runs of an experiment: a SparkApplication (kubeflow's operator, v1beta2), or a Job.

It reads every run's folder below the experiment's place in the store. Its report goes there, and beside each history
goes what it says of it. Spark's driver and executors are of Pod Security's level "restricted"; the operator's webhook
puts volumes, environment and security contexts into their pods, and without it they would silently be lost. Keys of S3
come from a Secret into the environment, and never into Spark's configuration, which everybody can read.

With `verification: {engine: Local}` it is a Job of one pod, for clusters without Spark's operator. It writes the same
files, and its account has no right.
"""

from typing import Any, Final

from dedup.experiment.spec import Experiment
from dedup.experiment.verifications import Method
from dedup_operator.objects.accounts import driver_account, executor_account
from dedup_operator.objects.names import Owner, metadata, name_of
from dedup_operator.objects.pods import (
    CONTAINER_SECURITY,
    Object,
    annotations,
    container,
    placement,
    pod_security,
    pod_template,
    store_environment,
    store_mounts,
    store_volumes,
)
from dedup_operator.objects.settings import Settings, Spark

PROGRAM: Final = "local:///usr/local/dedup/code/dedup_spark/job.py"
REPORT: Final = "verification.json"
FINDINGS: Final = "findings"
MOST_PODS_FAIL: Final = 3
"""Of the Job: a drain or a lost node may take a pod away, and one more is had in a moment."""
SUBMISSIONS: Final = 5
SUBMIT_AGAIN_S: Final = 10
# Spark 4.3 would make a NetworkPolicy for each driver too, which the operator's chart has no right to do.
NO_POLICY: Final = "org.apache.spark.deploy.k8s.features.NetworkPolicyFeatureStep"


def verification(owner: Owner, experiment: Experiment, settings: Settings) -> Object:
    """The SparkApplication or the Job. In the experiment's place in the store, its report is `verification.json`, and
    all findings are tables below `findings/`."""
    return _job(owner, settings) if is_local(experiment) else _application(owner, settings)


def is_local(experiment: Experiment) -> bool:
    """Whether the experiment is verified without Spark."""
    return experiment.spec.verification.engine is Method.LOCAL


def kind_of(experiment: Experiment) -> str:
    """The kind of the object that verifies the experiment."""
    return "Job" if is_local(experiment) else "SparkApplication"


def _arguments(owner: Owner, settings: Settings) -> list[str]:
    root = settings.artifacts.root(owner.folder)
    return ["--output", f"{root}/{REPORT}", "--keep", "--findings", f"{root}/{FINDINGS}", root]


def _job(owner: Owner, settings: Settings) -> Object:
    meta = metadata(owner, name_of(owner, "verification"), "verification")
    judging = container(
        "verification",
        settings.spark_image,
        ["python3", "-m", "dedup_spark.local_job", *_arguments(owner, settings)],
        memory=settings.verifier.memory,
        mounts={"tmp": "/tmp", **store_mounts(settings.artifacts)},
        env=store_environment(settings.artifacts),
    )
    pod = {
        "restartPolicy": "Never",
        "serviceAccountName": executor_account(owner),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": [judging],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}, *store_volumes(settings.artifacts)],
    }
    spec = {"backoffLimit": MOST_PODS_FAIL, "template": pod_template(settings, meta["labels"], pod)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def _application(owner: Owner, settings: Settings) -> Object:
    spark = settings.spark
    pull_secrets = [each.name for each in settings.pod_template.image_pull_secrets]
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": metadata(owner, name_of(owner, "verification"), "verification"),
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "pythonVersion": "3",
            "sparkVersion": spark.version,
            "image": settings.spark_image.reference,
            "imagePullPolicy": settings.spark_image.pull_policy,
            **({"imagePullSecrets": pull_secrets} if pull_secrets else {}),
            "mainApplicationFile": PROGRAM,
            "arguments": _arguments(owner, settings),
            # A job that failed has told why; tried again it would fail again. A submission that failed was no job yet.
            "restartPolicy": {
                "type": "OnFailure",
                "onFailureRetries": 0,
                "onSubmissionFailureRetries": SUBMISSIONS,
                "onSubmissionFailureRetryInterval": SUBMIT_AGAIN_S,
            },
            "sparkConf": {
                "spark.kubernetes.driver.pod.excludedFeatureSteps": NO_POLICY,
                "spark.ui.enabled": "false",
            },
            "volumes": [{"name": "tmp", "emptyDir": {}}, *store_volumes(settings.artifacts)],
            "driver": {**_part(settings), "serviceAccount": driver_account(owner)},
            "executor": {
                **_part(settings),
                "instances": spark.executors,
                "serviceAccount": executor_account(owner),
            },
        },
    }


def _part(settings: Settings) -> dict[str, Any]:
    """What driver and executors have in common."""
    spark: Spark = settings.spark
    mounts = {"tmp": "/tmp", **store_mounts(settings.artifacts)}
    template = settings.pod_template.model_copy(update={"image_pull_secrets": []})  # the application has them for both
    return {
        **placement(template),
        "cores": spark.cores,
        "coreRequest": spark.cpu,
        **({"coreLimit": limit} if (limit := settings.resources.limits.cpu) else {}),
        "memory": f"{spark.memory_mi}m",
        "memoryOverhead": f"{spark.python_mi}m",
        "labels": {"dedup.dev/component": "verification"},
        "annotations": annotations(settings.pod_template),
        "env": store_environment(settings.artifacts),
        "podSecurityContext": pod_security(),
        "securityContext": dict(CONTAINER_SECURITY),
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
    }
