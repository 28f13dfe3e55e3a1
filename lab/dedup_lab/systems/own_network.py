"""The first program in a network of our own: it makes it a router, and then is the program that was asked for.

`dedup_lab.isolation` starts it by `unshare`. It imports little, because it is
soon another program.
"""

import os
import socket
import sys
from typing import Final

from dedup_lab.systems.networks import Network, be_a_router

VARIABLE: Final = "DEDUP_NETWORK"
"""Set in a network of our own: the number that the kernel gave the namespace."""
WORKS: Final = "works"


def number() -> str:
    """The number of this process's network namespace; "none" where there are no namespaces."""
    try:
        return str(os.stat("/proc/self/ns/net").st_ino)
    except OSError:
        return "none"


def main() -> None:
    """`run COMMAND…` becomes that program; `try` makes one host and one cut, and says whether that works."""
    what, *command = sys.argv[1:]
    try:
        socket.sethostname("localhost")
        be_a_router()
        if what == "try":
            network = Network()
            network.host("tried")
            network.close()
            _cuts()
            print(WORKS)
    except Exception as error:  # an OSError, or one of the library's own
        print(f"{type(error).__name__}: {error}")
        sys.exit(1)
    if what == "run":
        os.environ[VARIABLE] = number()
        os.execv(command[0], command)


def _cuts() -> None:
    from dedup_runners.chaos import kernel_cuts

    kernel_cuts.tried()


if __name__ == "__main__":
    main()
