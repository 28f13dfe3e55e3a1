"""PostgreSQL as a process of the lab lets in nobody without its password, and leaves nothing behind when killed."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dedup.errors import PlatformError
from dedup_lab.systems import debezium, labs, postgres
from dedup_lab.systems.labs import Lab

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with labs.create(tmp_path) as made:
        yield made


def test_who_has_no_password_is_let_in_neither_as_superuser_nor_with_another_and_its_owner_is(lab: Lab) -> None:
    database = postgres.start(lab)
    assert database.ask("SELECT 1;") == [["1"]]
    bare, _, passfile = database.url.partition("?passfile=")
    with pytest.raises(PlatformError, match="no password supplied"):
        database._replace(url=f"{bare}?passfile=/dev/null").ask("SELECT 1;")
    wrong = Path(passfile).with_name("wrong")
    postgres.write_secret(wrong, "*:*:*:*:another\n")
    with pytest.raises(PlatformError, match="password authentication failed"):
        database._replace(url=f"{bare}?passfile={wrong}").ask("SELECT 1;")
    assert stat.S_IMODE(Path(passfile).stat().st_mode) == 0o600


def test_debezium_reads_the_log_as_a_role_that_may_run_no_program(lab: Lab) -> None:
    """Its password can be had by who asks Kafka Connect. Its twin, the tester's own role, may."""
    database = postgres.start(lab)
    passfile = lab.data("connect") / "passfile"
    postgres.write_secret(passfile, f"*:*:*:*:{debezium.make_role(database)}\n")
    bare, _, _ = database.url.replace(f"//{postgres.NAME}@", f"//{debezium.NAME}@").partition("?")
    capture = database._replace(url=f"{bare}?passfile={passfile}")
    assert capture.ask("SELECT current_user;") == [["connect"]]
    runs = "COPY (SELECT 1) TO PROGRAM 'cat >/dev/null';"
    with pytest.raises(PlatformError, match="permission denied to COPY to or from an external program"):
        capture.ask(runs)
    database.ask(runs)


def test_no_log_and_no_command_line_has_the_password(lab: Lab) -> None:
    _, _, passfile = postgres.start(lab).url.partition("?passfile=")
    password = Path(passfile).read_bytes().strip().rpartition(b":")[2]
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    logs = [path.read_bytes() for path in lab.logs.iterdir()]
    assert password and commands and not [text for text in (*commands, *logs) if password in text]


def test_its_shared_memory_goes_with_it(lab: Lab) -> None:
    """Killed, it removes nothing: so it has nothing that is not in its folder or in its namespace."""
    if not postgres.apart():
        pytest.skip("this machine allows no namespaces")
    postgres.start(lab)
    status = lab.kept[postgres.NAME].status()
    assert status is not None
    server = Path("/proc", str(status.pid))
    assert "/dev/shm/" not in (server / "maps").read_text(encoding="utf-8")
    assert (server / "ns/ipc").readlink() != Path("/proc/self/ns/ipc").readlink()
    assert not made_by(status.pid), "it is not in the machine's own namespace"


def made_by(pid: int | None) -> list[str]:
    """The segments of shared memory that a process made, as the kernel lists them: its id is the fifth column."""
    lines = Path("/proc/sysvipc/shm").read_text(encoding="utf-8").splitlines()[1:]
    return [line for line in lines if line.split()[4] == str(pid)]
