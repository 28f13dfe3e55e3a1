"""A program for tests, to be run in a network of our own: a lab with one process, which sleeps in a network of its own.

`an_owner FOLDER`. It prints the number of that network, and stays until it is killed.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Final

from dedup_lab.systems import labs, own_network
from dedup_runners.waiting import until

ENTERED_S: Final = 60.0


def main() -> None:
    with labs.create(Path(sys.argv[1]) / "logs", apart=True) as lab:
        lab.place("sleeper")
        status = lab.start("sleeper", ["/bin/sleep", "600"]).status()
        assert status is not None
        at = Path(f"/proc/{status.pid}/ns/net")
        until(lambda: os.stat(at).st_ino != int(own_network.number()), ENTERED_S, "it is in its network")
        print(os.stat(at).st_ino, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
