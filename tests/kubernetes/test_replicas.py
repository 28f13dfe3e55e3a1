"""Two operators as `replicas: 2` has them: both are ready, one acts, and the other one does when that one is lost.

They are the operator's own program, twice, before one API server. What a lease promises in every order of events,
tests/operator/test_leases.py and test_fences.py say; here it is real processes, one of which is killed.
"""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx
import pytest
from testbed.cluster.api_servers import ApiServer
from testbed.played import namespace_on, playing
from testbed.requests import ask
from testbed.specs import changed
from tests.kubernetes.test_late_definitions import BOUND_S, started
from tests.operator.test_reconciliations import SMALL

from dedup_operator.clusters import path_of
from dedup_operator.leases import DURATION_S
from dedup_operator.schema import crd
from dedup_runners.waiting import until

pytestmark = pytest.mark.kubernetes

LEASE: Final = re.compile(r"^dedup_operator_lease_held (\S+)$", re.MULTILINE)


def answer(port: int, path: str) -> tuple[int, str]:
    try:
        said = httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False)
    except httpx.HTTPError:
        return 0, ""
    return said.status_code, said.text


def holds(port: int) -> bool:
    found = LEASE.search(answer(port, "/metrics")[1])
    return found is not None and float(found[1]) == 1.0


def test_of_two_replicas_both_are_ready_one_acts_and_the_other_takes_over(
    api_server: ApiServer, tmp_path: Path
) -> None:
    with playing(api_server) as cluster, namespace_on(cluster) as namespace, ExitStack() as ended:
        lease = ("--lease", "op", "--lease-namespace", namespace)
        operators = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            operators.append(started(api_server, namespace, tmp_path / name, ended, lease))
        ports = [port for port, _ in operators]
        ready = "both are ready, whoever acts: else an upgrade one by one would wait for ever"
        until(lambda: [answer(port, "/readyz")[0] for port in ports] == [200, 200], BOUND_S, ready, 0.2)
        until(lambda: [holds(port) for port in ports].count(True) == 1, BOUND_S, "one of them acts", 0.2)
        (first, killed), (second, _) = sorted(operators, key=lambda each: not holds(each[0]))
        killed.kill()
        killed.wait(BOUND_S)
        until(lambda: holds(second), DURATION_S + BOUND_S, "the other one acts", 0.2)
        assert answer(first, "/readyz")[0] == 0
        status, said = ask(cluster.client, "POST", path_of(crd.KIND, namespace), changed(*SMALL))
        assert status == 201, said["message"]

        def seen() -> bool:
            found = cluster.get(crd.KIND, namespace, "e") or {}
            return bool((found.get("status") or {}).get("conditions"))

        until(seen, BOUND_S, "an experiment is looked at", 0.2)
