"""Change data capture: Debezium's connector for PostgreSQL in a worker of Kafka Connect, for the outbox of all runs.

Debezium reads the outbox by logical decoding, and its event router sends each row to the topic that the row names. The
jars are a locked list beside this file, made as brokers' are (dedup_lab.systems.lock). A worker of its own, with its
position in a file, is what Kafka calls standalone.
"""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from dedup.experiment.endpoints import Endpoints
from dedup_lab import java
from dedup_lab.caches import Progress
from dedup_lab.systems import jars
from dedup_lab.systems.jvms import Jvm
from dedup_lab.systems.keepers import Kept
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import LOOPBACK, free
from testbed.exactly_once.databases import Database

VERSION: Final = "3.6.1.Final"
FLAGS: Final = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
NAME: Final = "connect"
END: Final = "end"
"""What the last row of a run's outbox has as its event: when it is read, all before it have been emitted."""


def start(lab: Lab, endpoints: Endpoints, database: Database, progress: Progress) -> Kept:
    """Start the worker with its connector; it captures what is written from then on, or soon after."""
    jvm = Jvm(java.find(), jars.classpath("debezium", VERSION, progress=progress, locks=Path(__file__).parent))
    folder = lab.data(NAME)
    (port,) = free(1)
    worker = {
        "bootstrap.servers": endpoints.client_bootstrap,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": folder / "offsets",
        "plugin.discovery": "service_load",
        "listeners": f"http://{LOOPBACK}:{port}",
    }
    paths = [_written(folder / "worker.properties", worker), _written(folder / "outbox.properties", _connector(database))]
    return jvm.start(lab, NAME, FLAGS, "org.apache.kafka.connect.cli.ConnectStandalone", paths)


def _connector(database: Database) -> dict[str, object]:
    at = urlsplit(database.url)
    return {
        "name": "outbox",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": 1,
        "database.hostname": at.hostname,
        "database.port": at.port,
        "database.user": at.username,
        "database.password": "none",
        "database.dbname": at.path.strip("/"),
        "plugin.name": "pgoutput",
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.outbox",
        "topic.prefix": "captured",
        "snapshot.mode": "no_data",
        "tombstones.on.delete": "false",
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.outbox.route.topic.replacement": "${routedByValue}",
    }


def _written(path: Path, settings: dict[str, object]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    return str(path)
