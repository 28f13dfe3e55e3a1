"""Something that is built once, into a folder of the cache that is named by all that it is made from."""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from dedup.errors import EnvironmentError_
from dedup_lab.caches import remove_stale, root

BUILD_TIMEOUT_S: Final = 900


def built(name: str, sources: Iterable[Path], besides: Sequence[str], build: Callable[[Path], None]) -> Path:
    """The folder of that name in the cache; `build` fills it, if it is not there for these sources and words."""
    digest = hashlib.sha256("\n".join(besides).encode())
    for source in sources:
        digest.update(source.read_bytes())
    place = root() / "clients" / f"{name}-{digest.hexdigest()[:16]}"
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(place.parent, ".new-*")
    folder = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
    try:
        build(folder)
        folder.rename(place)
    except OSError:
        if not place.exists():  # another process was faster
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return place


def compiled(what: str, command: Sequence[str], folder: Path) -> None:
    """Run a compiler; EnvironmentError_ with its last words if it fails, or does not end in time."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_TIMEOUT_S,
        )
        said, failed = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines(), done.returncode != 0
    except subprocess.TimeoutExpired:
        said, failed = [f"it had not ended after {BUILD_TIMEOUT_S:g} s"], True
    if failed:
        raise EnvironmentError_(
            where=f"build of {what}",
            got=" / ".join(said[-3:])[:400],
            rule="a client that is a program is built from its source in this repository",
            todo="check the network and the compiler, then run again",
        )
