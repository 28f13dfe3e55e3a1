"""buildah: images from Dockerfiles without a daemon, in a store of our own.

Every call runs in a mount namespace of its own, so that whatever it mounts is gone when it ends, however it ends. The
store (of layers) is in our cache, and in that namespace our folder is seen where root's own images are, if there are
any. A build takes this machine's settings for packages as it finds them (apt's by a mount, pip's by secrets) and leaves
none of them in an image. What it downloads goes into the user's own cache of pip.

Every file of a layer, and the image itself, is of one time (`parts.ALWAYS`), whenever it is built: so the same content
has the same digest (reproducible.py tries that).
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from configparser import RawConfigParser
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dedup_lab.caches import remove_stale, root
from testbed.cluster import packages
from testbed.cluster.parts import ALWAYS
from testbed.cluster.processes import AGAIN, run

TIMEOUT_S: Final = 1800.0
KEPT: Final = 3
"""How many states of an image are kept."""
_NOTES: Final = Path("/var/lib/containers")
"""Where buildah notes which layers it has seen, whatever its store."""
_UNSEEN: Final = f'mount --bind "$0" {_NOTES} && exec "$@"'
_RULE: Final = "the test cluster's images are built by buildah from their Dockerfiles"
_CA: Final = "/run/secrets/ca.pem"
_CACHE: Final = "/var/cache/pip"
_DATED: Final = ("--timestamp", f"{ALWAYS[0]:.0f}")
# zstd at its fastest: a tenth of gzip's time for about the same size.
_PACKED: Final = ("--compression-format", "zstd", "--compression-level", "1")


class Buildah:
    """Builds images (images.py says what a builder is) into a store in our cache."""

    def __init__(self, store: Path | None = None) -> None:
        packages.install(packages.IMAGES)
        self._store = store or root() / "kubernetes" / "buildah"
        self._notes = self._store / "notes"
        for folder in (self._notes, _NOTES):
            folder.mkdir(parents=True, exist_ok=True)

    def has(self, stored: str) -> bool:
        return bool(self._run("images", "--quiet", "--filter", f"reference={stored}").strip())

    def build(self, dockerfile: Path, context: Path, stored: str, *, base: str | None, target: str | None) -> None:
        self._run("rm", "--all")  # what a build that was killed has left
        chosen = [*(["--target", target] if target else []), *(["--build-arg", f"BASE={base}"] if base else [])]
        with _settings(self._store) as settings:
            options = ["--isolation", "chroot", "--layers", "--pull-never", *_DATED, *settings, *chosen]
            AGAIN(self._run, "bud", *options, "--tag", stored, "--file", str(dockerfile), str(context))
        self._forget(stored)

    def _forget(self, stored: str) -> None:
        """Let go of what was built under this name before, but for the latest, and of layers that nothing stands on.

        All images have one time, so a file of ours says when each was built; what has none is older than they are.
        """
        name, _, tag = stored.rpartition(":")
        built = self._store / "built" / name.rpartition("/")[2]
        built.mkdir(parents=True, exist_ok=True)
        (built / tag).touch()
        latest = sorted(built.iterdir(), key=lambda file: file.stat().st_mtime_ns, reverse=True)[:KEPT]
        for each in self._run("images", "--format", "{{.Tag}}", "--filter", f"reference={name}").split():
            if built / each not in latest:
                self._run("rmi", f"{name}:{each}")
                (built / each).unlink(missing_ok=True)
        self._run("rmi", "--prune")

    def export(self, stored: str, reference: str, archive: Path) -> None:
        self._run("push", "--quiet", *_PACKED, stored, f"oci-archive:{archive}:{reference}")

    def _run(self, *arguments: str) -> str:
        remove_stale(self._store, "run-*")
        # In this file it notes that it saw netavark, which our builds have no use for, and fails once that is gone.
        (self._store / "layers" / "defaultNetworkBackend").unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=self._store, prefix="run-") as scratch:
            where = ["--root", str(self._store / "layers"), "--runroot", scratch, "--storage-driver", "overlay"]
            alone = ["unshare", "--mount", "sh", "-c", _UNSEEN, str(self._notes)]
            return run([*alone, "buildah", *where, *arguments], {"TMPDIR": scratch}, TIMEOUT_S, _RULE)


@contextmanager
def _settings(folder: Path) -> Iterator[list[str]]:
    """Options by which a build finds packages as this machine does."""
    options = ["--volume", "/etc/apt:/etc/apt:ro"]
    settings = pip_settings(_pip("config", "list"))
    if cache := _pip("cache", "dir").strip():
        Path(cache).mkdir(parents=True, exist_ok=True)
        options += ["--volume", f"{cache}:{_CACHE}"]
        settings["global"]["cache-dir"] = _CACHE
    ca = settings["global"].get("cert") or os.environ.get("SSL_CERT_FILE", "")
    if ca and Path(ca).exists():
        options += ["--secret", f"id=ca.pem,src={ca}"]
        settings["global"]["cert"] = _CA
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".conf") as file:
        settings.write(file)
        file.flush()
        yield [*options, "--secret", f"id=pip.conf,src={file.name}"]


def pip_settings(listing: str) -> RawConfigParser:
    """pip's settings as one configuration file, from what `pip config list` says; the environment's come last and win.

    Folders of packages on this machine stay here: a build cannot see them.
    """
    settings = RawConfigParser()
    settings.add_section("global")
    for line in sorted(listing.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        section, _, key = name.replace(":env:", "global").rpartition(".")
        if key == "find-links":
            continue
        if not settings.has_section(section):
            settings.add_section(section)
        settings.set(section, key, shlex.split(value)[0] if value else "")
    return settings


def _pip(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout if done.returncode == 0 else ""
