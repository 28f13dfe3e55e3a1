"""Errors of the machine: no room on a disk, no right to a file, a file where a folder must be.

They are no defects of dedup, and they prove nothing about a broker. The operating system's error becomes one line:
where it happened and what the user can do. Errors that only a program can cause stay as they are.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dedup.errors import EnvironmentError_

_ROOM: Final = ("what is recorded needs room on the disk", "make room there, or name a folder on another disk")
_RIGHT: Final = ("you need the right to read and write there", "change the rights, or name another place")
_KIND: Final = ("each part of the path but the last must be a folder", "move what is in the way, or name another place")
_FILES: Final = ("a process needs some hundred open files", "raise the limit (ulimit -n), then run again")
_MEMORY: Final = ("memory and processes must be left", "end other programs or raise the limits, then run again")
_DISK: Final = ("the disk must work", "check the disk (dmesg), or name a folder on another one")
RULES: Final = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
    errno.EROFS: _RIGHT,
    errno.EACCES: _RIGHT,
    errno.EPERM: _RIGHT,
    errno.ENOTDIR: _KIND,
    errno.EISDIR: _KIND,
    errno.EEXIST: _KIND,
    errno.ELOOP: _KIND,
    errno.ENAMETOOLONG: _KIND,
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOMEM: _MEMORY,
    errno.EAGAIN: _MEMORY,
    errno.EIO: _DISK,
}
"""By error number: what must hold, and what to do."""


def refusal(error: OSError, where: str | None = None) -> EnvironmentError_ | None:
    """The error for the user; None for an error that no setting of a machine explains.

    `where` names the place in the user's words; without it the path in the error does.
    """
    if error.errno not in RULES:
        return None
    rule, todo = RULES[error.errno]
    place = where or (os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "this machine")
    return EnvironmentError_(where=place, got=os.strerror(error.errno).lower(), rule=rule, todo=todo)


@contextmanager
def at(where: str) -> Iterator[None]:
    """Raise the machine's errors within this context as EnvironmentError_ about `where`."""
    try:
        yield
    except OSError as error:
        if (refused := refusal(error, where)) is None:
            raise
        raise refused from None
