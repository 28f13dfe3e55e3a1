"""`dedup run` on brokers that were there before, behind TLS and a log-in or a certificate, and know nothing of us.

Each fault of connections: copies without deduplication, none with it. What was made is gone afterwards, however that
ended.
The brokers advertise a name, then an address: a certificate must have what a client is told.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from tests.lab import harness
from tests.runners.guarded_systems import Listener, guarded_kafka, guarded_pulsar

from dedup.experiment.endpoints import Endpoints
from dedup.judgement.verdicts import Verdict
from dedup_lab.logins import OPTION
from dedup_runners.admins.rest import http_client
from dedup_runners.waiting import until

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

ENDED_S: Final = 120.0
ANSWER_S: Final = 20.0
LISTENERS: Final = {
    f"{'MUTUAL' if mutual else 'SCRAM'}{'NAME' if host == 'localhost' else 'IP'}": Listener(host, mutual)
    for host in ("localhost", "127.0.0.1")
    for mutual in (True, False)
}
SYSTEMS: Final = (*LISTENERS, "PULSARNAME", "PULSARIP", "PULSARMUTUAL")

RATE: Final = {"messages": 4000, "inFlight": 1000, "messagesPerSecond": 1000}
"""Four seconds of messages, so that a fault of a second or two falls among them."""
STEPPED: Final = {
    "kafka": {"batch.num.messages": "1", "linger.ms": "0"},
    "pulsar": {"batching_enabled": "false"},
}
LOST: Final = {"kafka": "Produce", "pulsar": "SEND"}


def reset(protocol: str) -> dict[str, Any]:
    """Connections are reset, on a link with latency: acknowledgements are always on their way."""
    fault = {"name": "cut", "at": {"message": 1000}, "killTCP": {"duration": "1s"}}
    return {"workload": RATE, "network": {"latency": "20ms"}, "faults": [fault]}


def responses_lost(protocol: str) -> dict[str, Any]:
    fault = {"name": "deaf", "at": {"message": 1000}, "dropTCP": {"direction": "ToClients", "duration": "2s"}}
    return {"workload": RATE, "faults": [fault]}


def reply_lost(protocol: str) -> dict[str, Any]:
    message = {"api": LOST[protocol], "frame": "Reply", "action": "Lose"}
    fault = {"name": "lost-reply", "at": {"message": 3}, "message": message}
    return {"workload": {"messages": 10, "inFlight": 10}, "properties": STEPPED[protocol], "faults": [fault]}


FAULTS: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "killTCP and latency": reset,
    "dropTCP ToClients": responses_lost,
    "message": reply_lost,
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Endpoints]]:
    """Each system, started when it is first asked for: the Kafka has all its listeners at once."""
    with ExitStack() as stack:
        known: dict[str, Endpoints] = {}

        def system(name: str) -> Endpoints:
            if name not in known and name in LISTENERS:
                known.update(stack.enter_context(guarded_kafka(tmp_path_factory.mktemp("kafka"), LISTENERS)).listeners)
            elif name not in known:
                host = "localhost" if name.endswith("NAME") else "127.0.0.1"
                folder, mutual = tmp_path_factory.mktemp(name), name.endswith("MUTUAL")
                known[name] = stack.enter_context(guarded_pulsar(folder, host, mutual=mutual))
            return known[name]

        yield system


def document(system: Endpoints, case: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The experiment: a control and a treatment, one run each."""
    ref, said = {"name": "keys"}, system.security
    existing: dict[str, Any] = {"tls": {"secretRef": ref}}
    if said.certificate is not None:
        existing["tls"]["clientSecretRef"] = ref
    if said.sasl is not None:
        existing["sasl"] = {"mechanism": said.sasl, "secretRef": ref}
    if said.token is not None:
        existing["token"] = {"secretRef": ref}
    at: dict[str, Any] = {"bootstrap": system.client_bootstrap}
    if system.system == "pulsar":
        at = {"serviceUrl": system.client_bootstrap, "adminUrl": system.admin_urls[0]}
    tested = {
        "name": system.system,
        system.system: {},
        "client": {"properties": case.get("properties", {})},
        "network": case.get("network", {}),
        "deploy": {"existing": {**at, **existing}},
    }
    spec = {
        "systems": [tested],
        "workload": case["workload"],
        "faults": case["faults"],
        "variants": [
            {"name": "control", "deduplication": "Disabled", "expect": "Duplicates"},
            {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"},
        ],
        "replacements": 2,
        **more,
    }
    head = {"apiVersion": "dedup.dev/v1alpha1", "kind": "DedupExperiment", "metadata": {"name": "there"}}
    return {**head, "spec": spec}


def secret(system: Endpoints) -> tuple[str, str]:
    assert system.security.ca is not None
    return OPTION, f"keys={system.security.ca.parent}"


def ours(system: Endpoints) -> list[str]:
    """What there is of ours on a system: asked by other means than those by which it is removed."""
    if system.system == "pulsar":
        return _of_pulsar(system)
    from dedup_runners import credentials

    admin = AdminClient({"bootstrap.servers": system.direct_bootstrap, **credentials.librdkafka(system.security)})
    topics = admin.list_topics(timeout=ANSWER_S).topics
    groups = admin.list_consumer_groups(request_timeout=ANSWER_S).result(ANSWER_S).valid
    return sorted(each for each in (*topics, *(each.group_id for each in groups)) if not each.startswith("__"))


def _of_pulsar(system: Endpoints) -> list[str]:
    with http_client(system, ANSWER_S) as http:

        def names(path: str) -> list[str]:
            found: list[str] = http.get(f"{system.admin_urls[0]}/admin/v2/{path}").raise_for_status().json()
            return found

        namespaces = names("namespaces/public")
        topics = [each for namespace in namespaces for each in names(f"persistent/{namespace}")]
    return sorted({*namespaces, *topics} - {"public/default"})


def gone(system: Endpoints) -> bool:
    """Metadata of what was deleted may be told for a moment."""
    try:
        return not ours(system)
    except httpx.HTTPStatusError:  # a namespace that was listed a moment ago
        return False


QUICK: Final = {("MUTUALNAME", "killTCP and latency")}
"""`make test` has this one."""


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param(name, fault, marks=[pytest.mark.smoke] if (name, fault) in QUICK else [])
        for name in SYSTEMS
        for fault in (FAULTS if name != "PULSARMUTUAL" else ["message"])
    ],
)
def test_a_fault_makes_copies_without_deduplication_and_none_with_it(
    name: str,
    fault: str,
    running: Callable[[str], Endpoints],
    tmp_path: Path,
    tell: Callable[[str], None],
) -> None:
    system = running(name)
    ended = harness.run(document(system, FAULTS[fault](system.system)), tmp_path, *secret(system))
    assert (ended.code, ended.summary.verdict) == (0, Verdict.PASS), ended.told()
    control, treatment = ended.summary.systems
    assert (control.runs_with_copies, control.effective_runs) == (1, 1), ended.told()
    assert (treatment.runs_with_copies, treatment.effective_runs) == (0, 1), ended.told()
    until(lambda: gone(system), ENDED_S, "everything of ours to be gone")
    copies = {run.run_id: run.counts and run.counts.values_with_duplicates for run in ended.summary.runs}
    tell(f"{name}, {fault}: {ended.summary.verdict}, copies {copies}, {_seconds(ended)} s a run")
    words = b"".join(path.read_bytes() for path in ended.folder.rglob("*") if path.is_file())
    assert not [each for each in secrets_of(system) if each.encode() in words]


def _seconds(ended: harness.Ended) -> list[float]:
    return [round(sum(run.stage_seconds.values()), 1) for run in ended.summary.runs]


def secrets_of(system: Endpoints) -> list[str]:
    """What must stand nowhere: a password, a token, the key's own lines."""
    said = system.security
    places = [said.token, said.login and said.login / "password", said.key]
    return [place.read_text().strip() for place in places if place is not None]


SLOW: Final = {"workload": {"messages": 60_000, "messagesPerSecond": 1000, "inFlight": 1000}, "faults": []}
"""A minute of messages: it is interrupted long before."""


@pytest.mark.parametrize(
    "name", [pytest.param("MUTUALIP", marks=pytest.mark.smoke), "SCRAMNAME", pytest.param("PULSARIP")]
)
def test_nothing_is_left_after_ctrl_c(name: str, running: Callable[[str], Endpoints], tmp_path: Path) -> None:
    system = running(name)
    protocol = system.system
    case = SLOW | {"faults": reset(protocol)["faults"]}

    def struck(out: Path) -> bool:
        """In the middle of a run: the fault has struck and healed, so its probe is there, too."""
        lines = [*out.glob("runs/*/attempt-1/faults.jsonl")]
        return any('"healed"' in each.read_text() for each in lines)

    code = harness.run_until(document(system, case), tmp_path, struck, ENDED_S, signal.SIGINT, *secret(system))
    assert code == 130
    until(lambda: gone(system), ENDED_S, "everything of ours to be gone")


def test_what_a_killed_command_has_left_goes_with_the_one_that_resumes(
    running: Callable[[str], Endpoints], tmp_path: Path
) -> None:
    system = running("SCRAMIP")
    found = document(system, reply_lost("kafka"), runs=3)

    def in_the_middle(out: Path) -> bool:
        return any(out.glob("runs/*/attempt-1/producer.log")) and bool(ours(system))

    code = harness.run_until(found, tmp_path, in_the_middle, ENDED_S, signal.SIGKILL, *secret(system))
    assert code == -signal.SIGKILL and ours(system)
    again = harness.run(found, tmp_path, "--resume", *secret(system))
    assert again.code == 0, again.told()
    until(lambda: gone(system), ENDED_S, "everything of ours to be gone")
