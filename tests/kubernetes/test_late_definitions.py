"""An operator that was installed before the definition of its resource: it says so, and begins when that comes.

It is the operator's own program before an API server of its own, which knows neither kind at first.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx
import pytest
import yaml
from testbed.cluster import api_servers, control_plane
from testbed.cluster.api_servers import ApiServer
from testbed.played import DEFINITIONS, OURS, SPARK_DEFINITION, SPARKS, PlayedCluster, new_namespace
from testbed.requests import apply, ask
from testbed.specs import changed
from testbed.worlds import STORE
from tests.operator.test_reconciliations import SMALL

from dedup.errors import EnvironmentError_
from dedup_lab.systems.ports import free
from dedup_operator.clusters import path_of
from dedup_operator.schema import crd
from dedup_runners.waiting import until

pytestmark = pytest.mark.kubernetes

BOUND_S: Final = 60.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    """One that nobody has told of our kinds."""
    try:
        control_plane.check_machine()
    except EnvironmentError_ as error:
        pytest.skip(str(error))
    (tmp_path / "control-plane").mkdir()
    with control_plane.running(tmp_path / "control-plane") as plane:
        yield plane.api_server


def test_it_is_not_ready_and_begins_to_watch_when_the_definition_comes(server: ApiServer, tmp_path: Path) -> None:
    with server.client() as client, ExitStack() as ended:
        assert ask(client, "GET", DEFINITIONS)[1]["items"] == []
        cluster = PlayedCluster(client)
        namespace = new_namespace(cluster)
        port, _ = started(server, namespace, tmp_path, ended)
        address = f"http://127.0.0.1:{port}"

        def says(path: str) -> int:
            try:
                return httpx.get(f"{address}{path}", trust_env=False).status_code
            except httpx.HTTPError:
                return 0

        until(lambda: says("/healthz") == 200, BOUND_S, "the operator is alive", 0.2)
        refused = httpx.get(f"{address}/readyz", trust_env=False)
        assert refused.status_code == 503 and "DedupExperiment" in refused.text
        apply(client, OURS, crd.definition())
        apply(client, SPARKS, yaml.safe_load(SPARK_DEFINITION))
        until(lambda: says("/readyz") == 200, BOUND_S, "the operator is ready", 0.2)
        path = path_of(crd.KIND, namespace)
        until(lambda: ask(client, "POST", path, changed(*SMALL))[0] == 201, BOUND_S, "it is applied", 0.2)

        def seen() -> bool:
            found = cluster.get(crd.KIND, namespace, "e") or {}
            return bool((found.get("status") or {}).get("conditions"))

        until(seen, BOUND_S, "the experiment has a condition", 0.2)


def started(
    server: ApiServer, namespace: str, folder: Path, ended: ExitStack, lease: Sequence[str] = ("--no-lease",)
) -> tuple[int, subprocess.Popen[bytes]]:
    """The operator, until the end of the block at most; the port at which it answers."""
    settings = {"artifacts": {"s3": {"bucket": "results", "secret": STORE}}}
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    (port,) = free(1)
    command = [sys.executable, "-m", "dedup_operator", "--namespace", namespace, *lease, "--port", str(port)]
    command += ["--settings", str(folder / "settings.yaml")]
    environment = {**os.environ, **api_servers.direct(), "KUBECONFIG": str(server.kubeconfig)}
    log = ended.enter_context((folder / "operator.log").open("wb"))
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def end() -> None:
        process.terminate()
        process.wait(BOUND_S)

    ended.callback(end)
    return port, process
