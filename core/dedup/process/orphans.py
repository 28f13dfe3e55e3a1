"""A program of ours must not outlive the process that started it.

The parent opens a pipe, keeps the writing end and passes the reading end down by number. However the parent ends (an
exception, Ctrl-C, `kill -9`), the kernel closes its end, the child reads the end of the file and ends at once. It needs
no signal and no privilege, and works on every Unix. In a pod the variable is not set, and nothing is watched.
"""

import os
import threading
from typing import Final

VARIABLE: Final = "DEDUP_PARENT_FD"
EXIT_CODE: Final = 70


def leave_with_parent() -> None:
    """End this process at once, without cleaning up, when the process that started it is gone."""
    descriptor = os.environ.pop(VARIABLE, None)
    if descriptor is None:
        return
    threading.Thread(target=_watch, args=(int(descriptor),), name="parent", daemon=True).start()


def _watch(descriptor: int) -> None:
    try:
        while os.read(descriptor, 1):
            continue
    finally:
        os._exit(EXIT_CODE)
