"""How the operator's chart has the store know our pods: by annotations that a cloud reads, or by a token they show."""

from pathlib import Path

import pytest
from testbed.cluster.helm import Helm
from tests.kubernetes.test_chart_operator import CHART, IDENTITY, settings

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(CHART, "op", "lab", tmp_path)


def test_pods_have_an_identity_instead_of_keys_where_the_administrator_says_so(helm: Helm) -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/dedup"}
    told = settings(helm.render({"settings": {"artifacts": {"s3": {"bucket": "b"}}, "accountAnnotations": role}}))
    assert told.account_annotations == role
    assert told.artifacts.s3 is not None and told.artifacts.s3.secret is None


def test_or_show_the_store_a_token_of_their_account(helm: Helm) -> None:
    said = {**IDENTITY, "stsEndpoint": "https://sts.example:4223/sts/tenant"}
    told = settings(helm.render({"settings": {"artifacts": {"s3": {"bucket": "b", "webIdentity": said}}}}))
    assert told.artifacts.s3 is not None and told.artifacts.s3.web_identity is not None
    assert told.artifacts.s3.web_identity.model_dump(by_alias=True) == said
