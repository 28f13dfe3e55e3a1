"""What the operator's chart makes of the administrator's list: accounts and rights of entries. No cluster is asked."""

import json
from pathlib import Path
from typing import Final

import pytest
from testbed.cluster.helm import Helm
from tests.kubernetes.charts import named
from tests.kubernetes.test_chart_operator import CHART, ELSEWHERE, NAMESPACE, RIGHT, S3, VARIANTS, settings
from tests.operator.test_listed import ENTRY, PULSARS

from dedup_operator.objects.listed import MADE, OFFERED

pytestmark = pytest.mark.kubernetes

LIST: Final = VARIANTS["charts of others"]


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(CHART, "op", NAMESPACE, tmp_path)


def test_an_entry_of_the_list_has_an_account_with_what_it_names_and_no_more(helm: Helm) -> None:
    """Every kind that the models know is known to the chart by its name in RBAC; and the operator can take all away."""
    rendered = helm.render(LIST)
    account = named(rendered, "ServiceAccount", "op-system-theirs")
    assert account["metadata"]["namespace"] == NAMESPACE, "the operator's own"
    roles = [each for each in rendered if each["metadata"]["name"] == "op-system-theirs" and each["kind"] == "Role"]
    assert sorted(each["metadata"]["namespace"] for each in roles) == sorted([NAMESPACE, ELSEWHERE])
    records, *given = roles[0]["rules"]
    assert (records["resources"], records["verbs"]) == (["secrets"], ["get", "list", "create", "update", "delete"])
    assert [(each["apiGroups"], each["resources"], each["verbs"]) for each in given] == [
        ([kind.group], [kind.resource], ["get", "create"]) for _, kind in sorted(MADE.items())
    ]
    pulsars = next(
        each for each in rendered if each["metadata"]["name"] == "op-system-apache" and each["kind"] == "Role"
    )
    assert [each["resources"] for each in pulsars["rules"]] == [["secrets"], ["configmaps"], ["statefulsets"], ["pods"]]
    assert pulsars["rules"][-1] == RIGHT
    mine = next(each for each in rendered if (each["kind"], each["metadata"]["name"]) == ("Role", "op"))["rules"]
    for kind in MADE.values():
        rules = [each for each in mine if kind.group in each["apiGroups"] and kind.resource in each["resources"]]
        assert any("delete" in each["verbs"] for each in rules), kind


def test_tokens_are_of_entries_accounts_by_their_names(helm: Helm) -> None:
    (tokens,) = [
        each
        for each in named(helm.render(LIST), "Role", "op-lease")["rules"]
        if each["resources"] == ["serviceaccounts/token"]
    ]
    assert (tokens["resourceNames"], tokens["verbs"]) == (["op-system-theirs", "op-system-apache"], ["create"])


def test_without_a_list_nobody_has_more_rights_than_before(helm: Helm) -> None:
    assert "op-system" not in json.dumps(helm.render({})) and "serviceaccounts/token" not in json.dumps(helm.render({}))


def test_the_charts_schema_knows_what_the_models_know_of_entries() -> None:
    system = json.loads((CHART / "values.schema.json").read_text())["definitions"]["system"]["properties"]
    assert system["objects"]["items"]["enum"] == [*MADE]
    assert system["faults"]["items"]["enum"] == [*OFFERED]


def test_the_operator_reads_the_list_as_it_was_written(helm: Helm) -> None:
    rendered = helm.render(LIST)
    told = settings(rendered, artifacts={"s3": S3}).systems
    assert [(each.name, each.digest) for each in told] == [(each["name"], each["digest"]) for each in (ENTRY, PULSARS)]
    pod = named(rendered, "Deployment", "op")["spec"]["template"]["spec"]
    (charts,) = [each for each in pod["volumes"] if each["name"] == "charts"]
    assert charts["configMap"] == {"name": "archives"}
    assert {"name": "charts", "mountPath": "/usr/local/dedup/listed", "readOnly": True} in pod["containers"][0][
        "volumeMounts"
    ]
