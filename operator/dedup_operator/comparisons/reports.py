"""What the status of a comparison says, for people and for tools, and the ConfigMap with its table.

| the comparison | Ready | Reconciling | Stalled | Finished | Succeeded |
| --- | --- | --- | --- | --- | --- |
| none yet | False | True | False | False | Unknown |
| none, and people have to correct something | False | False | True | False | Unknown |
| NothingWorse | True | False | False | True, NothingWorse | True |
| Worse | False | False | True | True, Worse | False |
| Inconclusive | False | False | True | True, Inconclusive | False |

As with an experiment, only the good end is Ready, so that no gate opens on a comparison that showed nothing.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from dedup.judgement.abridgements import Sealed
from dedup.judgement.comparison_texts import markdown
from dedup.judgement.comparisons import Comparison
from dedup_operator.clusters import Object
from dedup_operator.comparison_statuses import ClusterStatus, ComparisonStatus, Outcome, TableStatus
from dedup_operator.comparisons.decisions import Plan, finished
from dedup_operator.conditions import Said, written, written_time
from dedup_operator.objects.events import MAX_MESSAGE
from dedup_operator.schema.comparison_crd import KIND
from dedup_operator.schema.crd import GROUP, VERSION

_KEPT: Final = "summary-"
COMPARING: Final = "Comparing"


def status_of(
    plan: Plan,
    before: ComparisonStatus,
    *,
    generation: int,
    digest: str,
    table: str,
    kept: Mapping[str, Sealed],
    now: datetime,
) -> ComparisonStatus:
    """The whole status after a step; `table` is the ConfigMap's name."""
    over = sum(finished(each, kept) for each in plan.clusters)
    progress = f"{over}/{len(plan.clusters)} clusters"
    return ComparisonStatus(
        observed_generation=generation,
        digest=digest,
        progress=progress,
        outcome=plan.outcome,
        clusters=list(plan.clusters),
        table=TableStatus(config_map=table) if plan.table else None,
        conditions=written(_conditions(plan, progress), before.conditions, generation, now),
    )


def stalled(before: ComparisonStatus, generation: int, why: str, now: datetime) -> ComparisonStatus:
    """The status of a comparison that cannot go on until people correct something. Where it stands is not lost."""
    said = written(_goes_on("", why), before.conditions, generation, now)
    return before.model_copy(update={"observed_generation": generation, "conditions": said})


def _conditions(plan: Plan, progress: str) -> Iterator[Said]:
    if plan.outcome is None:
        words = "; ".join(_words(each) for each in plan.clusters)
        yield from _goes_on(f"{progress}: {words}", plan.stalls)
        return
    good, why = plan.outcome is Outcome.NOTHING_WORSE, plan.why
    reason = plan.outcome.value
    yield "Ready", "True" if good else "False", reason, why
    yield "Reconciling", "False", "Finished", "nothing is left to do"
    yield "Stalled", "False" if good else "True", reason, why
    yield "Finished", "True", reason, why
    yield "Succeeded", "True" if good else "False", reason, why


def _goes_on(words: str, stalls: str) -> Iterator[Said]:
    reason = "Stalled" if stalls else COMPARING
    said = stalls or words
    yield "Ready", "False", reason, said
    yield "Reconciling", "False" if stalls else "True", reason, said
    yield "Stalled", "True" if stalls else "False", reason, stalls or "it goes on"
    yield "Finished", "False", reason, said
    yield "Succeeded", "Unknown", reason, "nothing is compared yet"


def _words(status: ClusterStatus) -> str:
    said = [status.progress or "", status.message]
    return f"{status.name} {status.step.value}" + "".join(f", {each}" for each in said if each)


def reference(name: str, uid: str) -> Object:
    """By which Kubernetes knows that an object goes when the comparison goes."""
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "name": name, "uid": uid}


def home(namespace: str, name: str, uid: str, data: Mapping[str, str]) -> Object:
    """The ConfigMap of a comparison: summaries that have come, and in the end the table."""
    labels = {"app.kubernetes.io/name": "dedup", "app.kubernetes.io/part-of": "dedup", f"{GROUP}/comparison": name}
    owners = [reference(name, uid)]
    meta = {"name": home_name(name), "namespace": namespace, "labels": labels, "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}


def home_name(name: str) -> str:
    return f"{name}-comparison"


def packed(kept: Mapping[str, Sealed]) -> dict[str, str]:
    """Summaries as they are kept there."""
    return {f"{_KEPT}{name}": each.model_dump_json() for name, each in kept.items()}


def unpacked(data: Mapping[str, Any]) -> dict[str, Sealed]:
    """The summaries that are there; what is none is not there."""
    found = {}
    for key, text in data.items():
        if key.startswith(_KEPT):
            try:
                found[key.removeprefix(_KEPT)] = Sealed.model_validate_json(str(text))
            except ValueError:
                continue
    return found


def table(comparison: Comparison) -> dict[str, str]:
    """The comparison for people and for programs."""
    text = "\n".join(markdown(comparison)) + "\n"
    return {"comparison.md": text, "comparison.json": json.dumps(comparison.model_dump(mode="json"))}


def decoded(given: str) -> str:
    """The text of a key of a Secret; what is no text has no kubeconfig in it."""
    try:
        return base64.b64decode(given).decode()
    except ValueError:
        return ""


def event(meta: Object, reason: str, message: str, now: datetime) -> Object:
    """A warning about a comparison, once of each reason."""
    when = written_time(now)
    about = {**reference(meta["name"], meta["uid"]), "namespace": meta["namespace"]}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{reason.lower()}.{meta['uid']}", "namespace": meta["namespace"]},
        "involvedObject": about,
        "type": "Warning",
        "reason": reason,
        "message": message[:MAX_MESSAGE],
        "source": {"component": "dedup-operator"},
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
    }
