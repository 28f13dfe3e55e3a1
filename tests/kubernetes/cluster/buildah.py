"""buildah: images from Dockerfiles without a daemon, in a store of our own.

Every call runs in a mount namespace of its own, so that whatever it mounts is gone when it ends, however it ends. The
store (of layers) is in our cache; the user's own images, if there are any, are never seen. A build takes this machine's
settings for packages as it finds them (apt's by a mount, pip's by secrets) and leaves none of them in an image.
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

from tests.kubernetes.cluster import packages
from tests.kubernetes.cluster.processes import run

from dedup_lab.caches import root

PROGRAMS: Final = {"buildah": "buildah", "debootstrap": "debootstrap", "unshare": "util-linux"}
"""The programs that building images needs of this machine, and the Debian package of each."""
TIMEOUT_S: Final = 1800.0
_RULE: Final = "the test cluster's images are built by buildah from their Dockerfiles"
_CA: Final = "/run/secrets/ca.pem"
# zstd at its fastest: a tenth of gzip's time for about the same size.
_PACKED: Final = ("--compression-format", "zstd", "--compression-level", "1")


def store() -> Path:
    """The folder of the layers, and of what a build needs while it goes on."""
    folder = root() / "kubernetes" / "buildah"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def has(reference: str) -> bool:
    """Whether the store holds an image of that name."""
    return bool(_buildah("images", "--quiet", "--filter", f"reference={reference}").strip())


def build(dockerfile: Path, context: Path, reference: str, *, base: str | None, target: str | None) -> None:
    """Build a Dockerfile (one target of it, `base` for its ARG BASE) into the store. EnvironmentError_ when it fails."""
    _buildah("rm", "--all")  # what a build that was killed has left
    chosen = [*(["--target", target] if target else []), *(["--build-arg", f"BASE={base}"] if base else [])]
    with _settings(context) as settings:
        options = ["--isolation", "chroot", "--layers", "--pull-never", *settings, *chosen]
        _buildah("bud", *options, "--tag", reference, "--file", str(dockerfile), str(context))


def export(stored: str, reference: str, archive: Path) -> None:
    """Write an image of the store into an OCI archive, under the name that pods call it by."""
    _buildah("push", "--quiet", *_PACKED, stored, f"oci-archive:{archive}:{reference}")


@contextmanager
def _settings(context: Path) -> Iterator[list[str]]:
    """Options by which a build finds packages as this machine does."""
    options = ["--volume", "/etc/apt:/etc/apt:ro"]
    if cache := _pip("cache", "dir").strip():
        Path(cache).mkdir(parents=True, exist_ok=True)
        options += ["--volume", f"{cache}:/root/.cache/pip"]
    settings = pip_settings(_pip("config", "list"))
    ca = settings["global"].get("cert") or os.environ.get("SSL_CERT_FILE", "")
    if ca and Path(ca).exists():
        options += ["--secret", f"id=ca.pem,src={ca}"]
        settings["global"]["cert"] = _CA
    with tempfile.NamedTemporaryFile("w", dir=context.parent, suffix=".conf") as file:
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


def _buildah(*arguments: str) -> str:
    packages.install(PROGRAMS)
    with tempfile.TemporaryDirectory(dir=store(), prefix="run-") as scratch:
        where = ["--root", str(store() / "layers"), "--runroot", scratch, "--storage-driver", "overlay"]
        command = ["unshare", "--mount", "buildah", *where, *arguments]
        return run(command, {"TMPDIR": scratch}, TIMEOUT_S, _RULE)
