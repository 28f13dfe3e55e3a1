"""Change data capture: Debezium's connector for PostgreSQL in a worker of Kafka Connect, for the outbox of all runs.

Debezium reads the outbox by logical decoding, and its event router sends each row to the topic that the row names. The
jars are a locked list, as those of brokers are (dedup_lab.systems.lock). A worker of its own, with its position in a
file, is what Kafka calls standalone.
"""

import os
import secrets
import signal
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from dedup.experiment.endpoints import Endpoints
from dedup.faults.kill import KILLED
from dedup_lab import java
from dedup_lab.caches import Progress
from dedup_lab.systems import jars
from dedup_lab.systems.jvms import Jvm
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import LOOPBACK, free
from dedup_lab.systems.postgres import write_secret
from dedup_runners.services.databases import Database
from dedup_runners.waiting import until

VERSION: Final = "3.6.1.Final"
FLAGS: Final = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
NAME: Final = "connect"
OFFSETS: Final = "offsets"
"""The file in which the worker stores its position, every minute, as is Kafka Connect's default."""
SECRET: Final = "secret.properties"
"""The file with its password for the database."""
READY_S: Final = 120.0


class Capture:
    """The worker with its connector, which is started again where it was when it has been killed."""

    def __init__(self, lab: Lab, endpoints: Endpoints, database: Database, progress: Progress) -> None:
        classpath = jars.classpath("debezium", VERSION, progress=progress)
        self._lab, self._database, self._jvm = lab, database, Jvm(java.find(), classpath)
        self._folder = lab.data(NAME)
        write_secret(self._folder / SECRET, f"password={make_role(database)}\n")
        self._bootstrap, self._starts = endpoints.direct_bootstrap, 0
        self.start()

    @property
    def stored_ns(self) -> int:
        """When it stored its position last (nanoseconds since 1970); 0: never."""
        offsets = self._folder / OFFSETS
        return offsets.stat().st_mtime_ns if offsets.exists() else 0

    def kill(self) -> int:
        """Kill the worker (SIGKILL), and wait until it is dead; its exit code. Then there is none, until `start`."""
        self._kept.check()
        status = self._kept.status()
        assert status is not None and status.pid is not None  # what `check` lets pass runs
        os.kill(status.pid, signal.SIGKILL)
        until(lambda: self._exit_codes() == [KILLED], READY_S, "Kafka Connect is dead")
        self._lab.forget(self._kept)
        return KILLED

    def _exit_codes(self) -> list[int]:
        status = self._kept.status()
        return [each.code for each in status.exits] if status is not None else []

    def start(self) -> None:
        """Start a worker where the last one had stored that it was."""
        (port,) = free(1)
        worker = {
            "bootstrap.servers": self._bootstrap,
            "key.converter": STRING,
            "value.converter": STRING,
            "offset.storage.file.filename": self._folder / OFFSETS,
            "plugin.discovery": "service_load",
            "listeners": f"http://{LOOPBACK}:{port}",
            "connector.client.config.override.policy": "None",
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "config.providers.file.param.allowed.paths": self._folder / SECRET,
        }
        paths = [
            _written(self._folder / "worker.properties", worker),
            _written(self._folder / "outbox.properties", connector(self._database, self._folder / SECRET)),
        ]
        self._starts += 1
        name = f"{NAME}-{self._starts}"
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        kept = self._kept = self._jvm.start(self._lab, name, FLAGS, main, paths)

        def reads() -> bool:
            kept.check()
            return bool(self._database.ask("SELECT 1 FROM pg_replication_slots WHERE active;"))

        until(reads, READY_S, "Debezium reads the database's log", 0.2)


def make_role(database: Database) -> str:
    """Make it a role that may read the database's log and no more; its password.

    Whoever can ask the worker, which has no log-in, can log in as it does: so it is no superuser.
    """
    password = secrets.token_hex(16)
    database.ask(
        f"""SET log_min_error_statement TO panic;
        CREATE ROLE {NAME} LOGIN REPLICATION PASSWORD '{password}';
        GRANT CREATE ON DATABASE postgres TO {NAME};
        ALTER TABLE outbox OWNER TO {NAME};"""
    )
    return password


def connector(database: Database, secret: Path) -> dict[str, object]:
    """Its settings. They name the file with the password (KIP-297), for the worker shows settings to who asks."""
    at = urlsplit(database.url)
    return {
        "name": "outbox",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": 1,
        "database.hostname": at.hostname,
        "database.port": at.port,
        "database.user": NAME,
        "database.password": f"${{file:{secret}:password}}",
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
