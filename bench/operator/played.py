"""The operator's own program, with one thing played: the last lines that a report's pod said.

An API server without nodes has no logs to give. Everything else is what runs in a cluster.
"""

import sys

from tests.operator.worlds import TOLD, document

import dedup_operator.__main__ as program
from dedup_operator.clusters import LiveCluster


class WithoutNodes(LiveCluster):
    """An API server that nothing runs on."""

    def log(self, namespace: str, pod: str) -> str:
        return document(TOLD)


if __name__ == "__main__":
    program.LiveCluster = WithoutNodes  # type: ignore[misc]
    sys.exit(program.main())
