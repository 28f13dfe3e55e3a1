"""How the programs of one pod see of each other that they live, without asking anyone.

Each program of a run is a container of its own, and no container can see another's process. They share a folder,
though, and a kernel: a program holds a lock on `NAME.alive` there for as long as it runs. However it ends (an
exception, `kill -9`, out of memory), the kernel drops the lock, and whoever looks sees it at once. A program that ends
in order writes its exit code into the file first; an unlocked file without one tells of a death.

The folder is named by DEDUP_SHARED. Where nobody sets it (a local process under the lab), nothing is held or watched:
there the parent's pipe does the same (dedup.process.orphans).
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dedup.experiment.spec import MAX_TIMEOUT_S
from dedup.process.orphans import EXIT_CODE
from dedup_runners.waiting import until

VARIABLE: Final = "DEDUP_SHARED"
CONDUCTOR: Final = "conductor"
BEGIN_S: Final = 120.0
"""How much later than another one a container of the same pod may start."""
ORDERS_S: Final = 4.0 * MAX_TIMEOUT_S
"""Longer than all stages of a run may take."""
DIED: Final = 137
"""The exit code of a program that ended without a word, as a kubelet would call it."""


def shared() -> Path | None:
    """The folder that the programs of this pod share; None when this process is not one of them."""
    folder = os.environ.get(VARIABLE)
    return Path(folder) if folder else None


@contextmanager
def held(name: str, folder: Path | None = None) -> Iterator[Callable[[int, str], None]]:
    """Show that `name` lives until the block ends. Call what is yielded with the exit code and a last word at the end.

    The lock is taken before the file gets its name, so that nobody ever sees a living program's file unlocked.
    """
    folder = folder or shared()
    if folder is None:
        yield lambda code, words: None
        return
    path = folder / f"{name}.alive"
    opened = path.with_name(f"{path.name}.{os.getpid()}.open")
    with opened.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        opened.rename(path)

        def ended(code: int, words: str) -> None:
            file.write(f"{code} {words}")
            file.flush()

        yield ended


def begun(folder: Path, name: str) -> bool:
    """Whether the program has ever been there."""
    return (folder / f"{name}.alive").exists()


def exit_code(folder: Path, name: str) -> int | None:
    """How the program ended: its own word, or DIED without one. None while it lives, and before it began."""
    try:
        with (folder / f"{name}.alive").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return int(file.read().partition(" ")[0] or DIED)
    except (FileNotFoundError, BlockingIOError):
        return None


def last_words(folder: Path, name: str) -> str:
    """What a program that ended in order said last; nothing of one that died."""
    try:
        return (folder / f"{name}.alive").read_text().partition(" ")[2]
    except FileNotFoundError:
        return ""


def await_orders(file: Path) -> None:
    """Wait until the conductor has written `file` for this program; outside a pod nothing is waited for.

    From then on, and while it waits, this process leaves as soon as the conductor is gone, which bounds all waiting.
    """
    folder = shared()
    if folder is not None:
        until(lambda: begun(folder, CONDUCTOR), BEGIN_S, f"the {CONDUCTOR} of this pod begins")
        _leave_with(folder / f"{CONDUCTOR}.alive")
        until(file.exists, ORDERS_S, f"{file} is written")


def _leave_with(lifeline: Path) -> None:
    """End this process, without ceremony, as soon as the program that holds the lifeline is gone."""
    file = lifeline.open()

    def leave() -> None:
        fcntl.flock(file, fcntl.LOCK_SH)
        os._exit(EXIT_CODE)

    threading.Thread(target=leave, name=f"{lifeline.stem}'s life", daemon=True).start()
