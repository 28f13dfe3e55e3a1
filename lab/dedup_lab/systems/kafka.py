"""Kafka as three processes: small combined KRaft nodes, each broker and controller.

What decides the behaviour under a fault is as in production: replication 3, two in-sync replicas
needed, no flush by hand, no unclean election, the garbage collector and compiler of Kafka's own start script. Only
memory and start-up time are reduced: heaps, internal topics' partitions, the log cleaner's buffer,
thread pools.

A node has three listeners. CONTROLLER is the quorum's. INTERNAL is for the other brokers and for the tester; no proxy
is ever in its path. CLIENT is what clients under test use: it is advertised at its Toxiproxy port when the lab has
proxies.

Failover: a broker that is killed is fenced by the controller when its session of 6 s runs out (Kafka's own default is
9 s, with the same heartbeat of 2 s); only then do its partitions get another leader. If it was the active controller
too, the other two elect a new one first (fetch timeout 2 s). A broker restarted before its session ran out waits for
that, since the controller sees a second broker of the same id.
"""

import base64
import shutil
import uuid
from pathlib import Path

from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.targets import SESSION_S
from dedup_lab.caches import Progress, silent
from dedup_lab.systems import toxiproxy
from dedup_lab.systems.jvms import Jvm, wait_exit, with_another_try
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import LOOPBACK, free
from dedup_runners.round_trips import kafka_round_trip

PROVISION_S = 15.0
SESSION_TIMEOUT_MS = round(SESSION_S * 1000)
READY_TIMEOUT_S = 300.0
FORMAT_TIMEOUT_S = 180.0
FLAGS = (
    *("-Xms256m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    *("-XX:+ExplicitGCInvokesConcurrent", "-Xshare:auto"),
)
# The tool that formats a node's folder lives for a second: it is never worth optimising its code.
TOOL_FLAGS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def start(
    lab: Lab,
    *,
    version: str,
    proxied: bool,
    brokers: int = 3,
    transactions: bool = False,
    progress: Progress = silent,
) -> Endpoints:
    """Start `brokers` nodes of `version` and return once a message went through the clients' path and back.

    Every Kafka coordinates `transactions`, whether they are asked for or not.
    Raises DedupError: no lock for the version, no Java, a broken jar, or a process that ended (quoting its log).
    """
    jvm = Jvm.of("kafka", version, progress)
    if proxied:
        toxiproxy.server(progress)
    return with_another_try(lab, lambda: _start(lab, jvm, proxied, brokers, progress))


def _start(lab: Lab, jvm: Jvm, proxied: bool, brokers: int, progress: Progress) -> Endpoints:
    ports = free(4 * brokers)
    nodes = [
        Node(id + 1, ports[4 * id : 4 * id + 4], proxied, lab.place(_name(id + 1)).address) for id in range(brokers)
    ]
    progress("start Kafka", 0, brokers)
    for node in nodes:
        folder = lab.disk(node.name) or lab.data(node.name)
        (folder / "server.properties").write_text(properties(node, nodes, folder), encoding="utf-8")
    _format(lab, jvm, nodes)
    for node in nodes:
        jvm.start(lab, node.name, FLAGS, "kafka.Kafka", [str(lab.data(node.name) / "server.properties")])
    proxies = {node.name: (node.proxy, f"{node.host}:{node.client}") for node in nodes if node.proxy}
    url = toxiproxy.start(lab, proxies, progress) if proxied else None
    endpoints = _endpoints(lab, nodes, url)
    kafka_round_trip(
        endpoints.client_bootstrap,
        endpoints.direct_bootstrap,
        brokers=brokers,
        timeout_s=READY_TIMEOUT_S,
        check=lab.check,
    )
    progress("start Kafka", brokers, brokers)
    return endpoints


def _name(id: int) -> str:
    return f"kafka-{id}"


class Node:
    """One node's number, address and ports."""

    def __init__(self, id: int, ports: list[int], proxied: bool, host: str = LOOPBACK) -> None:
        self.id = id
        self.controller, self.internal, self.client, proxy = ports
        self.proxy = proxy if proxied else None
        self.name, self.host = _name(id), host
        self.advertised = f"{LOOPBACK}:{proxy}" if proxied else f"{self.host}:{self.client}"


def properties(node: Node, nodes: list[Node], folder: Path) -> str:
    """The node's server.properties."""
    replicas = min(3, len(nodes))
    in_sync = min(2, len(nodes))
    settings = {
        "process.roles": "broker,controller",
        "node.id": node.id,
        "controller.quorum.voters": ",".join(f"{each.id}@{each.host}:{each.controller}" for each in nodes),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INTERNAL",
        "listeners": f"CONTROLLER://{node.host}:{node.controller},"
        f"INTERNAL://{node.host}:{node.internal},CLIENT://{node.host}:{node.client}",
        "advertised.listeners": f"INTERNAL://{node.host}:{node.internal},CLIENT://{node.advertised}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT",
        "log.dirs": folder / "log",
        "broker.session.timeout.ms": SESSION_TIMEOUT_MS,
        # Who waits for the brokers decides when it is too late, also on a machine that is busy.
        "initial.broker.registration.timeout.ms": round(READY_TIMEOUT_S * 1000),
        # Nothing moves unless a fault moves it, and nothing written is deleted while a run may still read it.
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "log.retention.ms": -1,
        "delete.topic.enable": "true",
        # A topic that is deleted after its run frees its disk soon.
        "log.segment.delete.delay.ms": 1_000,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 3,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
        # Memory: the cleaner's default buffer alone is a quarter of the heap.
        "log.cleaner.dedupe.buffer.size": 8_000_000,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _format(lab: Lab, jvm: Jvm, nodes: list[Node]) -> None:
    # Formatting writes the same records for every node but for its number and a random id, and costs a Java start-up:
    # one folder is formatted by Kafka's own tool, the others are copies with a number and an id of their own.
    first, *others = nodes
    cluster = _random_id()
    arguments = ["format", "-t", cluster, "-c", str(lab.data(first.name) / "server.properties")]
    tool = jvm.start(lab, "kafka-format", TOOL_FLAGS, "kafka.tools.StorageTool", arguments)
    wait_exit(tool, FORMAT_TIMEOUT_S)
    lab.forget(tool)
    for node in others:
        folder = lab.data(node.name) / "log"
        shutil.copytree(lab.data(first.name) / "log", folder)
        meta = (folder / "meta.properties").read_text(encoding="utf-8").splitlines()
        own = {"node.id": str(node.id), "directory.id": _random_id()}
        changed = [f"{key}={own[key]}" if (key := line.partition("=")[0]) in own else line for line in meta]
        (folder / "meta.properties").write_text("\n".join(changed) + "\n", encoding="utf-8")


def _random_id() -> str:
    # Kafka's ids are UUIDs in unpadded base64; its own generator avoids a leading dash, which tools take for an option.
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _endpoints(lab: Lab, nodes: list[Node], toxiproxy_url: str | None) -> Endpoints:
    return Endpoints(
        system="kafka",
        client_bootstrap=",".join(node.advertised for node in nodes),
        direct_bootstrap=",".join(f"{node.host}:{node.internal}" for node in nodes),
        toxiproxy_url=toxiproxy_url,
        brokers=[
            Broker(
                id=str(node.id),
                client_port=node.client,
                own_address=lab.own_address(node.name),
                disk=lab.disk(node.name),
                proxy=node.name if node.proxy else None,
                proxy_port=node.proxy,
                status_file=lab.kept[node.name].status_file,
                hold_file=lab.kept[node.name].hold_file,
            )
            for node in nodes
        ],
    )
