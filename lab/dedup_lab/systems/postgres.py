"""PostgreSQL on this machine, without root: a process of the lab, for services that are tested (`consumer.service`).

PostgreSQL refuses to be root; a root's server runs as `nobody` in a user namespace, in which its files are its own.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from dedup.errors import EnvironmentError_, PlatformError, one_line
from dedup_lab.systems import packages
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import LOOPBACK, free
from dedup_runners.services.databases import Database
from dedup_runners.waiting import until

NAME: Final = "postgres"
READY_S: Final = 60.0
STEP_S: Final = 60.0
SETTINGS: Final = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "wal_level": "logical",
    "shared_buffers": "32MB",
}


def start(lab: Lab) -> Database:
    """Start a server in the lab, and make its tables. PlatformError or EnvironmentError_ if it does not come up."""
    programs, (port,) = packages.folder() / packages.SERVER, free(1)
    folder = lab.data(NAME) / "cluster"
    _make(programs, folder)
    given = [each for setting in SETTINGS.items() for each in ("-c", "=".join(setting))]
    command = [*as_nobody(), str(programs / "postgres"), "-D", str(folder), "-p", str(port), *given]
    kept = lab.start(NAME, command)
    asked = [str(programs / "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(port)]

    def ready() -> bool:
        kept.check()
        return subprocess.run(asked, timeout=STEP_S, check=False).returncode == 0

    until(ready, READY_S, "PostgreSQL accepts connections")
    database = Database(f"postgresql://{NAME}@{LOOPBACK}:{port}/{NAME}", programs / "psql")
    database.make_tables()
    return database


def _make(programs: Path, folder: Path) -> None:
    """Make an empty cluster of databases, which trusts who asks from this machine."""
    command = [*as_nobody(), str(programs / "initdb"), "-D", str(folder), "-U", NAME, "--auth=trust", "--no-sync"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=STEP_S)
    if done.returncode != 0:
        raise PlatformError(
            where="initdb",
            got=one_line(done.stderr)[-300:] or f"exit code {done.returncode}",
            rule="PostgreSQL's database is made in the lab's folder",
            todo="read what it says; the lab's folder is in the cache (DEDUP_CACHE names another)",
        )


def as_nobody() -> list[str]:
    """What a program is started with that must not be root. EnvironmentError_ if there is no way."""
    if os.geteuid() != 0:
        return []
    inside = [shutil.which("unshare") or "unshare", "--user", "--map-user=65534", "--map-group=65534"]
    try:
        code = subprocess.run([*inside, "true"], capture_output=True, timeout=STEP_S, check=False).returncode
    except FileNotFoundError:
        code = 127
    if code != 0:
        raise EnvironmentError_(
            where="unshare --user",
            got=f"exit code {code}",
            rule="PostgreSQL does not run as root, and a root's runs in a user namespace",
            todo="run as another user, or on a machine that has util-linux and allows user namespaces",
        )
    return inside
