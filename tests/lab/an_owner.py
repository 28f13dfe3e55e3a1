"""A program for tests, to be run in a network of our own: a lab with one process, which sleeps in a network of its own.

`an_owner FOLDER`. It prints the number of that network, and stays until it is killed.
"""

import os
import signal
import sys
from pathlib import Path

from dedup_lab.systems import labs


def main() -> None:
    with labs.create(Path(sys.argv[1]) / "logs", apart=True) as lab:
        lab.place("sleeper")
        status = lab.start("sleeper", ["/bin/sleep", "600"]).status()
        assert status is not None
        print(os.stat(f"/proc/{status.pid}/ns/net").st_ino, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
