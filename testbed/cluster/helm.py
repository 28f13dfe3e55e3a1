"""Helm as tests use it: the pinned program, away from the user's own settings, one method a command.

Values are data, passed on standard input. An error carries Helm's own message.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from testbed.cluster import api_servers, binaries
from testbed.cluster.binaries import HELM

CHARTS: Final = Path(__file__).parents[2] / "charts"
TIMEOUT_S: Final = 180
Values = Mapping[str, Any]


class Refused(Exception):
    """Helm ended with an error; the text is its output."""


@dataclass(frozen=True)
class Helm:
    """One chart as one release in one namespace. `home` is an empty folder for what Helm wants to keep."""

    chart: Path
    release: str
    namespace: str
    home: Path
    kubeconfig: Path | None = None

    def lint(self, values: Values) -> str:
        """Check the chart with these values; strictly."""
        return self._run("lint", str(self.chart), "--strict", "--values=-", values=values)

    def render(self, values: Values) -> list[dict[str, Any]]:
        """The objects that an installation would make, those of `helm test` too. No cluster is asked."""
        text = self._run("template", self.release, str(self.chart), "--values=-", values=values)
        return [document for document in yaml.safe_load_all(text) if document]

    def upgrade(self, values: Values) -> str:
        """Install, or upgrade what is installed; returns when the API server has the objects. Helm's NOTES."""
        return self._run("upgrade", "--install", self.release, str(self.chart), "--values=-", values=values)

    def test(self, timeout_s: int) -> str:
        """`helm test`: run the chart's own test in the cluster."""
        return self._run("test", self.release, f"--timeout={timeout_s}s", timeout_s=timeout_s + TIMEOUT_S)

    def uninstall(self) -> str:
        """Uninstall the release; its objects are being deleted when this returns."""
        return self._run("uninstall", self.release)

    def _run(self, *arguments: str, values: Values | None = None, timeout_s: int = TIMEOUT_S) -> str:
        homes = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECACHEDIR")
        kubeconfig = str(self.kubeconfig or self.home / "no-cluster")
        done = subprocess.run(
            [binaries.find(HELM), *arguments, "--namespace", self.namespace, "--kubeconfig", kubeconfig],
            input=json.dumps(values or {}),
            env=os.environ | {name: str(self.home) for name in homes} | api_servers.direct(),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode != 0:
            raise Refused(f"{done.stderr}{done.stdout}")
        return done.stdout
