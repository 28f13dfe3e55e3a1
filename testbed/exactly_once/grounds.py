"""What runs stand on, started once for many of them: Kafka, PostgreSQL, Debezium and the payment service."""

import importlib.metadata
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient

from dedup_lab.caches import Progress, silent
from dedup_lab.systems import kafka, labs
from testbed.exactly_once import captures
from testbed.exactly_once.captures import Capture
from testbed.exactly_once.databases import Database
from testbed.exactly_once.payments import Payments
from testbed.exactly_once.runs import Ground

KAFKA: Final = "4.3.1"


@contextmanager
def ground(logs: Path, progress: Progress = silent) -> Iterator[Ground]:
    """Start everything; at the end nothing is left but the logs. DedupError if a part does not come up."""
    with ExitStack() as rest:
        lab = rest.enter_context(labs.create(logs))
        database = Database.start(lab)
        endpoints = kafka.start(lab, version=KAFKA, proxied=False, brokers=1, progress=progress)
        capture = Capture(lab, endpoints, database, progress)
        payments = Payments()
        rest.callback(payments.close)
        client: dict[str, str | int | float | bool] = {
            "bootstrap.servers": endpoints.client_bootstrap,
            "log_level": "0",
        }
        yield Ground(endpoints.client_bootstrap, database, payments, capture, AdminClient(client), ck.Producer(client))


def versions(ground: Ground) -> tuple[str, ...]:
    """Of the parts that runs stand on."""
    ((server,),) = ground.database.ask("SHOW server_version;")
    parts = {
        "Kafka": KAFKA,
        "PostgreSQL": server,
        "Debezium": captures.VERSION,
        "confluent-kafka": ck.__version__,
        "dedup": importlib.metadata.version("dedup"),
    }
    return tuple(f"{name} {version}" for name, version in parts.items())
