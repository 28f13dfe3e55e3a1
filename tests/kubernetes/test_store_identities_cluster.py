"""Whole experiments whose store knows them by no lasting key: by a token of the pods' accounts, or by lent keys.

Each has its twin, which the store denies: a token for another audience; the same two keys without their session token.
All four go on side by side, on one Kafka that is there already.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import yaml
from testbed.cluster.addons.object_store import AUDIENCE, role
from testbed.cluster.clusters import Cluster
from tests.kubernetes import operated
from tests.kubernetes.lent_keys import lent
from tests.kubernetes.operated import Document, Operated
from tests.kubernetes.test_disasters_cluster import Shared, replaced
from tests.lab import harness

from dedup_operator.objects.names import Owner
from dedup_operator.objects.settings import SESSION_KEY
from dedup_operator.objects.systems import release_of
from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster

MESSAGES: Final = 20_000
BEGUN_S: Final = 300.0
DENIED: Final = {"verify": "60s"}
"""Of experiments that are to be denied: verification and report try again and again."""
KNOWN: Final = "identity"
UNKNOWN: Final = "another-audience"
LENT: Final = "lent-keys"
STRIPPED: Final = "no-session-token"


def settings(operator: Operated, audience: str) -> dict[str, Any]:
    """The administrator's: a store that knows pods by tokens for that audience."""
    s3 = operator.place.settings.artifacts.s3
    assert s3 is not None
    store = {"bucket": s3.bucket, "prefix": s3.prefix, "endpoint": s3.endpoint}
    identity = {"audience": audience, "role": role()}
    charts = operator.place.settings.charts
    return {"charts": charts, "artifacts": {"s3": {**store, "webIdentity": identity}}}


def calm(shared: Shared, name: str, secret: str | None = None, **timeouts: str) -> Document:
    """One run without a fault, kept in the administrator's store, or in the same by the keys in a Secret."""
    document = shared.document(name)
    spec = document["spec"]
    spec["workload"]["messages"] = MESSAGES
    spec |= {"faults": [], "timeouts": timeouts}
    if secret is None:
        del spec["artifacts"]
        spec["verification"] = {"engine": "Local"}
    else:
        spec["artifacts"]["s3"]["secretRef"] = {"name": secret}
    return document


def secret(name: str, keys: dict[str, str]) -> str:
    meta = {"name": name, "labels": {"dedup.dev/use": "true"}}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": keys})


@pytest.fixture(scope="module")
def shared(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """A Kafka, and an operator beside it whose store knows its pods by their accounts."""
    with operated.at(cluster, tmp_path_factory.mktemp("operator"), ["kafka"]) as operator:
        with replaced(operator):
            operator.install(settings=settings(operator, AUDIENCE))
        deployed = harness.experiment(harness.document("kafka-kill-leader"))
        (system,) = deployed.spec.systems
        helm = operator.place.install(deployed, system)
        yield Shared(operator, f"{release_of(Owner(operator.place.namespace, deployed.name), system)}-brokers:9092")
        helm.uninstall()


@pytest.fixture(scope="module")
def begun(shared: Shared) -> Operated:
    """All four have begun, each with the settings of then."""
    operator = shared.operator
    operator.apply(calm(shared, KNOWN))
    with operator.store_here() as url:
        keys = dict(lent(url))
    operator.place.apply(secret(LENT, keys))
    del keys[SESSION_KEY]
    operator.place.apply(secret(STRIPPED, keys))
    operator.apply(calm(shared, LENT, LENT))
    operator.apply(calm(shared, STRIPPED, STRIPPED, **DENIED))
    until(lambda: operator.run_pods(KNOWN), BEGUN_S, "the run has a pod", 0.5)
    with replaced(operator):
        operator.install(settings=settings(operator, f"another.{AUDIENCE}"))
    operator.apply(calm(shared, UNKNOWN, **DENIED))
    return operator


def ended(operator: Operated, name: str, tell: Callable[[str], None]) -> tuple[str, str]:
    """The verdict, and all that the conditions say."""
    status = operator.verdict(name)
    words = "; ".join({str(each["message"]): None for each in status["conditions"]})
    tell(f"{name}: {status['verdict']}: {words[:600]}")
    return status["verdict"], words


def test_pods_that_are_known_by_their_account_need_no_key(begun: Operated, tell: Callable[[str], None]) -> None:
    verdict, words = ended(begun, KNOWN, tell)
    assert verdict == "Pass", words
    made = json.dumps(begun.run_pods(KNOWN))
    assert role() in made and f'"{AUDIENCE}"' in made and "AWS_ACCESS_KEY_ID" not in made


def test_a_token_for_another_audience_ends_in_the_stores_words(begun: Operated, tell: Callable[[str], None]) -> None:
    verdict, words = ended(begun, UNKNOWN, tell)
    assert verdict == "Error", words
    assert "AssumeRoleWithWebIdentity" in words and "must match configured OpenID Client ID" in words
    assert f'"another.{AUDIENCE}"' in json.dumps(begun.run_pods(UNKNOWN))


def test_keys_that_are_lent_will_do(begun: Operated, tell: Callable[[str], None]) -> None:
    verdict, words = ended(begun, LENT, tell)
    assert verdict == "Pass", words


def test_but_not_without_their_session_token(begun: Operated, tell: Callable[[str], None]) -> None:
    verdict, words = ended(begun, STRIPPED, tell)
    assert verdict == "Error", words
    assert "security token included in the request is invalid" in words
