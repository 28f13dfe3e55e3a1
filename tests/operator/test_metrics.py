"""What Prometheus is told: each verdict once, every name with its meaning, and nothing that grows with experiments."""

import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import ThreadingHTTPServer
from typing import Final

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from testbed.worlds import NAMESPACE, TOLD, World, document, rests
from tests.operator.gates import ROOT, table
from tests.operator.test_reconciliations import applied, edit

from dedup.experiment.stages import Stage
from dedup_operator import metrics as serving
from dedup_operator.clusters import Refused
from dedup_operator.metrics import FAMILIES, Family, Metrics, served
from dedup_operator.reconciliations import Reconciler
from dedup_operator.statuses import Judgement, Sums, SystemStatus, VariantStatus
from dedup_runners.waiting import until

GAUGES: Final = {"queue_length": 1.0, "experiments_begun": 2.0, "experiments_waiting": 3.0}
LINE: Final = re.compile(r'^dedup_operator_(\w+)(?:\{(?:(\w+)="(\w+)")?,?(?:le="([^"]+)")?\})? (\S+)$')
COUNTS: Final = Sums(**dict.fromkeys(Sums.model_fields, 0)).model_copy(
    update={"values_with_duplicates": 5, "not_received": 2}
)


def read(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Samples by name and value of the label; of buckets, those without a bound alone."""
    lines = [line for line in metrics.text(GAUGES).splitlines() if not line.startswith("#")]
    found = [match.groups() for line in lines if (match := LINE.match(line))]
    assert len(found) == len(lines)
    return {(name, value or ""): float(amount) for name, _, value, le, amount in found if le in (None, "+Inf")}


def finish(world: World) -> Reconciler:
    """One process, to the verdict."""
    operator, _ = world.operator()
    while not rests(again_s := operator.look((NAMESPACE, "e"))):
        if again_s:
            world.player.move()
            world.now_s += 1
    return operator


def test_what_an_experiment_came_to_is_counted_once() -> None:
    world = applied()
    variant = VariantStatus(name="dedup", runs=1, finished_runs=1, counts=COUNTS)
    said = document(TOLD.model_copy(update={"systems": [SystemStatus(name="kafka", variants=[variant, variant])]}))
    world.player.says = lambda: said
    operator = finish(world)
    for _ in range(3):
        operator.look((NAMESPACE, "e"))
    edit(world, seed=7)
    operator.look((NAMESPACE, "e"))
    counted = read(operator.metrics)
    assert {value: counted["verdicts_total", value] for value in Judgement} == {
        **dict.fromkeys(Judgement, 0),
        Judgement.PASS: 1,
    }
    assert (counted["duplicates_total", ""], counted["lost_total", ""]) == (10, 4)
    assert (counted["runs_total", ""], counted["task_failures_total", ""]) == (2, 0)


def test_a_verdict_that_is_found_written_is_not_counted() -> None:
    world = applied()
    finish(world)
    operator = finish(world)
    assert sum(read(operator.metrics)["verdicts_total", value] for value in Judgement) == 0


def test_another_execution_has_a_verdict_of_its_own() -> None:
    world = applied()
    operator = finish(world)
    edit(world, runToken="2")
    while not rests(operator.look((NAMESPACE, "e"))):
        world.player.move()
    assert read(operator.metrics)["verdicts_total", "Pass"] == 2
    assert read(operator.metrics)["runs_total", ""] == 4


def test_stages_and_their_seconds_are_counted() -> None:
    counted = read(finish(applied()).metrics)
    assert counted["stage_seconds_count", "Provision"] == counted["stage_seconds_count", "Verify"] == 1
    assert counted["stage_seconds_count", "Prepare"] == 2
    assert all(counted["stage_seconds_sum", stage] >= counted["stage_seconds_count", stage] - 1 for stage in Stage)
    assert 0 < sum(counted["stage_seconds_sum", stage] for stage in Stage) < 60


def test_an_observation_falls_into_each_bucket_that_is_wide_enough() -> None:
    metrics = Metrics()
    for seconds in (0.004, 0.25, 0.3, 10_000.0):
        metrics.add("request_seconds", seconds, "GET")
    families = {each.name: each for each in text_string_to_metric_families(metrics.text(GAUGES))}
    family = families["dedup_operator_request_seconds"]
    asked = [sample for sample in family.samples if sample.labels["method"] == "GET"]
    buckets = {sample.labels["le"]: sample.value for sample in asked if sample.name.endswith("_bucket")}
    assert family.type == "histogram"
    assert {le: buckets[le] for le in ("0.005", "0.1", "0.25", "0.5", "120.0", "+Inf")} == {
        "0.005": 1,
        "0.1": 1,
        "0.25": 2,
        "0.5": 3,
        "120.0": 3,
        "+Inf": 4,
    }
    assert list(buckets.values()) == sorted(buckets.values())
    others = {sample.name.rpartition("_")[2]: sample.value for sample in asked if "le" not in sample.labels}
    assert others == {"count": 4, "sum": 10_000.554}


def test_failures_and_refusals_are_counted() -> None:
    counted = read(finish(applied(refuses=Refused("helm: no"))).metrics)
    assert counted["task_failures_total", ""] >= 1
    assert counted["api_errors_total", ""] >= 1
    assert counted["runs_total", ""] == 2


def test_every_name_has_its_meaning_and_is_there_from_the_start() -> None:
    text = Metrics().text(GAUGES)
    for name, family in FAMILIES.items():
        assert f"# HELP dedup_operator_{name} {family.told}\n# TYPE dedup_operator_{name} {family.kind}\n" in text
        assert name.endswith("_total") == (family.kind == "counter")
    assert read(Metrics())["queue_length", ""] == 1
    assert read(Metrics())["stage_seconds_count", "Provision"] == 0
    assert read(Metrics())["request_seconds_bucket", "GET"] == 0


def test_the_page_has_every_name_and_no_other() -> None:
    page = (ROOT / "docs" / "operator-chart.md").read_text()
    told = table(page.partition("\n## Metrics\n")[2].partition("\n## ")[0])
    meant = {
        f"`dedup_operator_{name}`": {"type": each.kind, "label": _label(each), "meaning": each.told}
        for name, each in FAMILIES.items()
    }
    assert told == meant


def _label(family: Family) -> str:
    return f"`{family.label}`: {', '.join(f'`{value}`' for value in family.values)}" if family.label else ""


def test_large_sums_are_told_in_full() -> None:
    metrics = Metrics()
    metrics.add("duplicates_total", 123_456_789)
    assert read(metrics)["duplicates_total", ""] == 123_456_789


def test_only_what_has_a_name_is_counted() -> None:
    operator = finish(applied())
    parts = {"histogram": ("_bucket", "_sum", "_count")}
    names = {f"{name}{part}" for name, family in FAMILIES.items() for part in parts.get(family.kind, ("",))}
    assert {name for name, _ in read(operator.metrics)} == names


@pytest.mark.parametrize(
    ("path", "well", "ready", "code"),
    [
        ("/metrics", True, True, 200),
        ("/healthz", True, False, 200),
        ("/healthz", False, True, 503),
        ("/readyz", True, True, 200),
        ("/readyz", True, False, 503),
        ("/", True, True, 404),
    ],
)
def test_it_is_told_over_http(path: str, well: bool, ready: bool, code: int) -> None:
    server = served(0, lambda: "text\n", lambda: well, lambda: ready)
    try:
        address = f"http://127.0.0.1:{server.server_port}{path}"
        assert httpx.get(address, timeout=10, trust_env=False).status_code == code
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Of one that is well, and waits for half a second."""
    monkeypatch.setattr(serving, "IDLE_S", 0.5)
    server = served(0, lambda: "text\n", lambda: True, lambda: True)
    yield server.server_port
    stop(server)


def stop(server: ThreadingHTTPServer) -> None:
    server.shutdown()
    server.server_close()


def code(address: str, port: int) -> int:
    return httpx.get(f"http://{address}:{port}/healthz", timeout=10, trust_env=False).status_code


def test_it_is_told_to_addresses_of_either_kind(port: int) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    assert [code(address, port) for address in ("[::1]", "127.0.0.1")] == [200, 200]


def test_where_there_is_no_ipv6_it_is_told_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    server = served(0, lambda: "text\n", lambda: True, lambda: True)
    assert server.socket.family is socket.AF_INET and code("127.0.0.1", server.server_port) == 200
    stop(server)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def test_a_connection_that_says_nothing_is_closed(port: int) -> None:
    with connected(port) as idle, connected(port) as halfway:
        halfway.sendall(b"GET /healthz HT")
        assert (idle.recv(1), halfway.recv(1)) == (b"", b"")


def test_its_twin_that_takes_its_time_has_its_answer(port: int) -> None:
    with connected(port) as slow:
        for part in (b"GET /healthz", b" HTTP/1.0\r\n", b"\r\n"):
            threading.Event().wait(0.1)
            slow.sendall(part)
        assert slow.recv(12) == b"HTTP/1.0 200"


def test_a_probe_gets_through_whatever_others_keep_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest make way, and no more threads are at work than connections may be open."""
    monkeypatch.setattr(serving, "IDLE_S", 60.0)
    before = threading.active_count()
    server = served(0, lambda: "text\n", lambda: True, lambda: True)
    with ExitStack() as kept:
        idle = [kept.enter_context(connected(server.server_port)) for _ in range(3 * serving.CONNECTIONS)]
        assert code("127.0.0.1", server.server_port) == 200
        assert [each.recv(1) for each in idle[: serving.CONNECTIONS]] == [b""] * serving.CONNECTIONS
        until(lambda: threading.active_count() <= before + 1 + serving.CONNECTIONS, 10, "the threads end")
        idle[-1].sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert idle[-1].recv(12) == b"HTTP/1.0 200"
    stop(server)


def test_a_peer_that_goes_is_not_worth_a_word(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    with connected(port) as gone:
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.sendall(b"GET /metrics HTTP/1.0\r\n")
    assert code("127.0.0.1", port) == 200
    assert capfd.readouterr().err == ""
