"""A topic that is replicated to a second cluster: what may be asked of it, and when a run of it counts."""

from typing import Any, Final

import pytest
from tests.core.evidences import MESSAGES, duplicates, evidence, experiment
from tests.core.test_consumers import told

from dedup.errors import SpecificationError
from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment
from dedup.judgement.conclusions import ExperimentVerdict, conclude
from dedup.judgement.verdicts import Verdict
from dedup.wire.manifests import Replicated

ONE_BY_ONE: Final = {"name": "pulsar", "pulsar": {}, "client": {"properties": {"batching_enabled": "false"}}}
CUT: Final = {"at": {"message": 500}}
CLEAN: Final[dict[str, int]] = {}


def made(**spec: Any) -> Experiment:
    given = {"systems": [ONE_BY_ONE], "workload": {"messages": MESSAGES, "replication": CUT}, "faults": []}
    return experiment(**(given | spec))


def replicated(**changes: Any) -> Replicated:
    """The link was cut when 520 of 1,000 messages had come, of which the first cluster knew 300."""
    told = {"source_entries": MESSAGES, "stored": 520, "acknowledged": 300, "proof": "replicationBacklog 0, connected"}
    return Replicated(**(told | changes))


def concluded(
    dedup: dict[str, int], link: Replicated | None, control: dict[str, int] | None = None
) -> ExperimentVerdict:
    """The verdict where the runs with deduplication show these counts, and say this of their replication."""
    runs = {"control": duplicates(220) if control is None else control, "dedup": dedup}
    return conclude(
        (asked := made()),
        [
            evidence(
                run,
                runs[run.variant],
                deduplication=run.variant == "dedup",
                kind="pulsar",
                spec_digest=asked.digest(),
                consumer={"replicated": link if run.variant == "dedup" else replicated()},
                faults=(),
            )
            for run in plan(asked)
        ],
    )


def test_copies_in_the_second_cluster_are_the_control_and_none_with_deduplication_pass() -> None:
    found = concluded(CLEAN, replicated())
    assert found.verdict is Verdict.PASS, told(found)
    assert "copies in the second cluster in 2 of 2 effective runs" in told(found)
    (promised,) = {run.reasons[0].text for run in found.runs if run.variant == "dedup"}
    assert "lost" in promised and "position" not in promised, "nobody knows where it was to be"


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        (duplicates(3), "3 values"),
        ({"not_received": 2, "received": MESSAGES - 2}, "2 values"),
    ],
    ids=["copies", "losses"],
)
def test_copies_and_losses_with_deduplication_fail(counted: dict[str, int], said: str) -> None:
    found = concluded(counted, replicated())
    assert found.verdict is Verdict.FAIL and said in told(found)


def test_a_control_without_copies_shows_nothing() -> None:
    assert concluded(CLEAN, replicated(), control=CLEAN).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("replicated", "verdict", "said"),
    [
        (replicated(acknowledged=520), Verdict.INCONCLUSIVE, "knew of all that the second had stored"),
        (replicated(stored=499), Verdict.ERROR, "the link was cut when 499 messages had come; planned: 500"),
        (
            replicated(source_entries=1_003),
            Verdict.ERROR,
            "the first cluster stored 1,003 entries, and 1,000 messages were acknowledged: what differs is not the",
        ),
        (None, Verdict.ERROR, "its history does not say what was replicated"),
    ],
    ids=["nothing open", "early", "copies of its own", "untold"],
)
def test_a_cut_that_struck_nothing_and_a_first_cluster_that_is_in_doubt_pass_nothing(
    replicated: Replicated | None, verdict: Verdict, said: str
) -> None:
    found = concluded(CLEAN, replicated)
    assert found.verdict is verdict and said in told(found)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"systems": [{"name": "kafka", "kafka": {}}]},
            "workload.replication: got kafka; system kafka: only Pulsar's brokers replicate a topic",
        ),
        (
            {"systems": [{"name": "pulsar", "pulsar": {}}]},
            "workload.replication: got client.library pulsar-client, which sends batches; system pulsar: brokers tell",
        ),
        (
            {"workload": {"messages": MESSAGES, "replication": {"at": {"message": MESSAGES}}}},
            "workload.replication.at.message: got 1000; the last message is 1000, and the link must have some left",
        ),
        (
            {"workload": {"messages": MESSAGES, "partitions": 2, "replication": CUT}},
            "workload.replication: got 2 partitions; a topic of one partition is replicated here",
        ),
        (
            {"faults": [{"name": "cut", "at": {"message": 100}, "killTCP": {"duration": "2s"}}]},
            "faults[0].killTCP: got cut; with workload.replication the link to the second cluster is cut, and nothing",
        ),
        (
            {
                "systems": [
                    ONE_BY_ONE
                    | {"deploy": {"existing": {"serviceUrl": "pulsar://b:6650", "adminUrl": "http://b:8080"}}}
                ]
            },
            "workload.replication: got system pulsar, which is there already; what a replication needs beside",
        ),
    ],
    ids=["kafka", "batches", "last", "partitions", "fault", "existing"],
)
def test_what_a_replication_cannot_do_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        made(**more)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_javas_client_is_asked_for_its_own_switch() -> None:
    java = ONE_BY_ONE | {"client": {"library": "pulsar-java", "properties": {"batchingEnabled": "false"}}}
    assert made(systems=[java]).spec.workload.replicated


def test_only_with_a_replication_there_is_a_second_cluster_and_a_digest_is_another() -> None:
    plain = made(workload={"messages": MESSAGES})
    assert (plain.spec.workload.replicated, made().spec.workload.replicated) == (False, True)
    assert plain.digest() == made(workload={"messages": MESSAGES, "replication": None}).digest() != made().digest()
