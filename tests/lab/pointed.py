"""Commands that are pointed at running brokers: called as a user does, and what they leave there."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import confluent_kafka as ck

from dedup.experiment.endpoints import Endpoints
from dedup_runners.interposer.protocols import Address
from dedup_runners.waiting import until

GONE_S: Final = 60.0


def bootstrap(system: Endpoints) -> list[Address]:
    """One broker; the others are found from there."""
    host, _, port = system.client_bootstrap.split(",")[-1].rpartition(":")
    return [Address(host, int(port))]


def dedup(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """The command, with a place of its own for temporary files."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "dedup_lab.cli", *arguments], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def topics(system: Endpoints, prefix: str) -> set[str]:
    """Kafka's topics of that prefix."""
    asking = ck.Consumer({"bootstrap.servers": system.direct_bootstrap, "group.id": "topics"})
    try:
        return {name for name in asking.list_topics(timeout=10).topics if name.startswith(prefix)}
    finally:
        asking.close()


def gone(system: Endpoints, prefix: str) -> None:
    """Return when no topic of that prefix is there: for a moment a broker may name one that another has deleted."""
    until(lambda: not topics(system, prefix), GONE_S, f"no topic {prefix}* is left")
