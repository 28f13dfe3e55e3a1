"""Programs that do one thing and end: run to their end, bounded, and quoted when they fail."""

import os
import subprocess
from pathlib import Path
from typing import Final

import tenacity

from dedup.errors import EnvironmentError_

CHECKOUT: Final = Path(__file__).parents[2]
AGAIN: Final = tenacity.Retrying(
    stop=tenacity.stop_after_attempt(4),
    wait=tenacity.wait_exponential_jitter(multiplier=0.5, max=8),
    retry=tenacity.retry_if_exception_type(EnvironmentError_),
    reraise=True,
)
"""A failed registry request is retried. What was fetched already is kept."""


def run(command: list[str], settings: dict[str, str], timeout_s: float, rule: str) -> str:
    """Run a program to its end and return what it said; EnvironmentError_ with its last words when it fails.

    Our own Python's settings are not passed on: a Python that debootstrap installs would take warnings for errors.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env={**inherited, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise EnvironmentError_(
            where=" ".join(command)[:200],
            got=" / ".join(said[-3:])[:400],
            rule=rule,
            todo="check the network, the disk and this machine's package settings, then run again",
        )
    return done.stdout
