"""What a chart of somebody else's has rendered: judged, and made the experiment's own, before anything is installed.

It is all data, of which this decides: only kinds that the entry names, all in the experiment's namespace, no hooks of
Helm's, for whose pods Helm would wait and which nobody would take away, no right beyond the namespace; and the brokers
where the entry says that they are. What is installed is what was judged, and nothing is rendered a second time.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dedup.errors import PlatformError, one_line
from dedup_operator.objects.listed import LIST, MADE, ListedSystem
from dedup_operator.objects.names import LABEL, Owner
from dedup_operator.objects.rendered_rules import broken, chart_of
from dedup_operator.schema.crd import GROUP

Object = dict[str, Any]
RELEASE: Final = f"{GROUP}/release"
"""The label that all objects of a release have, and their pods."""
HOOK: Final = "helm.sh/hook"
_LATER: Final = {"pre-upgrade", "post-upgrade", "pre-rollback", "post-rollback", "test", "test-success", "test-failure"}
_WITH_PODS: Final = ("StatefulSet", "Deployment", "Job")
_MOST: Final = 120
_ADVICE: Final = "have the administrator switch it off in the entry's values, or choose another chart"


def without_later_hooks(objects: Sequence[Any]) -> list[Any]:
    """All but what Helm makes at an upgrade, a rollback or a test: releases of experiments have none of these."""
    return [each for each in objects if not (_is_object(each) and (events := _events(each)) and events <= _LATER)]


def _events(made: Object) -> set[str]:
    said = (made["metadata"].get("annotations") or {}).get(HOOK)
    return {each.strip() for each in str(said).split(",")} if said is not None else set()


def check(entry: ListedSystem, objects: Sequence[Any], release: str, namespace: str) -> None:
    """PlatformError for the first object that an entry's chart may not make, or if the brokers are not there."""
    _check_data(entry, objects)
    for made in objects:
        if refused := _refused(entry, made, namespace):
            rule, todo = refused
            raise PlatformError(where=_where(entry), got=_named(made), rule=rule, todo=todo)
    chart = chart_of(entry, release, objects)
    for made in objects:
        try:
            found = broken(chart, made)
        except (AttributeError, TypeError, KeyError):  # text where a map belongs, and the like
            found = "something of another type than Kubernetes has there", "what is rendered can be read"
        if found:
            got = one_line(f"{_named(made)}: {found[0]}")[: 2 * _MOST]
            raise PlatformError(where=_where(entry), got=got, rule=found[1], todo=_ADVICE)
    name, count = entry.brokers_of(release, namespace), entry.brokers.count
    sets = {
        each["metadata"]["name"]: each["spec"].get("replicas", 1) for each in objects if each["kind"] == "StatefulSet"
    }
    if sets.get(name) != count:
        there = ", ".join(f"{each} with {replicas}" for each, replicas in sorted(sets.items())) or "none"
        raise PlatformError(
            where=f"{_where(entry)}: brokers.pod",
            got=f"{name} with {count} brokers; the chart's StatefulSets are: {there}",
            rule="faults and the tester find the brokers by what the entry says of them",
            todo=f"have the administrator write what the chart makes into {LIST}",
        )


def _check_data(entry: ListedSystem, objects: Sequence[Any]) -> None:
    """PlatformError for what is no JSON: YAML has dates, binaries and circles, and an API server has none."""
    try:
        json.dumps(objects)
    except (TypeError, ValueError, RecursionError) as error:
        raise PlatformError(
            where=_where(entry),
            got=f"what is no JSON: {one_line(str(error))[:_MOST]}",
            rule="a chart renders objects as an API server takes them",
            todo="have the chart quote what looks like a date or a time; or choose another chart",
        ) from None


def owned(objects: Sequence[Object], owner: Owner, release: str) -> list[Object]:
    """The same objects, which go with the experiment, and whose pods are found by the release."""
    marks = {LABEL: owner.name, RELEASE: release}
    return [_owned(each, owner, marks) for each in objects]


def _owned(made: Object, owner: Owner, marks: Mapping[str, str]) -> Object:
    owners = [owner.reference] if owner.uid is not None else []
    found = {**made, "metadata": {**_labelled(made.get("metadata"), marks), "ownerReferences": owners}}
    if made["kind"] not in _WITH_PODS:
        return found
    spec = {**made["spec"], "template": {**made["spec"]["template"]}}
    spec["template"]["metadata"] = _labelled(spec["template"].get("metadata"), marks)
    if spec.get("volumeClaimTemplates"):  # claims belong to nobody else
        spec["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    return {**found, "spec": spec}


def _labelled(meta: Any, marks: Mapping[str, str]) -> Object:
    return {**(meta or {}), "labels": {**((meta or {}).get("labels") or {}), **marks}}


def _refused(entry: ListedSystem, made: Any, namespace: str) -> tuple[str, str] | None:
    """Which rule it breaks, and what can be done; None if it may be made."""
    if not _is_object(made):
        return "a chart renders objects with a kind, a name, and maps of labels and annotations", _ADVICE
    kind, meta = made["kind"], made["metadata"]
    if kind not in MADE or made.get("apiVersion") != MADE[kind].api_version:
        return (
            "an entry's chart makes objects of the experiment's namespace only, and gives no right beyond it; "
            f"it may make {', '.join(MADE)}",
            _ADVICE,
        )
    if kind not in entry.objects:
        todo = f"{_ADVICE}; if it is meant, have {kind} put into the entry's objects"
        return f"entry {entry.name} names {', '.join(entry.objects)} as its objects", todo
    if meta.get("namespace", namespace) != namespace:
        return f"everything of an experiment is in its namespace, {namespace}", _ADVICE
    if HOOK in (meta.get("annotations") or {}):
        return "Helm waits for hooks, and nobody takes their objects away", _ADVICE
    if kind == "RoleBinding" and not _binds_here(made, namespace):
        return f"a binding gives a Role of {namespace} to accounts of {namespace}", _ADVICE
    if kind in _WITH_PODS and not _has_template(made.get("spec")):
        return "what makes pods has a template for them, with labels", _ADVICE
    return None


def _has_template(spec: Any) -> bool:
    template = spec.get("template") if isinstance(spec, dict) else None
    return isinstance(template, dict) and _is_labelled(template.get("metadata"))


def _is_object(made: Any) -> bool:
    if not isinstance(made, dict) or not isinstance(made.get("kind"), str) or not _is_labelled(made.get("metadata")):
        return False
    return isinstance(made["metadata"].get("name"), str) and isinstance(made.get("spec", {}), dict)


def _is_labelled(meta: Any) -> bool:
    return isinstance(meta, dict) and all(isinstance(meta.get(key) or {}, dict) for key in ("labels", "annotations"))


def _binds_here(made: Object, namespace: str) -> bool:
    subjects, role = made.get("subjects") or (), made.get("roleRef")
    accounts = all(
        isinstance(each, dict)
        and each.get("kind") == "ServiceAccount"
        and each.get("namespace", namespace) == namespace
        for each in subjects
    )
    return isinstance(role, dict) and role.get("kind") == "Role" and accounts


def _where(entry: ListedSystem) -> str:
    return f"chart {entry.name} {entry.version}"


def _named(made: Any) -> str:
    if not _is_object(made):
        return one_line(str(made))[:_MOST]
    meta = made["metadata"]
    space = f" in {meta['namespace']}" if meta.get("namespace") else ""
    hook = ", a hook" if HOOK in (meta.get("annotations") or {}) else ""
    return one_line(f"{made['kind']} {meta['name']}{space}{hook}")[:_MOST]
