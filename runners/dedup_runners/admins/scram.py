"""Logging in to Kafka with a password that is never sent: the client's part of SCRAM (RFC 5802, RFC 7677).

Client and server prove to each other that they know the password, or what was derived from it. Pure: the messages go
to and fro elsewhere (`wire`), and the nonce is given.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final

from dedup.errors import PlatformError

MAX_ITERATIONS: Final = 1_000_000
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NO_CHANNEL_BINDING: Final = "n,,"


class Scram:
    """One log-in: `first`, then `final` of the server's first answer, then `check` of its last."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._hash, self._password, self._nonce = _HASHES[mechanism], password, nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return (_NO_CHANNEL_BINDING + self._bare).encode()

    def final(self, answer: bytes) -> bytes:
        """The proof that we know the password; PlatformError if the answer is not the server's."""
        try:
            said = dict(part.split("=", 1) for part in answer.decode().split(","))
            nonce, salt, iterations = said["r"], base64.b64decode(said["s"], validate=True), int(said["i"])
        except (ValueError, KeyError):
            raise _refused("an answer that is not SCRAM's") from None
        if not nonce.startswith(self._nonce) or not 0 < iterations <= MAX_ITERATIONS:
            raise _refused("an answer to another's question, or one that asks for too much")
        unproven = f"c={base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()},r={nonce}"
        message = f"{self._bare},{answer.decode()},{unproven}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, iterations)
        key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self._hash, key).digest(), message)
        self._signature = self._mac(self._mac(salted, b"Server Key"), message)
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        """PlatformError unless the server knows what was derived from the password, too."""
        try:
            said = base64.b64decode(answer.removeprefix(b"v="), validate=True)
        except binascii.Error:
            said = b""
        if not self._signature or not hmac.compare_digest(said, self._signature):
            raise _refused("a signature that is not this server's")

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _refused(got: str) -> PlatformError:
    return PlatformError(
        where="logging in to Kafka",
        got=got,
        rule="a broker that knows the user proves it",
        todo="check the Secret's username and password, and where bootstrap leads",
    )
