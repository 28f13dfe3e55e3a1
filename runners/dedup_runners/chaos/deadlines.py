"""NetworkPolicies that outlive their fault are removed by this program, which needs nobody else to live.

A policy of ours carries its deadline in an annotation, in seconds since 1970. The fault removes it at its end. If the
fault's process is dead by then, a Job that runs `python -m dedup_runners.chaos.deadlines NAMESPACE SECONDS RUN COUNT`
does: for SECONDS it looks at the policies that carry our label, and removes those that are past their deadline. It may
be any experiment's: no policy is right to stay beyond its deadline. It needs `list` and `delete` on networkpolicies.

It ends before its time when the COUNT policies that pods of the Job RUN make have been seen, and are gone. One that
comes and goes between two looks is not seen; then it stays for its whole time, which costs memory and nothing else.
"""

import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

LABEL: Final = "dedup.dev/fault"
DEADLINE: Final = "dedup.dev/deadline"
LOOK_EVERY_S: Final = 1.0


def overdue(policies: Iterable[Mapping[str, Any]], now_unix_s: float) -> list[str]:
    """The names of the policies that are past their deadline; one that does not tell it is."""
    names = []
    for policy in policies:
        metadata = policy["metadata"]
        text = (metadata.get("annotations") or {}).get(DEADLINE, "")
        if not text.isdecimal() or int(text) <= now_unix_s:
            names.append(metadata["name"])
    return names


def over(policies: Iterable[Mapping[str, Any]], run: str, count: int, seen: set[str]) -> bool:
    """Whether all `count` policies that pods of the Job `run` make have come and gone.

    Its pod owns such a policy, and a pod is called as its Job, with an ending. `seen` gets the names of those that are
    there.
    """
    there = {
        policy["metadata"]["name"]
        for policy in policies
        for owner in policy["metadata"].get("ownerReferences") or ()
        if owner["kind"] == "Pod" and owner["name"].rpartition("-")[0] == run
    }
    seen |= there
    return len(seen) >= count and not there


def main(namespace: str, for_s: float, run: str, count: int) -> None:
    """Look once a second for so long, or until nothing can come any more; one that does not answer is asked again."""
    from kubernetes.client import ApiClient, ApiException, NetworkingV1Api
    from kubernetes.config import load_incluster_config
    from urllib3.exceptions import HTTPError

    load_incluster_config()
    client, end = ApiClient(), time.monotonic() + for_s
    networking, seen = NetworkingV1Api(client), set[str]()
    while time.monotonic() < end:
        try:
            listed = networking.list_namespaced_network_policy(namespace, label_selector=LABEL, _request_timeout=10)
            policies = client.sanitize_for_serialization(listed)["items"]
            if over(policies, run, count, seen):
                print(f"{namespace}: the {count} policies of {run} are gone", flush=True)
                return
            for name in overdue(policies, time.time()):
                networking.delete_namespaced_network_policy(name, namespace, _request_timeout=10)
                print(f"{namespace}/{name}: past its deadline, removed", flush=True)
        except (ApiException, HTTPError) as error:
            print(f"{namespace}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr, flush=True)
        time.sleep(LOOK_EVERY_S)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
