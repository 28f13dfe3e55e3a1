"""The first program in namespaces of our own: it makes the network a router, and then is the program asked for.

`dedup_lab.isolation` starts it by `unshare`. It imports little, because it is
soon another program.
"""

import os
import socket
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Final

from dedup_lab.systems import disks
from dedup_lab.systems.networks import Network, be_a_router


class Own(StrEnum):
    """What processes of a lab can have for themselves; its value is the kernel's name of the namespace for it."""

    NETWORKS = "net"
    DISKS = "mnt"

    @property
    def variable(self) -> str:
        """Set in such a namespace of our own: the number that the kernel gave it."""
        return f"DEDUP_NAMESPACE_{self.name}"


WORKS: Final = "works"


def number(own: Own = Own.NETWORKS) -> str:
    """The number of this process's namespace of that kind; "none" where there are no namespaces."""
    try:
        return str(os.stat(f"/proc/self/ns/{own}").st_ino)
    except OSError:
        return "none"


def main() -> None:
    """`run OWN COMMAND…` becomes that program, `try OWN` does once what its faults do and says whether that works.

    OWN is what it has namespaces for, with commas.
    """
    what, named, *command = sys.argv[1:]
    owned = [Own(each) for each in named.split(",")]
    try:
        if Own.NETWORKS in owned:
            socket.sethostname("localhost")
            be_a_router()
        if what == "try":
            for own in owned:
                _TRIALS[own]()
            print(WORKS)
    except Exception as error:  # an OSError, or one of the library's own
        print(f"{type(error).__name__}: {error}")
        sys.exit(1)
    if what == "run":
        os.environ.update({own.variable: number(own) for own in owned})
        os.execv(command[0], command)


def _networks() -> None:
    from dedup_runners.chaos import kernel_cuts

    network = Network()
    network.host("tried")
    network.close()
    kernel_cuts.tried()


def _disks() -> None:
    with tempfile.TemporaryDirectory() as folder:
        disks.tried(Path(folder))


_TRIALS: Final = {Own.NETWORKS: _networks, Own.DISKS: _disks}


if __name__ == "__main__":
    main()
