"""The conclusion from all runs and their verification, as a Job.

It reads the evidence from the store, writes the summary and the tables there, and leaves its *bulletin*, what goes into
the resource's status, in a ConfigMap that the operator made for it: its home, which belongs to the experiment and
outlives every pod. To write into that one object is the only right that the report's account has (decision 040).

What the store cannot tell is why there is nothing in it: a chart that was refused, a pod that never began. The operator
writes that into a ConfigMap as it goes, and the Job is told of it.
"""

import json
from collections.abc import Mapping
from typing import Final

from dedup.errors import PlatformError
from dedup.experiment.stages import Task
from dedup.judgement.verdicts import ORACLE_LIMIT
from dedup_operator.objects.accounts import report_account, reporting
from dedup_operator.objects.names import Owner, metadata, name_of
from dedup_operator.objects.pods import (
    CONFIG,
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
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.snapshots import FILE, json_in, snapshot_name

FAILURES: Final = "/failures"
FAILURES_FILE: Final = "failures.json"
BULLETIN: Final = "bulletin.json"
"""The key of the home, as `dedup_spark.homes` writes it."""
MOST_PODS_FAIL: Final = 6
"""A drain or a lost node may take some of them away, and a report can be done again. A podFailurePolicy, which does not
count those, would not replace a pod on a lost node: it stays Terminating, and is no failed one yet."""
FIRST_MI: Final = 512
MESSAGE_KI: Final = 4
"""The oracle judges in that pod, and holds a whole history: 1.1 GiB were seen at 360,000 messages without a copy."""
MOST_FAILURES: Final = 256
"""So many are told of, each in 500 characters: a ConfigMap holds less than a mebibyte."""


def report_name(owner: Owner) -> str:
    return name_of(owner, "report")


def failures_name(owner: Owner) -> str:
    return name_of(owner, "failures")


def home_name(owner: Owner) -> str:
    return name_of(owner, "bulletin")


def report_objects(owner: Owner, settings: Settings, *, messages: int = 0, failed: bool = False) -> list[Object]:
    """Everything a report needs, the Job last, of runs of so many messages; `failed`: there are failures to tell."""
    home = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(owner, home_name(owner), "report")}
    account = reporting(owner, home_name(owner), settings.account_annotations)
    return [*account, home, report(owner, settings, messages=messages, failed=failed)]


def bulletin_in(home: Object) -> str | None:
    """What the report has left there, if it has."""
    said = (home.get("data") or {}).get(BULLETIN)
    return None if said is None else str(said)


def report(owner: Owner, settings: Settings, *, messages: int = 0, failed: bool = False) -> Object:
    """The Job, of runs of so many messages; `failed`: there are failures to tell it of."""
    root = settings.artifacts.root(owner.folder)
    told_of = ["--failures", f"{FAILURES}/{FAILURES_FILE}"] if failed else []
    files = ["--experiment", f"{CONFIG}/{FILE}", *told_of]
    program = ["python3", "-m", "dedup_spark.report", *files, "--result", home_name(owner), root]
    mounts = {"config": CONFIG, "tmp": "/tmp", "token": TOKEN_MOUNT, **store_mounts(settings.artifacts)}
    if failed:
        mounts["failures"] = FAILURES
    env = store_environment(settings.artifacts)
    judging_mi = FIRST_MI + min(messages, ORACLE_LIMIT) * MESSAGE_KI // 1024
    memory = f"{max(settings.spark.memory_mi, judging_mi)}Mi"
    told = container("report", settings.spark_image, program, memory=memory, mounts=mounts, env=env)
    meta = metadata(owner, report_name(owner), "report")
    pod = {
        "restartPolicy": "Never",
        "serviceAccountName": report_account(owner),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": [told],
        "volumes": [
            {"name": "config", "configMap": {"name": snapshot_name(owner)}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
            token_volume("token"),
            *([{"name": "failures", "configMap": {"name": failures_name(owner)}}] if failed else []),
            *store_volumes(settings.artifacts),
        ],
    }
    spec = {"backoffLimit": MOST_PODS_FAIL, "template": pod_template(settings, meta["labels"], pod)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def failures(owner: Owner, told: Mapping[str, str]) -> Object:
    """The ConfigMap: why runs, or whole systems, came to nothing, by the id of the run or the system's name."""
    meta = metadata(owner, failures_name(owner), "report")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {FAILURES_FILE: json.dumps(told)}}


def failures_in(made: Object) -> dict[str, str]:
    """What such a ConfigMap tells; PlatformError if it cannot be read."""
    told = json_in(made, FAILURES_FILE)
    if not isinstance(told, dict) or not all(isinstance(each, str) for each in told.values()):
        raise PlatformError(
            where=f"ConfigMap {made['metadata']['name']}: {FAILURES_FILE}",
            got="something else than reasons by the names of runs and systems",
            rule="it is JSON, as the operator wrote it",
            todo="delete the ConfigMap",
        )
    return told


def with_failure(told: Mapping[str, str], task: Task, reason: str) -> dict[str, str]:
    """What is told once this task has failed too. Runs that are never begun then are told of by their system."""
    assert task.system is not None
    if task.run_id is None:
        return {**told, task.system: reason}
    more = {**told, task.system: f"{task.system} failed last with: {reason}"}
    return {**more, task.run_id: reason} if task.run_id in told or len(told) < MOST_FAILURES else more
