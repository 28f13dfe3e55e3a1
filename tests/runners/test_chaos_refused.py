"""What the API server did not answer, or refused, is told in words that help."""

from typing import Any

import pytest
from kubernetes.client import ApiClient, ApiException
from urllib3 import HTTPConnectionPool
from urllib3.exceptions import ReadTimeoutError

from dedup.errors import PlatformError
from dedup.experiment.endpoints import BrokerPod
from dedup_runners.chaos.clusters import ApiCluster
from dedup_runners.chaos.containers import refused


@pytest.mark.parametrize(
    ("error", "said", "unsaid"),
    [
        (ReadTimeoutError(HTTPConnectionPool("h"), "/", "timed out"), "busy", "`get`"),
        (ApiException(429), "busy", "`get`"),
        (ApiException(503), "busy", "`get`"),
        (ApiException(403), "`get`", "busy"),
    ],
    ids=["silence", "too many requests", "a defect of its own", "a refusal"],
)
def test_who_is_silent_has_not_refused(error: Exception, said: str, unsaid: str) -> None:
    words = str(refused(BrokerPod(namespace="here", name="p", container="kafka"), error))
    assert said in words and unsaid not in words


@pytest.mark.parametrize(
    ("status", "said", "unsaid"),
    [(429, "busy", "service account"), (503, "busy", "service account"), (403, "service account", "busy")],
)
def test_so_is_who_is_asked_to_delete_a_pod_or_to_cut_it_off(
    status: int, said: str, unsaid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it says, its own words are told: they name the right that is missing, or who did not answer."""

    def call_api(*_: Any, **__: Any) -> None:
        error = ApiException(status, "No")
        error.body = '{"message": "its own words"}'
        raise error

    client = ApiClient()
    monkeypatch.setattr(client, "call_api", call_api)
    with pytest.raises(PlatformError) as told:
        ApiCluster(client).remove_policy("here", "cut")
    words = str(told.value)
    assert said in words and unsaid not in words and "its own words" in words
