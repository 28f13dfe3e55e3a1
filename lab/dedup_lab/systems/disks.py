"""A disk of its own for each broker of a lab whose experiment fills one: a small tmpfs, in a mount namespace.

Nobody outside the namespace sees it (`dedup_lab.isolation` says where there can be one), and no root is needed. It
takes memory only for what is written to it. When the last process of the namespace has ended, however it ends, the
kernel forgets the disk.
"""

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dedup.payloads import PAYLOAD_BYTES

if TYPE_CHECKING:  # it is imported by a program that imports little
    from dedup.experiment.spec import Experiment

MIB: Final = 1 << 20
BASE_BYTES: Final = 192 * MIB
"""For what a broker writes besides: its own topics, its metadata, its files' heads."""
OVERHEAD_BYTES: Final = 128
"""What a message costs at most besides its payload: a batch of its own, and its place in the indexes."""
TOPICS: Final = 2
"""A run's topic is removed when the next one's is there already."""
NOT_FOR_PROGRAMS: Final = 2 | 4
"""mount(2): no program of another user's, and no device, on it (MS_NOSUID, MS_NODEV)."""
DETACH: Final = 2
"""umount2(2): not seen any more at once, gone with the last file that is open (MNT_DETACH)."""


def size_bytes(experiment: "Experiment") -> int:
    """How large a disk must be so that nothing but a fault fills it."""
    workload = experiment.spec.workload
    return BASE_BYTES + TOPICS * workload.messages * ((workload.payload_bytes or PAYLOAD_BYTES) + OVERHEAD_BYTES)


def mount(at: Path, size: int) -> None:
    """Put an empty disk of that many bytes over a folder. OSError if the kernel refuses."""
    _called("mount", b"tmpfs", os.fsencode(at), b"tmpfs", NOT_FOR_PROGRAMS, f"size={size},mode=0700".encode())


def unmount(at: Path) -> None:
    """Take it away, with all that is on it. OSError if there is none."""
    _called("umount2", os.fsencode(at), DETACH)


def tried(at: Path) -> None:
    """Do once, over that folder, all that a disk needs of the kernel; OSError if it refuses any of it."""
    mount(at, MIB)
    unmount(at)


def _called(function: str, *arguments: bytes | int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, function)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{function}: {os.strerror(code)}")
