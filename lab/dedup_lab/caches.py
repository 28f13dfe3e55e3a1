"""Where the lab keeps what it may lose: jars, Toxiproxy's server, and the labs that are running now.

Everything lies under one folder of the user's cache (`DEDUP_CACHE` names another), so that deleting it costs a
download and nothing else. `progress` is how long work tells a terminal where it stands, without knowing that there is
one.
"""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs

STALE_S = 3_600.0
"""No half-made thing in the cache takes this long to be finished."""
Progress = Callable[[str, int, int], None]
"""Called with what is being done, in words, and how many of how many parts are done."""


def silent(_what: str, _done: int, _total: int) -> None:
    """The progress of those who do not want to know."""


def root() -> Path:
    """The cache folder: `$DEDUP_CACHE`, else the platform's own place for caches. It need not exist yet."""
    override = os.environ.get("DEDUP_CACHE")
    return Path(override).expanduser().absolute() if override else Path(platformdirs.user_cache_dir("dedup"))


def remove_stale(folder: Path, pattern: str) -> None:
    """Delete the folders of `folder` that were begun more than `STALE_S` ago by somebody who never finished them."""
    for path in folder.glob(pattern):
        try:
            stale = time.time() - path.stat().st_mtime > STALE_S
        except FileNotFoundError:  # finished this moment
            continue
        if stale:
            shutil.rmtree(path, ignore_errors=True)
