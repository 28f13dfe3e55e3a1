"""Where the lab keeps what it may lose: jars, Toxiproxy's server, and the labs that are running now.

Everything lies under one folder of the user's cache (`DEDUP_CACHE` names another), so that deleting it costs a
download and nothing else. `progress` is how long work tells a terminal where it stands, without knowing that there is
one.
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
"""No half-made thing in the cache takes this long to be finished."""
Progress = Callable[[str, int, int], None]
"""Called with what is being done, in words, and how many of how many parts are done."""


def silent(_what: str, _done: int, _total: int) -> None:
    """The progress of those who do not want to know."""


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
    """Delete the folders of `folder` that were begun more than `STALE_S` ago by somebody who never finished them."""
    for path in folder.glob(pattern):
        try:
            stale = time.time() - path.stat().st_mtime > STALE_S
        except FileNotFoundError:  # finished this moment
            continue
        if stale:
            shutil.rmtree(path, ignore_errors=True)
