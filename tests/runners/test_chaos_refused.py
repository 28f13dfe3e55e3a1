"""What the API server did not answer, or refused, is told in words that help."""

import pytest
from kubernetes.client import ApiException
from urllib3 import HTTPConnectionPool
from urllib3.exceptions import ReadTimeoutError

from dedup.experiment.endpoints import BrokerPod
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
