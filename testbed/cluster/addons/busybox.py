"""A shell in an image: busybox, for those who make and remove the folders of claims, and for tests.

An image with nothing else in it needs a program that is linked statically. Debian packages one; the package is unpacked
into the cache and not installed, since on this machine it would take the place of another busybox.
"""

import os
import tempfile
from pathlib import Path
from typing import Final

from dedup_lab.caches import root
from testbed.cluster import oci_archives, packages
from testbed.cluster.oci_archives import PlainImage

IMAGE: Final = "localhost/dedup-test-busybox:1"
PACKAGE: Final = "busybox-static"
COMMANDS: Final = ("cat", "mkdir", "nslookup", "rm", "sh")


def archive() -> Path:
    """The archive of its image. EnvironmentError_ when the package cannot be had."""
    links = {f"/bin/{name}": "busybox" for name in COMMANDS}
    return oci_archives.archive(PlainImage(IMAGE, {"/bin/busybox": _program()}, ("/bin/sh",), links=links))


def _program() -> Path:
    target = root() / "kubernetes" / PACKAGE / "busybox"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as name:
            packages.unpack(PACKAGE, Path(name))
            os.replace(next(Path(name).glob("**/bin/busybox")), target)
    return target
