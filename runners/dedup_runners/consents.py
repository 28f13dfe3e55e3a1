"""The brokers' pods of a system that is there already, proven anew for each run (`dedup.experiment.consents`).

The conductor asks the API server for the pods that the experiment's selector names, as the run's account, and looks the
brokers' advertised hosts up. A pod that was replaced a moment ago may have an address that the cluster's DNS does not
tell yet: so it is asked for a while.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dedup.errors import PlatformError
from dedup.experiment.consents import Candidate, consenting, living, placed
from dedup.experiment.endpoints import Endpoints
from dedup.experiment.spec import Spec, System
from dedup_runners.admins.discoveries import addresses_of
from dedup_runners.waiting import WaitedTooLong, until

PLACED_S: Final = 90.0
AGAIN_S: Final = 1.0
NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
CALL_TIMEOUT_S: Final = 10.0
Found = Callable[[str], list[Candidate]]
"""The pods of this namespace with those labels, but for those that have ended or are about to go."""


def in_pods(endpoints: Endpoints, system: System, spec: Spec, pods: Found, within_s: float = PLACED_S) -> Endpoints:
    """The system with its brokers' pods, if faults strike them; PlatformError if one may not be, or is not proven."""
    faults = [each.given for each in spec.all_faults if each.given.on_consent]
    if system.existing is None or system.existing.pod_selector is None or not faults:
        return endpoints
    selector, problem = system.existing.pod_selector.written, None

    def proven() -> Endpoints | None:
        nonlocal problem
        try:
            found = pods(selector)
            containers = consenting(selector, found, faults)
            names = placed({each.id: addresses_of(each.host) for each in endpoints.brokers}, found)
        except PlatformError as error:
            problem = error
            return None
        brokers = [each.model_copy(update={"pod": containers[names[each.id]]}) for each in endpoints.brokers]
        return endpoints.model_copy(update={"brokers": brokers})

    try:
        found = until(proven, within_s, "each broker's pod to be proven", AGAIN_S)
    except WaitedTooLong:
        assert problem is not None
        raise problem from None
    assert found is not None
    return found


def pods_here(selector: str) -> list[Candidate]:
    """The living pods of our own namespace with those labels, by our service account. Right: `list` on pods."""
    from kubernetes.client import ApiClient, ApiException, CoreV1Api
    from kubernetes.config import load_incluster_config
    from urllib3.exceptions import HTTPError

    load_incluster_config()
    namespace = NAMESPACE_FILE.read_text().strip()
    bound: dict[str, Any] = {"_request_timeout": CALL_TIMEOUT_S, "_preload_content": False}
    try:
        said = CoreV1Api(ApiClient()).list_namespaced_pod(namespace, label_selector=selector, **bound)
        return living(json.loads(said.data)["items"])
    except (ApiException, HTTPError) as error:
        raise PlatformError(
            where=f"pods {selector}",
            got=f"{getattr(error, 'status', '')} {getattr(error, 'reason', error)}",
            rule="whoever strikes brokers in pods must be able to look at them",
            todo="give the run's service account `list` on pods",
        ) from None
