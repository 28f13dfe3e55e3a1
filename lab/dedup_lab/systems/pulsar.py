"""Pulsar as processes: one ZooKeeper, bookies that store, brokers that serve.

What decides the behaviour under a fault is as in production: every entry goes to an ensemble of
three bookies, is written to three and acknowledged by two, journals are synced to disk, and a topic has one owner.
Only memory and start-up time are reduced. Load shedding and bundle splits
are off, so that a topic moves only when a fault moves it. Nothing is deleted: messages without a subscription are kept,
since the consumer reads them after the producer has finished, and idle topics stay. Deduplication is off for the
cluster and set per namespace when topics are created.

A broker has two listeners. `internal` is for the other brokers and for the tester; no proxy is ever in its path.
`client` is what clients under test use: it is advertised at its Toxiproxy port when the lab has proxies. The REST
interface is direct.

Transactions need coordinators, and system topics for what they know. Both take time to start, so they are there only if
they are asked for. A coordinator is a partition of a topic of its own, and moves as topics do.

Failover: a broker that is killed loses its topics when its ZooKeeper session of 6 s runs out (Pulsar's own default is
30 s, and 6 s is what the lab gives Kafka); the next lookup then gives the topic a new owner.
"""

from collections.abc import Mapping
from pathlib import Path

from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.targets import SESSION_S
from dedup_lab.caches import Progress, silent
from dedup_lab.systems import toxiproxy
from dedup_lab.systems.jvms import Jvm, wait_exit, with_another_try
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import LOOPBACK, free, listening
from dedup_runners.round_trips import pulsar_round_trip
from dedup_runners.waiting import until

CLUSTER = "dedup"
ZOOKEEPER = "pulsar-zookeeper"
PROVISION_S = 40.0
SESSION_TIMEOUT_MS = round(SESSION_S * 1000)
READY_TIMEOUT_S = 300.0
STEP_TIMEOUT_S = 180.0
LISTENER = "client"
COORDINATORS = 3
"""Of transactions: each broker can have one. Pulsar's own default is 16, and each has a log that takes time to open."""
COORDINATORS_OPTION = "--initial-num-transaction-coordinators"
_OPENED = (
    *("java.base/java.lang", "java.base/java.nio", "java.base/jdk.internal.misc", "java.base/jdk.internal.platform"),
    *("java.management/sun.management", "jdk.management/com.sun.management.internal", "java.base/java.util.zip"),
)
# As in Pulsar's own start script.
COMMON = (
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Djute.maxbuffer=10485760",
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
    "-Xshare:auto",
)
# The second compiler would use all cores for the first minutes: on a small machine that is the whole run.
QUICK = "-XX:TieredStopAtLevel=1"
ZOOKEEPER_FLAGS = (*COMMON, "-Xmx128m", "-XX:+UseSerialGC", QUICK)
TOOL_FLAGS = (*COMMON, "-Xmx192m", "-XX:+UseSerialGC", QUICK)
BOOKIE_FLAGS = (*COMMON, QUICK, "-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m", "-XX:+UseG1GC")
BROKER_FLAGS = (*COMMON, QUICK, "-Xms128m", "-Xmx384m", "-XX:MaxDirectMemorySize=384m", "-XX:+UseG1GC")


def start(
    lab: Lab,
    *,
    version: str,
    proxied: bool,
    brokers: int = 3,
    bookies: int = 3,
    transactions: bool = False,
    cluster: str = CLUSTER,
    progress: Progress = silent,
) -> Endpoints:
    """Start ZooKeeper, bookies and brokers and return once a message went through the clients' path and back.

    `transactions`: brokers coordinate transactions. `cluster`: what it calls itself.
    Raises DedupError: no lock for the version, no Java, a broken jar, or a process that ended (quoting its log).
    """
    jvm = Jvm.of("pulsar", version, progress)
    if proxied:
        toxiproxy.server(progress)
    return with_another_try(lab, lambda: _start(lab, jvm, proxied, brokers, bookies, transactions, cluster, progress))


def _name(id: int) -> str:
    return f"pulsar-broker-{id}"


class Node:
    """One broker's number, address and ports."""

    def __init__(self, id: int, ports: list[int], proxied: bool, host: str = LOOPBACK) -> None:
        self.id = id
        self.web, self.internal, self.client, proxy = ports
        self.proxy = proxy if proxied else None
        self.name, self.host = _name(id), host
        self.advertised = f"{LOOPBACK}:{proxy}" if proxied else f"{self.host}:{self.client}"


def _start(
    lab: Lab,
    jvm: Jvm,
    proxied: bool,
    brokers: int,
    bookies: int,
    transactions: bool,
    cluster: str,
    progress: Progress,
) -> Endpoints:
    port, *ports = free(1 + bookies + 4 * brokers)
    nodes = [
        Node(id + 1, ports[4 * id : 4 * id + 4], proxied, lab.place(_name(id + 1)).address) for id in range(brokers)
    ]
    steps = 2 + bookies + brokers
    progress("start Pulsar", 0, steps)
    zookeeper = _zookeeper(lab, jvm, port)
    progress("start Pulsar", 1, steps)
    more = {COORDINATORS_OPTION: str(COORDINATORS)} if transactions else {}
    _metadata(lab, jvm, zookeeper, nodes[0], {"--cluster": cluster, **more})
    progress("start Pulsar", 2, steps)
    storing = [f"{lab.place(_bookie(number)).address}:{port}" for number, port in enumerate(ports[4 * brokers :], 1)]
    for number, bookie in enumerate(storing, 1):
        name = _bookie(number)
        path = _write(lab.data(name) / "bookkeeper.conf", bookie_settings(zookeeper, bookie, lab.data(name)))
        jvm.start(lab, name, BOOKIE_FLAGS, "org.apache.bookkeeper.server.Main", ["--conf", str(path)])
    progress("start Pulsar", 2 + bookies, steps)
    for node in nodes:
        settings = broker_settings(zookeeper, node, bookies, transactions, cluster)
        path = _write(lab.data(node.name) / "broker.conf", settings)
        jvm.start(lab, node.name, BROKER_FLAGS, "org.apache.pulsar.PulsarBrokerStarter", ["--broker-conf", str(path)])
    proxies = {node.name: (node.proxy, f"{node.host}:{node.client}") for node in nodes if node.proxy}
    url = toxiproxy.start(lab, proxies, progress) if proxied else None
    endpoints = _endpoints(lab, nodes, storing, zookeeper, url)
    pulsar_round_trip(
        endpoints.client_bootstrap,
        endpoints.admin_urls,
        listener_name=endpoints.listener_name,
        timeout_s=READY_TIMEOUT_S,
        check=lab.check,
    )
    progress("start Pulsar", steps, steps)
    return endpoints


def _zookeeper(lab: Lab, jvm: Jvm, port: int) -> str:
    """Start it; where it listens."""
    name, host = ZOOKEEPER, lab.place(ZOOKEEPER).address
    settings: dict[str, object] = {
        "tickTime": 1_000,  # the unit of session timeouts: a third of the shortest session given out
        "dataDir": lab.data(name) / "data",
        "clientPort": port,
        "clientPortAddress": host,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
    }
    path = _write(lab.data(name) / "zoo.cfg", settings)
    kept = jvm.start(lab, name, ZOOKEEPER_FLAGS, "org.apache.zookeeper.server.quorum.QuorumPeerMain", [str(path)])

    def up() -> bool:
        kept.check()
        return listening(port, host)

    until(up, STEP_TIMEOUT_S, "ZooKeeper listens")
    return f"{host}:{port}"


def _metadata(lab: Lab, jvm: Jvm, zookeeper: str, node: Node, more: Mapping[str, str]) -> None:
    arguments = {
        "--metadata-store": f"zk:{zookeeper}",
        "--configuration-metadata-store": f"zk:{zookeeper}",
        "--web-service-url": f"http://{node.host}:{node.web}",
        "--broker-service-url": f"pulsar://{node.host}:{node.internal}",
        **more,
    }
    flat = [word for pair in arguments.items() for word in pair]
    tool = jvm.start(lab, "pulsar-metadata", TOOL_FLAGS, "org.apache.pulsar.PulsarClusterMetadataSetup", flat)
    wait_exit(tool, STEP_TIMEOUT_S)
    lab.forget(tool)


def bookie_settings(zookeeper: str, bookie: str, folder: Path) -> dict[str, object]:
    """One bookie's bookkeeper.conf; `bookie`: its address and port."""
    host, _, port = bookie.rpartition(":")
    return {
        "bookiePort": port,
        "advertisedAddress": host,
        "allowLoopback": "true",
        "metadataServiceUri": f"metadata-store:zk:{zookeeper}",
        # As in Pulsar's own bookkeeper.conf. With BookKeeper's 10 s, bookies may have to register anew as brokers do,
        # after 8 s without ZooKeeper: once a broker found "not enough non-faulty bookies" for minutes then.
        "zkTimeout": 30_000,
        "journalDirectories": folder / "journal",
        "ledgerDirectories": folder / "ledgers",
        "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
        "dbStorage_writeCacheMaxSizeMb": 48,
        "dbStorage_readAheadCacheMaxSizeMb": 16,
        "dbStorage_rocksDB_blockCacheSize": 8_388_608,
        "journalPreAllocSizeMB": 4,
        "journalMaxSizeMB": 256,
        "journalMaxBackups": 0,
        "httpServerEnabled": "false",
        "numAddWorkerThreads": 1,
        "numReadWorkerThreads": 2,
        "numHighPriorityWorkerThreads": 1,
        "serverNumIOThreads": 2,
        # By default a bookie turns read-only when the disk is 95 % full.
        "diskUsageThreshold": 0.99,
        "diskUsageWarnThreshold": 0.99,
        "minUsableSizeForIndexFileCreation": 1_048_576,
        "minUsableSizeForEntryLogCreation": 1_048_576,
        "minUsableSizeForHighPriorityWrites": 1_048_576,
    }


def broker_settings(
    zookeeper: str, node: Node, bookies: int, transactions: bool = False, cluster: str = CLUSTER
) -> dict[str, object]:
    """One broker's broker.conf."""
    switched = str(transactions).lower()
    return {
        "clusterName": cluster,
        "metadataStoreUrl": f"zk:{zookeeper}",
        "configurationMetadataStoreUrl": f"zk:{zookeeper}",
        "metadataStoreSessionTimeoutMillis": SESSION_TIMEOUT_MS,
        "bindAddress": node.host,
        "advertisedAddress": node.host,
        "webServicePort": node.web,
        "brokerServicePort": node.internal,
        "bindAddresses": f"{LISTENER}:pulsar://{node.host}:{node.client}",
        "advertisedListeners": f"internal:pulsar://{node.host}:{node.internal},{LISTENER}:pulsar://{node.advertised}",
        "internalListenerName": "internal",
        "managedLedgerDefaultEnsembleSize": min(3, bookies),
        "managedLedgerDefaultWriteQuorum": min(3, bookies),
        "managedLedgerDefaultAckQuorum": min(2, bookies),
        "brokerDeduplicationEnabled": "false",
        "allowAutoTopicCreation": "false",
        # Nothing moves unless a fault moves it, and nothing written is deleted while a run may still read it.
        "loadBalancerSheddingEnabled": "false",
        "loadBalancerAutoBundleSplitEnabled": "false",
        "loadBalancerAutoUnloadSplitBundlesEnabled": "false",
        "brokerDeleteInactiveTopicsEnabled": "false",
        "defaultRetentionTimeInMinutes": -1,
        "defaultRetentionSizeInMB": -1,
        # Brokers before 4.0 do not start where the kernel tells no card's speed; nothing is shed by load here.
        "loadBalancerOverrideBrokerNicSpeedGbps": 10,
        # Parts that no experiment uses, each with topics, threads or start-up time of its own; and some that few do.
        "functionsWorkerEnabled": "false",
        "webSocketServiceEnabled": "false",
        "systemTopicEnabled": switched,
        "topicLevelPoliciesEnabled": switched,
        **({"transactionCoordinatorEnabled": switched} if transactions else {}),
        # Memory and threads for three brokers on a small machine.
        "managedLedgerCacheSizeMB": 64,
        "numHttpServerThreads": 8,
        "numIOThreads": 4,
        "numOrderedExecutorThreads": 2,
        "bookkeeperClientNumIoThreads": 2,
        "bookkeeperClientNumWorkerThreads": 2,
        "maxMessagePublishBufferSizeInMB": 64,
    }


def _write(path: Path, settings: dict[str, object]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    return path


def _bookie(number: int) -> str:
    return f"pulsar-bookie-{number}"


def _endpoints(lab: Lab, nodes: list[Node], bookies: list[str], zookeeper: str, toxiproxy_url: str | None) -> Endpoints:
    def service(addresses: list[str]) -> str:
        return "pulsar://" + ",".join(addresses)

    admin_urls = [f"http://{node.host}:{node.web}" for node in nodes]
    return Endpoints(
        system="pulsar",
        client_bootstrap=service([node.advertised for node in nodes]),
        direct_bootstrap=service([f"{node.host}:{node.internal}" for node in nodes]),
        admin_urls=admin_urls,
        listener_name=LISTENER,
        toxiproxy_url=toxiproxy_url,
        brokers=[
            Broker(
                id=f"{node.host}:{node.web}",
                client_port=node.client,
                own_address=lab.own_address(node.name),
                proxy=node.name if node.proxy else None,
                proxy_port=node.proxy,
                status_file=lab.kept[node.name].status_file,
                hold_file=lab.kept[node.name].hold_file,
                admin_url=admin_url,
            )
            for node, admin_url in zip(nodes, admin_urls, strict=True)
        ],
        bookies=[
            Broker(
                id=bookie,
                client_port=int(bookie.rpartition(":")[2]),
                own_address=lab.own_address(_bookie(number)),
                status_file=lab.kept[_bookie(number)].status_file,
                hold_file=lab.kept[_bookie(number)].hold_file,
            )
            for number, bookie in enumerate(bookies, 1)
        ],
        zookeepers=[
            Broker(
                id=zookeeper,
                client_port=int(zookeeper.rpartition(":")[2]),
                own_address=lab.own_address(ZOOKEEPER),
                status_file=lab.kept[ZOOKEEPER].status_file,
                hold_file=lab.kept[ZOOKEEPER].hold_file,
            )
        ],
    )
