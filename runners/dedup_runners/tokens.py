"""A token that a function worker asks for, and the key by which the worker knows it.

`python -m dedup_runners.tokens FOLDER` makes both in a worker's pod, before the worker starts. Only who may enter the
pod can read them: `worker.key` and `worker.token`. Those that are there stay.
"""

import base64
import hmac
import json
import secrets
import sys
from pathlib import Path
from typing import Final

KEY: Final = "worker.key"
TOKEN: Final = "worker.token"
KEY_BYTES: Final = 32


def key() -> bytes:
    """A new one."""
    return secrets.token_bytes(KEY_BYTES)


def token(key: bytes) -> str:
    """A JSON Web Token (RFC 7519, HS256) that says "dedup", signed with the key."""
    parts = [json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": "HS256"}, {"sub": "dedup"})]
    said = b".".join(map(_base64, parts))
    return b".".join((said, _base64(hmac.digest(key, said, "sha256")))).decode()


def make(folder: Path) -> None:
    """Both files, which only their owner may read."""
    if (folder / TOKEN).exists():
        return
    made = key()
    for name, content in ((KEY, made), (TOKEN, token(made).encode())):
        (folder / name).touch(mode=0o600)
        (folder / name).write_bytes(content)


def _base64(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
