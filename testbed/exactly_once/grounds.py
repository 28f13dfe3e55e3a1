"""What runs stand on, started once for many of them: Kafka, PostgreSQL and Debezium."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import confluent_kafka as ck

from dedup_lab.caches import Progress, silent
from dedup_lab.systems import besides, debezium, kafka, labs, postgres
from dedup_runners.services.databases import Database
from testbed.exactly_once.runs import Ground

KAFKA: Final = "4.3.1"


@contextmanager
def ground(logs: Path, progress: Progress = silent) -> Iterator[Ground]:
    """Start everything; at the end nothing is left but the logs. DedupError if a part does not come up."""
    with labs.create(logs) as lab:
        database = postgres.start(lab)
        endpoints = kafka.start(lab, version=KAFKA, proxied=False, brokers=1, progress=progress)
        capture = debezium.Capture(lab, endpoints, database, progress)
        yield Ground(endpoints, besides.of(database), capture)


def versions(ground: Ground) -> tuple[str, ...]:
    """Of the parts that runs stand on."""
    database = Database(ground.beside.database, ground.beside.psql)
    ((server,),) = database.ask("SHOW server_version;")
    parts = {
        "Kafka": KAFKA,
        "PostgreSQL": server,
        "Debezium": debezium.VERSION,
        "confluent-kafka": ck.__version__,
    }
    return tuple(f"{name} {version}" for name, version in parts.items())
