"""The charts of the systems as Helm renders them and as an API server takes them: what all have in common.

No pod is started here: what a chart does when it runs is test_charts_cluster.py's. What one chart alone has is in the
file of its name. Strimzi's operator makes the pods of its chart, so its objects are tried in test_chart_strimzi.py.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kubernetes.client import ApiClient, CoreV1Api
from kubernetes.utils import FailToCreateError
from testbed.cluster.api_servers import ApiServer
from testbed.cluster.helm import Helm, Refused, Values
from tests.kubernetes.charts import KAFKA, PULSAR, RANKED, STAYS, STRIMZI, TLS, Chart, dry_run, pods_of

from dedup_operator.provision import helm, strimzi

pytestmark = pytest.mark.kubernetes

EVERY: Final = (KAFKA, PULSAR, STRIMZI)
OF_OURS: Final = (KAFKA, PULSAR)
"""The charts that make pods themselves."""
CHANGE: Final[dict[str, Values]] = {"kafka": {"heapMiB": 300}, "pulsar": {"deduplication": "Enabled"}}
NOTES: Final = {
    "kafka": (
        "127.0.0.1:39092,127.0.0.1:39093,127.0.0.1:39094",
        "kubectl delete pod --namespace {} --selector app.kubernetes.io/instance=k",
    ),
    "pulsar": (
        "pulsar+ssl://127.0.0.1:36650,127.0.0.1:36651,127.0.0.1:36652",
        "kubectl -n {} delete pod -l app.kubernetes.io/instance=rel",
    ),
}


def name_of(chart: Chart) -> str:
    return chart.name


def variants(*charts: Chart) -> pytest.MarkDecorator:
    cases = [(chart, name, values) for chart in charts for name, values in chart.variants.items()]
    return pytest.mark.parametrize(
        ("chart", "values"), [pytest.param(chart, values, id=f"{chart.name}-{name}") for chart, name, values in cases]
    )


@pytest.fixture
def installed(chart: Chart, namespace: str, api_server: ApiServer, tmp_path: Path) -> Iterator[Helm]:
    with chart.installed(tmp_path, namespace, api_server) as release:
        yield release


@variants(*EVERY)
def test_the_chart_is_sound(chart: Chart, values: Values, tmp_path: Path) -> None:
    assert "0 chart(s) failed" in chart.helm(tmp_path).lint(values)


PARTS: Final = {"kafka": helm.PARTS, "pulsar": helm.PARTS, "strimzi-kafka": strimzi.PARTS}
OWNER: Final = {"name": "trial", "uid": "11111111-2222-3333-4444-555555555555"}


@variants(*EVERY)
def test_the_operator_finds_every_part_of_its_release(chart: Chart, values: Values, tmp_path: Path) -> None:
    """By kind, label and owner: it takes them away by itself (decision 143)."""
    for made in chart.helm(tmp_path, release="r").render({**values, "owner": OWNER}):
        meta = made["metadata"]
        if "helm.sh/hook" in meta.get("annotations", {}):
            continue  # of `helm test`, which the operator does not ask for
        assert made["kind"] in PARTS[chart.name]
        assert meta["labels"]["app.kubernetes.io/instance"] == "r"
        assert [each["uid"] for each in meta["ownerReferences"]] == [OWNER["uid"]], made["kind"]


@pytest.mark.parametrize(
    ("chart", "values", "words"),
    [
        pytest.param(chart, values, words, id=f"{chart.name}-{json.dumps(values)}")
        for chart in EVERY
        for values, words in chart.wrong
    ],
)
def test_a_wrong_value_is_refused_by_name(chart: Chart, values: Values, words: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="values don't meet the specifications") as refused:
        chart.helm(tmp_path).render(values)
    assert re.search(words, str(refused.value))


@pytest.mark.parametrize("chart", EVERY, ids=name_of)
def test_a_release_name_too_long_for_labels_is_refused_in_words(chart: Chart, tmp_path: Path) -> None:
    """One character more is all that Helm allows of charts/kafka."""
    with pytest.raises(Refused, match=rf'release name: got "?r+.*at most {chart.longest}\b'):
        chart.helm(tmp_path, release="r" * (chart.longest + 1)).render({})
    assert chart.helm(tmp_path, release="r" * chart.longest).render({})


@variants(*OF_OURS)
def test_the_api_server_takes_every_object(
    chart: Chart, values: Values, strict: ApiClient, namespace: str, tmp_path: Path
) -> None:
    for each in chart.helm(tmp_path, namespace=namespace).render(values):
        dry_run(strict, each, namespace)


@variants(*OF_OURS)
def test_its_pods_are_admitted_where_security_is_strictest(
    chart: Chart, values: Values, strict: ApiClient, namespace: str, tmp_path: Path
) -> None:
    pods = list(pods_of(chart.helm(tmp_path, namespace=namespace).render(values)))
    assert pods
    for pod in pods:
        dry_run(strict, pod, namespace)


@pytest.mark.parametrize("chart", OF_OURS, ids=name_of)
def test_a_pod_with_a_privilege_more_is_not(chart: Chart, strict: ApiClient, namespace: str, tmp_path: Path) -> None:
    pods = list(pods_of(chart.helm(tmp_path, namespace=namespace).render({})))
    assert pods
    for pod in pods:
        del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
        with pytest.raises(FailToCreateError, match=r'violates PodSecurity \\"restricted:latest\\": unrestricted cap'):
            dry_run(strict, pod, namespace)


@pytest.mark.parametrize("chart", OF_OURS, ids=name_of)
def test_its_pods_have_the_administrators_rank_and_notes_and_ours_over_them(chart: Chart, tmp_path: Path) -> None:
    helm = chart.helm(tmp_path)
    made = [each for each in helm.render({"podTemplate": RANKED}) if each["kind"] in ("StatefulSet", "Deployment")]
    assert made
    for each in made:
        template = each["spec"]["template"]
        assert template["spec"]["priorityClassName"] == RANKED["priorityClassName"]
        assert template["spec"]["affinity"] == RANKED["affinity"]
        notes = template["metadata"]["annotations"]
        assert (notes["team.example/of"], notes[STAYS]) == ("on", "true")
    older = {"affinity": None, "priorityClassName": None, "annotations": None}
    assert as_made(helm.render({"podTemplate": older})) == as_made(helm.render({})), "as a release before had them"
    with pytest.raises(Refused, match=r"invalid propertyName 'dedup\.dev/settings'"):
        helm.render({"podTemplate": {"annotations": {"dedup.dev/settings": "mine"}}})


def as_made(rendered: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """But for Secrets: each rendering makes another certificate."""
    return [each for each in rendered if each["kind"] != "Secret"]


@variants(*OF_OURS)
def test_every_container_is_restricted_and_small(chart: Chart, values: Values, tmp_path: Path) -> None:
    """More than the API server asks for: no token, and nothing of the image can be written to."""
    pods = list(pods_of(chart.helm(tmp_path).render(values)))
    assert pods
    for pod in pods:
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        for container in (*spec.get("initContainers", []), *spec["containers"]):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            if "requests" not in values.get("resources", {}):
                assert int(container["resources"]["requests"]["cpu"].removesuffix("m")) <= 50
            assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("chart", OF_OURS, ids=name_of)
def test_an_upgrade_keeps_the_certificate_that_the_installation_made(
    chart: Chart, installed: Helm, strict: ApiClient, namespace: str
) -> None:
    core, name = CoreV1Api(strict), f"{chart.release}-tls"
    before = core.read_namespaced_secret(name, namespace).data
    installed.upgrade({**TLS, **CHANGE[chart.name]})
    assert core.read_namespaced_secret(name, namespace).data == before


@pytest.mark.parametrize("chart", OF_OURS, ids=name_of)
def test_the_notes_say_how_to_reach_and_how_to_hurt_it(chart: Chart, installed: Helm, namespace: str) -> None:
    notes = installed.upgrade(TLS)
    addresses, deletion = NOTES[chart.name]
    assert addresses in notes
    assert "kill -9 $(cat /hold/pid)" in notes
    assert deletion.format(namespace) in notes
