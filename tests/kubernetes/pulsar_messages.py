"""A tiny client that runs in a pod beside a Toxiproxy: it writes and reads rising numbers, and asks whose a topic is.

Tests hand this file's text to `python -c` in a pod of the runner image:

    write CLIENTS ADMIN TOPIC FIRST COUNT    every number acknowledged, or an error
    read CLIENTS ADMIN TOPIC COUNT           the first COUNT numbers there are, in order, as JSON
    owner CLIENTS ADMIN TOPIC                the broker that serves it, as HOST:PORT

CLIENTS is the service URL of the clients' path, whose listener is called `loopback`; ADMIN the REST address of any
broker. `write` makes the topic first, if there is none.
"""

import json
import sys
from collections.abc import Callable
from typing import Any, Final

import httpx
import pulsar

from dedup_runners.waiting import until

TIMEOUT_S: Final = 120
ASK_S: Final = 10


def write(clients: str, admin: str, topic: str, first: str, count: str) -> None:
    ask("PUT", f"{admin}/admin/v2/{path(topic)}")
    failed: list[str] = []
    producer = opened(
        clients,
        lambda client: client.create_producer(
            f"persistent://{name(topic)}", send_timeout_millis=TIMEOUT_S * 1000, block_if_queue_full=True
        ),
    )
    for number in range(int(first), int(first) + int(count)):
        producer.send_async(str(number).encode(), lambda result, _: note(result, failed))
    producer.flush()
    if failed:
        sys.exit(f"not everything was acknowledged: {failed[:3]}")


def read(clients: str, admin: str, topic: str, count: str) -> None:
    reader = opened(
        clients, lambda client: client.create_reader(f"persistent://{name(topic)}", pulsar.MessageId.earliest)
    )
    print(json.dumps([int(reader.read_next(TIMEOUT_S * 1000).data()) for _ in range(int(count))]))


def owner(clients: str, admin: str, topic: str) -> None:
    found = ask("GET", f"{admin}/lookup/v2/topic/{path(topic)}")
    print(found.json()["brokerUrl"].removeprefix("pulsar://"))


def ask(method: str, url: str) -> httpx.Response:
    """The answer of the REST interface. A broker that is gone is still asked, and sent to, for some seconds."""

    def answer() -> httpx.Response | None:
        try:
            got = httpx.request(method, url, timeout=ASK_S, follow_redirects=True, trust_env=False)
        except httpx.HTTPError:
            return None
        return got if got.is_success or got.status_code == httpx.codes.CONFLICT else None

    got = until(answer, TIMEOUT_S, f"{method} {url} succeeds", 0.2)
    assert got is not None
    return got


def opened(clients: str, make: Callable[[pulsar.Client], Any]) -> Any:
    """What a client makes. A broker whose topics' owner was killed may never answer a question: it is asked anew."""
    quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/stderr")  # its own goes to standard output

    def made() -> Any:
        client = pulsar.Client(clients, listener_name="loopback", operation_timeout_seconds=ASK_S, logger=quiet)
        try:
            return make(client)
        except pulsar.exceptions.PulsarException:
            client.close()
            return None

    return until(made, TIMEOUT_S, "a broker serves the topic")


def note(result: pulsar.Result, failed: list[str]) -> None:
    if result != pulsar.Result.Ok:
        failed.append(str(result))


def name(topic: str) -> str:
    return f"public/default/{topic}"


def path(topic: str) -> str:
    return f"persistent/{name(topic)}"


COMMANDS: Final[dict[str, Callable[..., None]]] = {"write": write, "read": read, "owner": owner}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
