"""One question to one Kafka broker, over a connection of its own.

Client libraries hide two things that a tester needs: the headers of stored batches (`batches`), and what *each* broker
thinks of the cluster (`views`), for a library asks whichever broker it likes. So the connection is ours, and what is
said on it is kafka-python's: requests, responses, SCRAM. The requests are of old versions, which every broker from 2.1
(for reassignments 2.4) to 4.x understands. Why not its connections, too: docs/decisions/052-kafka-python-speaks.md.

Where a broker asks for TLS or a log-in, a line is opened with them, and is a line like any other from then on.
"""

import logging
import socket
from typing import Any, Final, Self

from kafka.errors import KafkaError
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import OPEN, Security
from dedup_runners import credentials
from dedup_runners.admins import CLIENT_ID, NotLetIn

TIMEOUT_S: Final = 10.0
RECEIVE_BYTES: Final = 1 << 20
CLIENT: Final = -1
"""The replica id of a client, in requests that replicas make, too."""
_WORDS_OF_SCRAM: Final = str.maketrans({"=": "=3D", ",": "=2C"})
logging.getLogger("kafka").setLevel(logging.CRITICAL)  # it would write down what a log-in says


class Line:
    """A connection to one broker at (host, port). OSError if it cannot be had or does not answer in ten seconds.

    NotLetIn if it asks for a log-in and does not know us.
    """

    def __init__(self, address: tuple[str, int], timeout_s: float = TIMEOUT_S, security: Security = OPEN) -> None:
        context = credentials.tls(security)
        self._protocol = KafkaProtocol(client_id=CLIENT_ID)
        self._socket = socket.create_connection(address, timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=address[0])
            if security.sasl is not None:
                self._log_in(security.sasl, credentials.login(security))
        except BaseException:
            self._socket.close()
            raise

    def ask(self, request: Any) -> Any:
        """Send one request of `kafka.protocol`, which names its version, and return its response.

        A line that was not answered is closed: what comes late would be taken for the answer to the next question.
        """
        self._protocol.send_request(request)
        try:
            self._socket.sendall(self._protocol.send_bytes())
            while got := self._socket.recv(RECEIVE_BYTES):
                if answers := self._protocol.receive_bytes(got):
                    return answers[0][1]
        except KafkaError as error:
            self._socket.close()
            raise _unanswered(f"what is no answer: {error}") from None
        except BaseException:
            self._socket.close()
            raise
        raise _unanswered("a closed connection")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _log_in(self, mechanism: str, login: credentials.Login) -> None:
        """Say who we are (KIP-152)."""
        answer = self.ask(SaslHandshakeRequest(version=1, mechanism=mechanism))
        if answer.error_code:
            known = ", ".join(answer.mechanisms) or "none"
            raise _shut(f"Kafka error {answer.error_code} to {mechanism}; the listener has {known}")
        if mechanism == "PLAIN":  # kafka-python's also says in whose name, which not every listener takes
            self._authenticate(f"\0{login.username}\0{login.password}".encode())
            return
        scram = get_sasl_mechanism(mechanism)(
            sasl_mechanism=mechanism,
            sasl_plain_username=login.username.translate(_WORDS_OF_SCRAM),  # RFC 5802, section 5.1; it does not
            sasl_plain_password=login.password,
        )
        while not scram.is_done():
            receive(scram, self._authenticate(scram.auth_bytes()))

    def _authenticate(self, said: bytes) -> bytes:
        answer = self.ask(SaslAuthenticateRequest(version=0, auth_bytes=said))
        if answer.error_code:
            raise _shut(f"Kafka error {answer.error_code}: {answer.error_message or 'no words'}")
        return bytes(answer.auth_bytes)


def receive(scram: Any, answer: bytes) -> None:
    """Give kafka-python's SCRAM the broker's answer. PlatformError if no broker that knows the password says so."""
    try:
        scram.receive(answer)
    except (ValueError, LookupError) as error:
        raise PlatformError(
            where="logging in to Kafka",
            got=f"an answer that is not SCRAM's, or a signature that is not this server's: {error}",
            rule="a broker that knows the user proves it",
            todo="check the Secret's username and password, and where bootstrap leads",
        ) from None


def _unanswered(got: str) -> PlatformError:
    return PlatformError(
        where="asking a Kafka broker", got=got, rule="the broker answers", todo="look into the broker's log"
    )


def _shut(got: str) -> NotLetIn:
    return NotLetIn(
        where="logging in to Kafka",
        got=got,
        rule="the broker knows the user, by the mechanism that was named",
        todo="check sasl.mechanism, and the Secret's username and password",
    )
