"""chaostoolkit-kubernetes' published pod deletion, as it is, before an API server of words.

The server has one pod, which is gone for a while after it was deleted, and then another one that is ready. The whole
way, in a real cluster: tests/kubernetes/test_own_experiments_cluster.py.
"""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from tests.runners.test_chaos_own_experiments import SYSTEM, experiment, played, removing

from dedup.errors import PlatformError
from dedup.experiment.endpoints import BrokerPod
from dedup.faults.records import lives_ended, vacuous
from dedup_runners.chaos.faults import chaos as deeds
from dedup_runners.chaos.sites.outside import Outside

pytestmark = pytest.mark.long

EXPERIMENT: Final = Path(__file__).parents[2] / "examples" / "chaos" / "pod-deletion.json"
NAMESPACE: Final = "lab"
POD: Final = "k-1"
GONE_S: Final = 1.5


class Pods(ThreadingHTTPServer):
    """The API server: one pod of a StatefulSet, and what was asked of it."""

    daemon_threads = True

    def __init__(self, *, forbidden: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.forbidden, self.deleted_s, self.deleted = forbidden, 0.0, list[str]()

    def pods(self, selector: str) -> list[dict[str, Any]]:
        if selector != f"statefulset.kubernetes.io/pod-name={POD}":
            return []
        if self.deleted_s and time.monotonic() < self.deleted_s + GONE_S:
            return []
        conditions = [{"type": "Ready", "status": "True"}]
        return [{"metadata": {"name": POD, "namespace": NAMESPACE}, "status": {"conditions": conditions}}]


class Asked(BaseHTTPRequestHandler):
    """One question to the API server."""

    server: Pods

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        assert address.path == f"/api/v1/namespaces/{NAMESPACE}/pods"
        (selector,) = parse_qs(address.query)["labelSelector"]
        self._answer(200, {"kind": "PodList", "apiVersion": "v1", "items": self.server.pods(selector)})

    def do_DELETE(self) -> None:
        if self.server.forbidden:
            self._answer(403, {"kind": "Status", "message": "may not delete pods"})
            return
        self.server.deleted_s = time.monotonic()
        self.server.deleted.append(self.path)
        self._answer(200, {"kind": "Pod", "metadata": {"name": POD, "namespace": NAMESPACE}})

    def _answer(self, code: int, said: dict[str, Any]) -> None:
        text = json.dumps(said).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_told: object) -> None:
        """It is asked five times a second."""


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pods]:
    """The server, which the environment names as a user's does: by a kubeconfig."""
    with Pods() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        at = {"server": f"http://127.0.0.1:{server.server_port}"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": at}],
            "users": [{"name": "me", "user": {}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        }
        (path := tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(path))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setenv("DEDUP_NAMESPACE", NAMESPACE)
        monkeypatch.setenv("DEDUP_LEADER_POD", POD)
        yield server
        server.shutdown()


def test_it_runs_unchanged_and_its_own_probe_shows_that_the_pod_was_gone(api: Pods, tmp_path: Path) -> None:
    record, lines = played(tmp_path, json.loads(EXPERIMENT.read_text()), "120s")
    assert [line["event"] for line in lines] == ["injecting", "injected", "effect", "cleared"]
    assert api.deleted == [f"/api/v1/namespaces/{NAMESPACE}/pods/{POD}"]
    assert (record.target_witness["probe"], record.target_witness["output"]) == ("the-leaders-pod-is-ready", "False")
    assert "no client noticed" in (vacuous(record) or ""), "all that is missing is the client"


def test_one_that_may_delete_nothing_is_an_error_and_no_effect(
    api: Pods, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.forbidden = True
    monkeypatch.setattr(deeds, "SHOWS_S", 0.5)
    with pytest.raises(PlatformError, match="terminate-the-leaders-pod failed"):
        played(tmp_path, json.loads(EXPERIMENT.read_text()), "120s")
    assert not api.deleted
    assert "held all the while" in (tmp_path / "faults.jsonl").read_text()


def test_in_pods_it_finds_the_leaders_pod_and_uses_the_pods_account() -> None:
    pods = [
        each.model_copy(update={"pod": BrokerPod(namespace="lab", name=f"k-{each.id}", container="broker")})
        for each in SYSTEM.brokers
    ]
    told = deeds._in_pods(SYSTEM.model_copy(update={"brokers": pods}), "2")
    assert told == {"CHAOSTOOLKIT_IN_POD": "true", "DEDUP_NAMESPACE": "lab", "DEDUP_LEADER_POD": "k-2"}
    assert deeds._in_pods(SYSTEM, "2") == {}, "on one machine there is none"


def test_lives_of_brokers_that_ended_meanwhile_are_its_doing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the run would be an error: a broker that died by itself. And twin: where none ended, none is counted."""
    (flag := tmp_path / "flag").touch()
    for folder, ended, counted in (("one", iter([4, 5]), 1), ("none", iter([4, 4]), 0)):
        (place := tmp_path / folder).mkdir()
        monkeypatch.setattr(Outside, "exits", lambda _self, told=ended: next(told))
        record, _ = played(place, experiment(flag, removing(flag)))
        assert lives_ended([record]) == counted
        kill = record.model_copy(
            update={"name": "kill", "kind": "kill", "target_witness": {"pid": 7, "exit_code": 137}}
        )
        assert lives_ended([kill, record]) == 1, "if more have ended, whose they are is not known"
