"""The server that tests share: started for them, or the one that the user names."""

from pathlib import Path

import kubernetes
import pytest
from tests.kubernetes.cluster.api_servers import VARIABLE, ApiServer, named


@pytest.mark.kubernetes
def test_the_shared_server_answers(api_server: ApiServer) -> None:
    assert api_server.kubeconfig.is_file()
    with api_server.client() as client:
        assert kubernetes.client.CoreV1Api(client).read_namespace("default").status.phase == "Active"


def test_a_cluster_that_the_user_names_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "~/elsewhere/kubeconfig")
    assert named() == ApiServer(Path.home() / "elsewhere" / "kubeconfig")
    monkeypatch.delenv(VARIABLE)
    assert named() is None
