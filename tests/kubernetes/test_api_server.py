"""The server that tests share: started for them, or the one that the user names."""

from pathlib import Path

import kubernetes
import pytest
from testbed.cluster.api_servers import VARIABLE, ApiServer, direct, named


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


def test_no_proxy_stands_between_programs_and_a_cluster_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("no_proxy", "theirs.example")
    assert direct() == dict.fromkeys(("NO_PROXY", "no_proxy"), "theirs.example,127.0.0.0/8,198.18.0.0/15")
    monkeypatch.delenv("no_proxy")
    assert direct()["NO_PROXY"] == "127.0.0.0/8,198.18.0.0/15"
