"""The first thing a newcomer may meet: a prerequisite is missing, and one sentence says which, why, and what to do.

Each test makes a machine out of a folder of programs: the few that the script itself needs, and stand-ins for the rest.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

SCRIPT: Final = Path(__file__).parents[1] / "scripts" / "prerequisites.sh"
TOOLS: Final = ("sh", "uname", "sed", "head", "grep")
JAVA: Final = """case "$*" in *--add-modules*) {module} ;; esac
echo 'openjdk version "{version}" 2025-04-15' >&2
"""


class Machine:
    """A PATH of its own, on which everything is there until it is taken away."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder / "bin"
        self._bin.mkdir()
        for tool in TOOLS:
            (self._bin / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
        self.has("make", "")
        self.has("apt-get", "")
        self.has("python3", f'exec "{sys.executable}" "$@"\n')
        self.has_java("17.0.15")

    def has(self, program: str, script: str) -> None:
        path = self._bin / program
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)

    def has_java(self, version: str, *, module: bool = True) -> None:
        self.has("java", JAVA.format(version=version, module=":" if module else "exit 1"))

    def lacks(self, program: str) -> None:
        (self._bin / program).unlink()

    def check(self, **environment: str) -> "subprocess.CompletedProcess[str]":
        variables = {"PATH": str(self._bin), "HOME": os.environ.get("HOME", "/"), **environment}
        return subprocess.run(
            ["sh", str(SCRIPT)], env=variables, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_when_nothing_is_missing_the_chosen_python_is_printed(machine: Machine) -> None:
    done = machine.check()
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip()).samefile(sys.executable)


@pytest.mark.parametrize(
    ("program", "what", "command"),
    [
        ("java", "Java 17 or newer is missing, and Kafka, Pulsar and Spark run on it", "openjdk-17-jre-headless"),
        ("python3", "Python 3.11 or newer is missing", "python3 python3-venv"),
        ("make", "make is missing", "make"),
    ],
)
def test_what_is_missing_is_said_with_its_purpose_and_its_command(
    machine: Machine, program: str, what: str, command: str
) -> None:
    machine.lacks(program)
    done = machine.check()
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"setup: {what}")
    assert line.endswith(f"install it with: sudo apt-get install {command}")


def test_everything_that_is_missing_is_said_at_once(machine: Machine) -> None:
    machine.lacks("java")
    machine.lacks("make")
    assert len(machine.check().stderr.splitlines()) == 2


@pytest.mark.parametrize("version", ["11.0.22", "1.8.0_402"])
def test_an_old_java_is_named(machine: Machine, version: str) -> None:
    machine.has_java(version)
    done = machine.check()
    assert done.returncode == 1
    assert f'too old (openjdk version "{version}" 2025-04-15)' in done.stderr


def test_a_java_too_small_for_spark_is_refused(machine: Machine) -> None:
    machine.has_java("21.0.1", module=False)
    done = machine.check()
    assert done.returncode == 1
    assert "jdk.incubator.vector" in done.stderr


def test_java_home_comes_before_the_path(machine: Machine, tmp_path: Path) -> None:
    done = machine.check(JAVA_HOME=str(tmp_path / "gone"))
    assert done.returncode == 1
    assert f"unset JAVA_HOME, which is {tmp_path}/gone" in done.stderr


def test_a_python_that_is_too_old_is_no_python(machine: Machine) -> None:
    machine.has("python3", "exit 1\n")
    assert "Python 3.11 or newer is missing" in machine.check().stderr


def test_a_python_without_venv_is_told_from_no_python(machine: Machine) -> None:
    machine.has("python3", 'case "$*" in *ensurepip*) exit 1 ;; *) exit 0 ;; esac\n')
    done = machine.check()
    assert done.returncode == 1
    assert "python3 cannot make virtual environments" in done.stderr
    assert "python3-venv" in done.stderr


def test_macos_is_untested_and_others_are_refused(machine: Machine) -> None:
    machine.lacks("uname")
    machine.has("uname", "echo Darwin\n")
    darwin = machine.check()
    machine.has("uname", "echo SunOS\n")
    solaris = machine.check()
    assert (darwin.returncode, solaris.returncode) == (0, 1)
    assert "nobody has tested it" in darwin.stderr
    assert "SunOS is not supported" in solaris.stderr
