"""Certificates for two programs that have to know each other: the API server and a kubelet.

Each gets one that is its own authority: the other side is given exactly this certificate as the only one to trust, so
no certificate authority is needed.
"""

from pathlib import Path
from typing import NamedTuple

from testbed.cluster import packages
from testbed.cluster.namespaces import run


class Pair(NamedTuple):
    """A certificate and its private key, as files."""

    certificate: Path
    key: Path


def made(folder: Path, name: str) -> Pair:
    """Where the pair of that name lies."""
    return Pair(folder / f"{name}.crt", folder / f"{name}.key")


def make(folder: Path, name: str, subject: str, *extensions: str) -> Pair:
    """A new pair NAME.crt, NAME.key in `folder`; the extensions say what it is good for."""
    pair = made(folder, name)
    added = [part for extension in extensions for part in ("-addext", extension)]
    run(
        *(packages.find("openssl"), "req", "-x509", "-nodes", "-days", "3650", "-subj", subject, *added),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", pair.key, "-out", pair.certificate),
    )
    return pair
