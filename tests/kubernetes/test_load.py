"""The operator under a load of experiments, before a real API server: bench/operator, as everybody can run it.

What it needs is bounded here as there (issue 6). How soon it says something depends on who else is at work; beside
other tests it has longer, and its figures are among the closing lines.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from testbed.cluster.api_servers import ApiServer

pytestmark = pytest.mark.kubernetes

ROOT: Final = Path(__file__).parents[2]
IDLE_S: Final = 20
FIRST_CONDITION_S: Final = 30
BOUND_S: Final = 500


def test_two_hundred_experiments_cost_little(api_server: ApiServer, tell: Callable[[str], None]) -> None:
    """All are applied at once, suspended; then five are let go, to their verdicts."""
    command = [sys.executable, str(ROOT / "bench" / "operator"), "--kubeconfig", str(api_server.kubeconfig)]
    command += ["--idle-s", str(IDLE_S), "--first-condition-s", str(FIRST_CONDITION_S)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BOUND_S)
    for line in done.stdout.splitlines():
        tell(" ".join(line.split()))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("200 experiments, then 5 to their verdicts: Pass\n")
