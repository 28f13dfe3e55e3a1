"""What an execution runs, in a ConfigMap that nobody can change: the experiment, and the administrator's settings.

An edit of the resource while runs go on would make half of them answer another question; an upgrade of the operator's
chart would make half of them use another image, and lie in another bucket. So the operator reads the resource and its
settings once for each `runToken`, and from then on this. Of Secrets it has the names only.

Nobody can change it, but who may write ConfigMaps can delete it and make another. So its digest is in the status, which
nobody but the operator writes.
"""

import hashlib
import json
from typing import Any, Final

from pydantic import ValidationError

from dedup.errors import PlatformError
from dedup.experiment.spec import Experiment, parse
from dedup_operator.objects.names import Owner, metadata, name_of
from dedup_operator.objects.pods import Object
from dedup_operator.objects.settings import Defaults, Settings, for_experiment

FILE: Final = "experiment.yaml"
SETTINGS: Final = "settings.json"
OF_TODAY: Final = {"concurrent_experiments", "allow_privileged_faults", "allow_logins_to_any_host", "chaos_images"}
"""What concerns all experiments together, or is a right: the administrator's word of today counts."""

PREVIEW: Final = "allow_faults_on_pods_of_others"
LIST: Final = "systems"
"""What is kept only if it is on, or used, so that an operator of before reads all others."""


def snapshot_name(owner: Owner) -> str:
    return name_of(owner, "snapshot")


def snapshot(owner: Owner, experiment: Experiment, settings: Settings) -> Object:
    """The ConfigMap. Its annotation has the digest that tells whether the resource still says the same."""
    meta = metadata(owner, snapshot_name(owner), "snapshot")
    meta["annotations"] = {"dedup.dev/digest": experiment.digest()}
    document = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    left_out = OF_TODAY if settings.allow_faults_on_pods_of_others else OF_TODAY | {PREVIEW}
    used = [each for each in settings.systems if each.name in {system.listed for system in experiment.spec.systems}]
    said = settings.model_copy(update={"systems": used})
    kept = said.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude=left_out if used else left_out | {LIST}
    )
    data = {FILE: json.dumps(document, indent=1), SETTINGS: json.dumps(kept, indent=1)}  # which is YAML too
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "immutable": True, "data": data}


def digest_of(made: Object) -> str:
    """A sha256 of all that such a ConfigMap says."""
    text = json.dumps(made.get("data") or {}, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def read(made: Object) -> Experiment:
    """The experiment in such a ConfigMap; PlatformError if there is none, SpecificationError if it is a wrong one."""
    return parse(json_in(made, FILE), source=f"ConfigMap {made['metadata']['name']}")


def json_in(made: Object, file: str) -> Any:
    """What a file of a ConfigMap of ours says; PlatformError if it is not there, or no JSON."""
    try:
        return json.loads(made["data"][file])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        there = file in (made.get("data") or {})
        raise PlatformError(
            where=f"ConfigMap {made['metadata']['name']}: {file}",
            got=f"what nobody can read: {error}" if there else "nothing",
            rule="it is JSON, as the operator wrote it",
            todo="put back what was written, or choose another spec.runToken",
        ) from None


def settings_in(made: Object, defaults: Defaults) -> Settings:
    """The settings in such a ConfigMap; today's if an operator of before wrote none. PlatformError: a newer one's."""
    if (text := (made.get("data") or {}).get(SETTINGS)) is None:
        return for_experiment(defaults, read(made), made["metadata"]["namespace"])
    try:
        kept = Settings.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors()[0]
        raise PlatformError(
            where=f"ConfigMap {made['metadata']['name']}: {SETTINGS}: {'.'.join(map(str, first['loc'])) or 'all'}",
            got=f"what this operator cannot read: {first['msg']}",
            rule="an execution goes on with the settings that it was begun with",
            todo="install the operator that wrote it, or choose another spec.runToken",
        ) from None
    return kept.model_copy(update={name: getattr(defaults, name) for name in OF_TODAY})


def settings_to_leave(made: Object, taken: Experiment, defaults: Defaults) -> Settings:
    """Names are enough to end an execution: today's settings do where this operator cannot read those it began with."""
    try:
        return settings_in(made, defaults)
    except PlatformError:
        return for_experiment(defaults, taken, made["metadata"]["namespace"])


def document_of(live: Object) -> Object:
    """The experiment as people write it: without what the API server adds."""
    return {
        **{key: live[key] for key in ("apiVersion", "kind", "spec") if key in live},
        "metadata": {"name": live["metadata"]["name"]},
    }
