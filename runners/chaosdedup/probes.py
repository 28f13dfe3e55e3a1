"""What a steady-state hypothesis can ask of a system, each with an answer that a tolerance can be held against."""

import os
from typing import Any

import psutil
from chaoslib.exceptions import ActivityFailed

from chaosdedup import systems
from dedup.experiment.systems import Protocol
from dedup_runners.chaos import pings
from dedup_runners.chaos.watchdog import Toxiproxy

__all__ = ["answered_in_ms", "count_toxics", "is_healthy", "leader", "process_status", "stored_messages"]


def answered_in_ms(protocol: Protocol, host: str, port: int, timeout_s: float = 10.0) -> float:
    """
    How many milliseconds the broker at `host` and `port` takes to answer the smallest question, before any log-in.

    It fails if there is no answer within `timeout_s`. `protocol` is kafka or pulsar. No TLS.
    """
    if protocol not in pings.QUESTIONS:
        raise ActivityFailed(f"protocol: got {protocol}; write {' or '.join(pings.QUESTIONS)}")
    try:
        return pings.answered_in_ms(protocol, host, port, timeout_s)
    except OSError as error:
        raise ActivityFailed(f"{host}:{port}: {error or type(error).__name__}") from None


def is_healthy(
    protocol: str, bootstrap: str, topic: str = "", admin_url: str = "", secrets: dict[str, Any] | None = None
) -> bool:
    """
    Whether each address of `bootstrap` answers, and each partition of the topic has a leader and all its replicas.
    Of Pulsar: whether `admin_url` answers, and each partition of the topic has an owner.

    Without a topic it is asked of the brokers alone. `admin_url` is Pulsar's.
    """
    try:
        with systems.asked(protocol, bootstrap, admin_url, secrets) as admin:
            return admin.unhealthy(topic or None) is None
    except systems.Unreached:
        return False


def leader(
    protocol: str,
    bootstrap: str,
    topic: str,
    partition: int = 0,
    admin_url: str = "",
    secrets: dict[str, Any] | None = None,
) -> str:
    """
    The id of the broker that leads the partition of the topic, or owns it. `admin_url` is Pulsar's.
    """
    with systems.asked(protocol, bootstrap, admin_url, secrets) as admin:
        return admin.leader(topic, partition)


def stored_messages(
    protocol: str, bootstrap: str, topic: str, admin_url: str = "", secrets: dict[str, Any] | None = None
) -> int:
    """
    How far all partitions of the topic reach, in sum: positions in Kafka's logs, entries in Pulsar's ledgers.
    """
    with systems.asked(protocol, bootstrap, admin_url, secrets) as admin:
        return systems.stored(admin, topic)


def count_toxics(toxiproxy_url: str) -> int:
    """
    How many toxics Toxiproxy has on all its proxies.
    """
    toxiproxy = Toxiproxy(toxiproxy_url)
    try:
        proxies = toxiproxy.call("GET", "/proxies")
    except OSError as error:
        raise ActivityFailed(f"toxiproxy_url: {error}") from None
    finally:
        toxiproxy.close()
    assert isinstance(proxies, dict)
    return sum(len(proxy["toxics"]) for proxy in proxies.values())


def process_status(pid: int) -> str:
    """
    What the kernel says of a process of this machine: running, sleeping, stopped, …, or gone.
    """
    try:
        return str(psutil.Process(pid).status()) if os.path.exists(f"/proc/{pid}") or psutil.pid_exists(pid) else "gone"
    except psutil.NoSuchProcess:
        return "gone"
