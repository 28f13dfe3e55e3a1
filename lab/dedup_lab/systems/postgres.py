"""PostgreSQL on this machine, without root: a process of the lab, for services that are tested (`consumer.service`).

PostgreSQL refuses to be root; a root's server runs as `nobody` in a user namespace, in which its files are its own.
Whoever may log in may run programs as the server's user, so it trusts nobody: each server has a password of its own, in
files that only their owner can read. The lab kills it at the end, after which it removes nothing; so its shared memory
is in its folder, and, where that can be, in an IPC namespace that goes with it.
"""

import os
import secrets
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import quote

from dedup.errors import EnvironmentError_
from dedup_lab.systems import packages
from dedup_lab.systems.labs import Lab
from dedup_lab.systems.ports import LOOPBACK, free
from dedup_runners.commands import answer
from dedup_runners.services.databases import Database
from dedup_runners.waiting import until

NAME: Final = "postgres"
READY_S: Final = 180.0
STEP_S: Final = 180.0
SETTINGS: Final = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "dynamic_shared_memory_type": "mmap",
    "wal_level": "logical",
    "shared_buffers": "32MB",
}


def start(lab: Lab) -> Database:
    """Start a server in the lab, and make its tables. PlatformError or EnvironmentError_ if it does not come up."""
    programs, (port,) = packages.folder() / packages.SERVER, free(1)
    folder, passfile = lab.data(NAME) / "cluster", lab.data(NAME) / "passfile"
    password = secrets.token_hex(16)
    write_secret(passfile, f"*:*:*:*:{password}\n")
    _make(programs, folder, password)
    given = [each for setting in SETTINGS.items() for each in ("-c", "=".join(setting))]
    command = [*apart(), str(programs / "postgres"), "-D", str(folder), "-p", str(port), *given]
    kept = lab.start(NAME, command)
    asked = [str(programs / "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(port)]

    def ready() -> bool:
        kept.check()
        try:
            return subprocess.run(asked, timeout=STEP_S, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    until(ready, READY_S, "PostgreSQL accepts connections")
    url = f"postgresql://{NAME}@{LOOPBACK}:{port}/{NAME}?passfile={quote(str(passfile))}"
    database = Database(url, programs / "psql")
    database.make_tables()
    return database


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def _make(programs: Path, folder: Path, password: str) -> None:
    """Make an empty cluster of databases, which lets in who knows the password."""
    told = folder.with_name("password")
    write_secret(told, password)
    logins = ["-U", NAME, "--auth=scram-sha-256", f"--pwfile={told}"]
    try:
        answer(
            [*apart(), str(programs / "initdb"), "-D", str(folder), *logins, "--no-sync"],
            where="initdb",
            rule="PostgreSQL's database is made in the lab's folder",
            todo="read what it says; the lab's folder is in the cache (DEDUP_CACHE names another)",
            timeout_s=STEP_S,
        )
    finally:
        told.unlink()


@cache
def apart() -> tuple[str, ...]:
    """What PostgreSQL's programs are started with: in namespaces, without which a root cannot run them.

    EnvironmentError_ if there are none. Another user's server runs without them, too; it leaves one segment of shared
    memory then, of some bytes, each time that it is killed.
    """
    root = os.geteuid() == 0
    users = ("--map-user=65534", "--map-group=65534") if root else ("--map-current-user",)
    inside = (shutil.which("unshare") or "unshare", "--user", "--ipc", *users)
    try:
        answer(
            [*inside, "true"],
            where="unshare --user --ipc",
            rule="PostgreSQL does not run as root, and a root's runs in a user namespace",
            todo="run as another user, or on a machine that has util-linux and allows user namespaces",
            timeout_s=STEP_S,
            error=EnvironmentError_,
        )
    except EnvironmentError_:
        if root:
            raise
        return ()
    return inside
