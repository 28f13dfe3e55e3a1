"""What the operator needs while many experiments are there, and how soon it says something of a new one.

    python bench/operator [--experiments N] [--go N] [--at-a-time N] [--idle-s S] [--kubeconfig FILE]
    python bench/operator [--running N] [--stalled N] [--settle-s S] [--idle-s S] [--kubeconfig FILE]

Without a kubeconfig (or DEDUP_TEST_KUBECONFIG) an API server is started. Exits with 1 if a target is missed.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))  # the player and the API server are the testbed's
    from loads import main

    sys.exit(main())
