"""A broker that asks for TLS and a log-in, as far as a line to it is concerned, with a certificate for tests.

The certificate signs itself, for 127.0.0.1 and localhost, until 2120; its key guards nothing, and stands here so that
no test needs a program that makes certificates. The broker knows one user, and answers what a line asks first: whether
it may come in (Kafka's SaslHandshake and SaslAuthenticate) and who the brokers are (Metadata).
"""

import base64
import hashlib
import hmac
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dedup.experiment.deployments import SaslMechanism
from dedup.experiment.endpoints import Security

USER, PASSWORD = "a,user=us", "geheim,=ä"
SALT, ITERATIONS = b"salt", 4096
BOUND_S: Final = 10.0
HANDSHAKE, AUTHENTICATE, METADATA = 17, 36, 3
NAME: Final = "dedup test"
"""The common name in the certificate."""
PRIVATE: Final = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgAPr/o+kneJmFFTsb
JIpt1Zh/TRTXIhUnZSRMw1uvkcuhRANCAARSfbqHJMLE1CjAz9ncw1jCDbXHP/tu
4p3hQXsI8FothoWqeoPHMta8/6Kj8U26bf3dGs6QYyrmGaxk1b0Fq0aA
-----END PRIVATE KEY-----
"""
CERTIFICATE: Final = """\
-----BEGIN CERTIFICATE-----
MIIBmjCCAUCgAwIBAgIBATAKBggqhkjOPQQDAjAVMRMwEQYDVQQDDApkZWR1cCB0
ZXN0MCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAVMRMwEQYDVQQD
DApkZWR1cCB0ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEUn26hyTCxNQo
wM/Z3MNYwg21xz/7buKd4UF7CPBaLYaFqnqDxzLWvP+io/FNum393RrOkGMq5hms
ZNW9BatGgKN/MH0wDwYDVR0TAQH/BAUwAwEB/zAOBgNVHQ8BAf8EBAMCAoQwHQYD
VR0OBBYEFFX66sdS5MptdwxgJakD8zBUiHcqMB8GA1UdIwQYMBaAFFX66sdS5Mpt
dwxgJakD8zBUiHcqMBoGA1UdEQQTMBGHBH8AAAGCCWxvY2FsaG9zdDAKBggqhkjO
PQQDAgNIADBFAiA6b3DzaHMQge7lmKuWueAWH9dk4GihzrQfFzvfRpLGCQIhANGC
D7OlQWizI7xRyQSy7SqPcQRkVUw/ZfiRdSdLtvkv
-----END CERTIFICATE-----
"""


def string(text: str) -> bytes:
    """A string as Kafka's protocol carries it."""
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def security(folder: Path, *, tls: bool, sasl: SaslMechanism | None, password: str = PASSWORD) -> Security:
    """What a pod would find, below `folder`."""
    (folder / "ca.crt").write_text(CERTIFICATE)
    (folder / "username").write_text(f"{USER}\n")
    (folder / "password").write_text(password)
    return Security(ca=folder / "ca.crt" if tls else None, sasl=sasl, login=folder if sasl else None)


def certificate(folder: Path) -> Path:
    """The key and its certificate, as one PEM file."""
    (folder / "server.pem").write_text(PRIVATE + CERTIFICATE)
    return folder / "server.pem"


def serving(folder: Path) -> ssl.SSLContext:
    """What the broker serves with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(folder))
    return context


def trusting(folder: Path) -> ssl.SSLContext:
    """What a client trusts it by."""
    return ssl.create_default_context(cafile=security(folder, tls=True, sasl=None).ca)


def own_certificate(folder: Path) -> None:
    """A client's certificate and its key, as a Secret of the type kubernetes.io/tls has them: the broker's own."""
    (folder / "tls.crt").write_text(CERTIFICATE)
    (folder / "tls.key").write_text(PRIVATE)


@contextmanager
def broker(
    folder: Path, mechanism: str, *, tls: bool, knows: bool = True, host: str = "127.0.0.1"
) -> Iterator[tuple[str, int]]:
    """A broker at that address, for one line after the other; `knows` says whether it knows the password itself."""
    context = serving(folder)
    with socket.create_server((host, 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                    connection.settimeout(BOUND_S)
                    with context.wrap_socket(connection, server_side=True) if tls else connection as line:
                        _answer(line, _log_in(mechanism, knows), port)
                except ssl.SSLError:
                    continue  # who does not trust us goes away
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield host, port
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _answer(line: socket.socket, log_in: Callable[[bytes], bytes | None], port: int) -> None:
    let_in = False
    while head := line.recv(4, socket.MSG_WAITALL if not isinstance(line, ssl.SSLSocket) else 0):
        request = b""
        while len(request) < struct.unpack(">i", head)[0]:
            request += line.recv(struct.unpack(">i", head)[0] - len(request))
        (api,) = struct.unpack_from(">h", request)
        (length,) = struct.unpack_from(">h", request, 8)
        body = request[10 + length :]
        if api == HANDSHAKE:
            known = body[2:].decode() in MECHANISMS
            answer = struct.pack(">hi", 0 if known else 33, 1) + string("SCRAM-SHA-512")
        elif api == AUTHENTICATE:
            said = log_in(body[4:])
            let_in = said is not None
            error, words = (0, "") if let_in else (58, "Authentication failed")
            answer = struct.pack(">h", error) + string(words) + struct.pack(">i", len(said or b"")) + (said or b"")
        elif api == METADATA and let_in:
            node = struct.pack(">i", 7) + string("127.0.0.1") + struct.pack(">ih", port, -1)
            answer = struct.pack(">ii", 0, 1) + node + string("c") + struct.pack(">ii", 7, 0)
        else:
            return
        line.sendall(struct.pack(">i", len(answer) + 4) + request[4:8] + answer)


MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def _log_in(mechanism: str, knows: bool) -> Callable[[bytes], bytes | None]:
    """The broker's part: what it answers to each message, None if it does not let the user in."""
    first: list[str] = []

    def plain(said: bytes) -> bytes | None:
        return b"" if said.decode() == f"\0{USER}\0{PASSWORD}" else None

    def scram(said: bytes) -> bytes | None:
        name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        if not first:
            bare = said.decode().removeprefix("n,,")
            nonce = bare.rpartition("r=")[2] + "theirs"
            first.append(f"{bare},r={nonce},s={base64.b64encode(SALT).decode()},i={ITERATIONS}")
            return first[0].removeprefix(f"{bare},").encode()
        unproven, _, proof = said.decode().rpartition(",p=")
        salted = hashlib.pbkdf2_hmac(name, PASSWORD.encode(), SALT, ITERATIONS)
        message = f"{first[0]},{unproven}".encode()
        key = hmac.digest(salted, b"Client Key", name)
        signature = hmac.digest(hashlib.new(name, key).digest(), message, name)
        if bytes(one ^ other for one, other in zip(key, signature, strict=True)) != base64.b64decode(proof):
            return None
        server = hmac.digest(hmac.digest(salted, b"Server Key", name), message, name)
        return b"v=" + base64.b64encode(server if knows else b"x" * len(server))

    return plain if mechanism == "PLAIN" else scram
