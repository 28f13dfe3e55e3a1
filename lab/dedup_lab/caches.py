"""Where the lab keeps files that it can make again: jars, Toxiproxy's server, and the running labs.

Everything is in one folder of the user's cache (`DEDUP_CACHE` names another); deleting it costs only a download.
`progress` lets long work report its progress without knowing whether there is a terminal.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs

from dedup.process import machines

STALE_S = 3_600.0
"""An unfinished folder in the cache is stale after this time."""
Progress = Callable[[str, int, int], None]
"""Called with what is being done, in words, and how many of how many parts are done."""


def silent(_what: str, _done: int, _total: int) -> None:
    """Ignore progress."""


def root() -> Path:
    """The cache folder: `$DEDUP_CACHE`, else the platform's own place for caches. It need not exist yet."""
    override = os.environ.get("DEDUP_CACHE")
    return Path(override).expanduser().absolute() if override else Path(platformdirs.user_cache_dir("dedup"))


def check() -> None:
    """EnvironmentError_ unless files can be made in the cache folder."""
    folder = root()
    named = "DEDUP_CACHE" if "DEDUP_CACHE" in os.environ else "the cache (DEDUP_CACHE names another folder)"
    with machines.at(f"{named} {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"1")
            file.flush()


def remove_stale(folder: Path, pattern: str) -> None:
    """Delete the folders of `folder` that were begun more than `STALE_S` ago and never finished."""
    for path in folder.glob(pattern):
        try:
            stale = time.time() - path.stat().st_mtime > STALE_S
        except FileNotFoundError:  # renamed or deleted meanwhile
            continue
        if stale:
            shutil.rmtree(path, ignore_errors=True)
