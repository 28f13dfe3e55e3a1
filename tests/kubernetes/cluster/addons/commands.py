"""kubectl and helm as a test runs them: for one cluster, and leaving nothing in the user's home.

Both like to keep what they learn of a cluster in folders of the user's, under the address of its API server. The next
cluster may have the same address and be quite another.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dedup.errors import PlatformError

TIMEOUT_S: Final = 300
FOLDERS: Final = ("KUBECACHEDIR", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")


@dataclass(frozen=True)
class Commands:
    """A command-line tool for the cluster of a kubeconfig file; its notes are kept in the folder `scratch`."""

    program: Path
    kubeconfig: Path
    scratch: Path

    def run(self, *argv: str) -> str:
        """What the tool prints. PlatformError, in the tool's own words, when it fails."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "NO_PROXY": "*", "no_proxy": "*"}
        environment |= {folder: str(self.scratch / folder) for folder in FOLDERS}
        done = subprocess.run(
            [self.program, *argv], env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
        if done.returncode != 0:
            raise PlatformError(
                where=f"{self.program.name} {' '.join(argv)}",
                got=(done.stderr.strip() or f"exit code {done.returncode}")[-1000:],
                rule="it is expected to succeed on every cluster of the tests",
                todo=f"look with {self.program.name} --kubeconfig {self.kubeconfig}",
            )
        return done.stdout
