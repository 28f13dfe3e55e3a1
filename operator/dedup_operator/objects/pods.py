"""What all pods of ours have in common: no privilege, no root, nothing to write to but what is mounted.

That is Pod Security's level "restricted", and a read-only root file system besides. Keys of the store come from a
Secret into the environment of those who need them, and stand in no object of ours. A store that knows pods by their
accounts is shown a token instead, which those who need it mount.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dedup_operator.objects.settings import (
    SESSION_KEY,
    STORE_KEYS,
    STORE_MOUNT,
    Artifacts,
    Image,
    PodTemplate,
    Resources,
    Settings,
    bytes_of,
)

USER: Final = 1000
"""Of all our pods, Spark's too: what one has put on a volume, another may have to add to."""
TOKEN_MOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
IDENTITY_MOUNT: Final = "/var/run/secrets/dedup.dev/store"
"""Where a token is that is for the store only."""
TOKEN_LIVES_S: Final = 3600
CONFIG: Final = "/config"
"""Where a pod finds the ConfigMap that tells it what to do."""
Object = dict[str, Any]
STAYS: Final[Mapping[str, str]] = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Annotations by which autoscalers leave a pod where it is: a run that is moved is a run that was interrupted."""

_NONE: Final[Mapping[str, str]] = {}
CONTAINER_SECURITY: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def pod_security() -> Object:
    """The security context of a whole pod."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def placement(template: PodTemplate) -> Object:
    """Where a pod may run and how its images are had; keys that say nothing are left out."""
    said = template.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"annotations"})
    return {key: each for key, each in said.items() if each}


def annotations(template: PodTemplate, own: Mapping[str, str] = _NONE) -> Object:
    """Of a pod: the administrator's, and over them our own."""
    return {**template.annotations, **own, **STAYS}


def pod_template(settings: Settings, labels: Mapping[str, str], pod: Object, own: Mapping[str, str] = _NONE) -> Object:
    """The template of a Job: the pod as we describe it, where and as large as the administrator says.

    `own` are annotations of ours.
    """
    sized = {
        kind: [_sized(each, settings.resources) for each in pod[kind]]
        for kind in ("initContainers", "containers")
        if kind in pod
    }
    return {
        "metadata": {"labels": dict(labels), "annotations": annotations(settings.pod_template, own)},
        "spec": {**pod, **placement(settings.pod_template), **sized},
    }


def _sized(container: Object, resources: Resources) -> Object:
    most = container["resources"]["limits"]["memory"]
    asked = min(resources.requests.memory, most, key=bytes_of)
    limits = {"memory": most, **({"cpu": resources.limits.cpu} if resources.limits.cpu else {})}
    return {**container, "resources": {"requests": {"cpu": resources.requests.cpu, "memory": asked}, "limits": limits}}


def container(
    name: str, image: Image, command: Sequence[str], *, memory: str, mounts: Mapping[str, str], **more: Any
) -> Object:
    """A container under tini, which takes signals for it. `mounts` are paths by the names of volumes.

    What it asks for is decided by the template of its pod.
    """
    return {
        "name": name,
        "image": image.reference,
        "imagePullPolicy": image.pull_policy,
        "command": ["tini", "--", *command],
        "workingDir": "/tmp",
        "resources": {"limits": {"memory": memory}},
        "securityContext": dict(CONTAINER_SECURITY),
        # A container that ends badly leaves its last words in the pod's status, where nobody needs a right to logs.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in mounts.items()],
        **more,
    }


def token_volume(name: str) -> Object:
    """The pod's account, for those of its containers that mount it: what Kubernetes would give to all of them."""
    return {
        "name": name,
        "projected": {
            "defaultMode": 0o440,
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_LIVES_S}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {
                    "downwardAPI": {
                        "items": [
                            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                        ]
                    }
                },
            ],
        },
    }


def store_environment(artifacts: Artifacts) -> list[Object]:
    """How a container finds S3 and proves who it is; nothing for a volume."""
    if artifacts.s3 is None:
        return []
    said = {"AWS_REGION": artifacts.s3.region}
    if artifacts.s3.endpoint is not None:
        said["AWS_ENDPOINT_URL"] = artifacts.s3.endpoint
    if (identity := artifacts.s3.web_identity) is not None:
        said |= {"AWS_WEB_IDENTITY_TOKEN_FILE": f"{IDENTITY_MOUNT}/token", "AWS_ROLE_ARN": identity.role}
        if identity.sts_endpoint is not None:
            said["AWS_ENDPOINT_URL_STS"] = identity.sts_endpoint
    secret = artifacts.s3.secret
    keys = [] if secret is None else [_from_secret(secret, key) for key in STORE_KEYS]
    if secret is not None:
        keys.append(_from_secret(secret, SESSION_KEY, optional=True))
    return [*keys, *({"name": name, "value": value} for name, value in said.items())]


def _from_secret(secret: str, key: str, *, optional: bool = False) -> Object:
    """A variable of the key's name. One that is optional is not set if the Secret has no such key."""
    return {
        "name": key,
        "valueFrom": {"secretKeyRef": {"name": secret, "key": key, **({"optional": True} if optional else {})}},
    }


def store_volumes(artifacts: Artifacts) -> list[Object]:
    """The claim, if histories go to one; or the token by which S3 knows the pod. Kubernetes renews the token."""
    if artifacts.volume is not None:
        return [{"name": "store", "persistentVolumeClaim": {"claimName": artifacts.volume.claim}}]
    if artifacts.s3 is None or artifacts.s3.web_identity is None:
        return []
    token = {"path": "token", "audience": artifacts.s3.web_identity.audience, "expirationSeconds": TOKEN_LIVES_S}
    return [{"name": "identity", "projected": {"defaultMode": 0o440, "sources": [{"serviceAccountToken": token}]}}]


def store_mounts(artifacts: Artifacts) -> dict[str, str]:
    """Where a container that reaches the store mounts them."""
    if artifacts.volume is not None:
        return {"store": STORE_MOUNT}
    return {"identity": IDENTITY_MOUNT} if artifacts.s3 is not None and artifacts.s3.web_identity is not None else {}
