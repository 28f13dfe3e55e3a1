"""A stranger's chart as an entry of the administrator's list, with pods: from `kubectl apply` to the verdict.

Its twins are the same chart whose console never gets ready, whose archive is another than the list says, and which
wants rights in the cluster: each ends in words, and nothing of it is left.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from testbed.cluster.clusters import Cluster
from tests.kubernetes import operated, strangers
from tests.kubernetes.operated import Document, Operated, condition
from tests.kubernetes.test_operator_cluster import MOST_SEEDS, carried_out, document_of, of, words
from tests.lab import harness

from dedup_runners.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

KILL_TCP: Final = harness.ROOT / "examples" / "kubernetes" / "kafka-kill-tcp.yaml"
BOUND_S: Final = 90
"""After this a system that is not ready is given up."""
STALLED_S: Final = 120.0


@pytest.fixture(scope="module")
def listing(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    packed = strangers.archive(tmp_path_factory.mktemp("streams"))
    entries = [
        strangers.entry(packed, "streams"),
        strangers.entry(packed, "streams-idle", console=True),
        strangers.entry(packed, "streams-wide", wide=True),
        strangers.entry(packed, "streams-other", digest=f"sha256:{'0' * 64}"),
    ]
    with (
        operated.at(cluster, tmp_path_factory.mktemp("listing"), ("kafka",)) as made,
        strangers.shelved(made.place, made.namespace, packed),
    ):
        settings = {"charts": made.place.settings.charts, "systems": entries}
        made.install(settings=settings, chartFiles=strangers.FILES)
        yield made


def example(entry: str, attempt: int = 0) -> Document:
    """The example of our own chart, on the list's entry."""
    document = document_of(KILL_TCP, attempt)
    document["metadata"]["name"] = f"of-{entry}-{attempt}"
    system = document["spec"]["systems"][0]
    system |= {"kafka": {}, "deploy": {"chart": entry}}
    document["spec"]["verification"] = {"engine": "Local"}
    return document


def made_of_charts(operator: Operated) -> list[str]:
    """What a chart has made in the experiments' namespace, and what Helm has kept."""
    return [
        each
        for selector in ("dedup.dev/release", "owner=helm")
        for each in operator.place.kubectl(
            "get", operator.kinds, f"--selector={selector}", "--output=name", "--ignore-not-found"
        ).split()
    ]


@pytest.mark.timeout(MOST_SEEDS * 900)
def test_an_experiment_on_a_strangers_chart_leaves_duplicates_in_the_control_alone(
    listing: Operated, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    """If the fault came when all was acknowledged, the verdict says so, and it is done again with another seed."""
    for attempt in range(MOST_SEEDS):
        document = example("streams", attempt)
        status = carried_out(listing, document, tmp_path / str(attempt), tell)
        assert made_of_charts(listing) == []
        counts = of(status, "kafka", "dedup")["counts"]
        assert (counts["valuesWithDuplicates"], counts["notReceived"]) == (0, 0)
        if status["verdict"] == "Pass":
            assert condition(status, "FaultsInjected") == "True"
            assert of(status, "kafka", "control")["counts"]["valuesWithDuplicates"]
            assert counts["send"] == document["spec"]["workload"]["messages"]
            return
        assert status["verdict"] == "Inconclusive", words(status, "Finished")
    raise AssertionError(f"inconclusive: {words(status, 'Finished')}")


def test_one_that_never_gets_ready_is_an_error_in_words_within_its_bound_and_nothing_is_left(
    listing: Operated, tell: Callable[[str], None]
) -> None:
    """The brokers are there, and get ready; a console beside them does not. No run begins."""
    document, before = example("streams-idle"), listing.objects()
    name = document["metadata"]["name"]
    document["spec"]["timeouts"] = {"provision": f"{BOUND_S}s"}
    listing.apply(document)
    until(lambda: bool(made_of_charts(listing)), operated.READY_S, "the chart is installed", 0.5)
    status = listing.verdict(name)
    assert status["verdict"] == "Error"
    said = words(status, "Finished")
    assert "console: 0 of 1 ready" in status["state"]["lastFailure"], status
    tell(f"never ready: {said}; {status['state']['lastFailure']}")
    until(lambda: made_of_charts(listing) == [], operated.LEFT_S, "nothing of the chart is left", 1.0)
    assert listing.run_pods(name) == []
    listing.delete(name)
    assert listing.left(before) == set()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("streams-other", f"chart streams-other {strangers.VERSION}: digest: got sha256:"),
        ("streams-wide", "gives no right beyond it"),
    ],
    ids=["another archive", "rights in the cluster"],
)
def test_one_that_may_not_be_installed_is_stalled_in_words_and_makes_nothing(
    entry: str, said: str, listing: Operated
) -> None:
    document, before = example(entry), listing.objects()
    name = document["metadata"]["name"]
    listing.apply(document)
    try:
        until(lambda: condition(listing.status(name), "Stalled") == "True", STALLED_S, "it stalls", 0.5)
        assert said in words(listing.status(name), "Stalled")
        assert made_of_charts(listing) == []
    finally:
        listing.delete(name)
    assert listing.left(before) == set()
