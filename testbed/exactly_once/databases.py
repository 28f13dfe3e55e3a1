"""PostgreSQL on this machine, without root: one server for all runs, and what is in its tables of one run.

The tester asks it by PostgreSQL's own `psql`, not by the driver of the service under test. PostgreSQL refuses to be
root; a root's server runs as `nobody` in a user namespace, in which its files are its own.

Three tables, each with the run's name: `remembered`, the ids of orders that were processed; `payments`, the row that
processing an order writes; `outbox`, the events to be emitted, in the columns that Debezium's event router reads.
"""

import csv
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple, Self

from dedup.errors import EnvironmentError_, PlatformError, one_line
from dedup_lab.systems.keepers import Kept
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import LOOPBACK, free
from dedup_runners.waiting import until
from testbed.exactly_once import packages

OWNER: Final = "postgres"
READY_S: Final = 60.0
ASK_S: Final = 60.0
TABLES: Final = """
CREATE TABLE remembered (run text, id integer, PRIMARY KEY (run, id));
CREATE TABLE payments (run text, id integer, life integer);
CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL,
  aggregateid text NOT NULL, type text NOT NULL, payload text NOT NULL);
"""


class Database(NamedTuple):
    """A server that runs; `url` is what a driver connects to."""

    programs: Path
    port: int
    kept: Kept

    @classmethod
    def start(cls, lab: Lab) -> Self:
        """Start a server in the lab, and make its tables. PlatformError or EnvironmentError_ if it does not come up."""
        programs, (port,) = packages.folder() / packages.SERVER, free(1)
        folder = lab.data(OWNER) / "cluster"
        _run([*as_nobody(), str(programs / "initdb"), "-D", str(folder), "-U", OWNER, "--auth=trust", "--no-sync"])
        settings = {
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "wal_level": "logical",
            "shared_buffers": "32MB",
        }
        given = [each for setting in settings.items() for each in ("-c", "=".join(setting))]
        kept = lab.start(OWNER, [*as_nobody(), str(programs / "postgres"), "-D", str(folder), "-p", str(port), *given])
        server = cls(programs, port, kept)
        until(server._is_ready, READY_S, "PostgreSQL accepts connections")
        server.ask(TABLES)
        return server

    @property
    def url(self) -> str:
        return f"postgresql://{OWNER}@{LOOPBACK}:{self.port}/{OWNER}"

    def ask(self, sql: str, **values: str) -> list[list[str]]:
        """The rows of a query, as text; `:'name'` in it is a value. PlatformError in PostgreSQL's own words."""
        given = [each for value in values.items() for each in ("-v", "=".join(value))]
        command = [str(self.programs / "psql"), self.url, "-X", "-q", "-t", "--csv", "-v", "ON_ERROR_STOP=1", *given]
        return list(csv.reader(_run(command, sql).splitlines()))

    def _is_ready(self) -> bool:
        self.kept.check()
        return not subprocess.run(
            [str(self.programs / "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(self.port)], timeout=ASK_S, check=False
        ).returncode


def as_nobody() -> list[str]:
    """What a program is started with that must not be root."""
    if os.geteuid() != 0:
        return []
    inside = [shutil.which("unshare") or "unshare", "--user", "--map-user=65534", "--map-group=65534"]
    if subprocess.run([*inside, "true"], capture_output=True, timeout=ASK_S, check=False).returncode:
        raise EnvironmentError_(
            where="unshare --user",
            got="a refusal",
            rule="PostgreSQL does not run as root, and a root's runs in a user namespace",
            todo="run as another user, or on a machine that allows user namespaces",
        )
    return inside


def _run(command: list[str], given: str = "") -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=ASK_S)
    if done.returncode != 0:
        raise PlatformError(
            where=next(Path(each).name for each in command if "/" in each),
            got=one_line(done.stderr)[-300:] or f"exit code {done.returncode}",
            rule="PostgreSQL's programs do what the test asks",
            todo="read postgres.log in the folder of logs",
        )
    return done.stdout
