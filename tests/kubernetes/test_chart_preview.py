"""Which rights the operator's chart asks for more with faults on pods of others; Helm renders, no cluster is asked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from testbed.cluster.helm import CHARTS, Helm, Values
from tests.kubernetes.charts import named

CHART: Final = CHARTS / "dedup-operator"


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(CHART, "op", "lab", tmp_path)


def rules(rendered: Sequence[Values]) -> set[str]:
    """All rights, one by one."""
    return {
        f"{verb} {resource} {rule.get('resourceNames', 'any')}"
        for each in rendered
        if each["kind"] == "Role"
        for rule in each["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_preview_of_faults_on_pods_of_others_has_rights_only_if_it_is_on(helm: Helm) -> None:
    """For the finalizer Kubernetes has no right but the one to patch. Of Leases it may write two, by their names."""
    off, on = rules(helm.render({})), rules(helm.render({"allowFaultsOnPodsOfOthers": True}))
    lock = "leases ['op-systems']"
    assert on - off == {"patch dedupexperiments any", f"get {lock}", f"patch {lock}"}
    assert off <= on
    ours = named(helm.render({}), "ConfigMap", "op")["data"]["settings.yaml"]
    assert "allowFaultsOnPodsOfOthers: false" in ours
