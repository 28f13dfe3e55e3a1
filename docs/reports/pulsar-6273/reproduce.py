"""Sends 1 to 45, closes, comes back under the same name, and sends 42 to 51 in one batch.

Needs a broker with brokerDeduplicationEnabled=true, and `pip install pulsar-client`:

    python reproduce.py pulsar://localhost:6650 persistent://public/default/reproduce
"""

import sys
from typing import Any

import pulsar

STORED, AGAIN, LAST = 45, 42, 51


def named(client: pulsar.Client, topic: str) -> pulsar.Producer:
    """A producer that has a name, and sends ten messages at once."""
    return client.create_producer(
        topic,
        producer_name="reproduce",
        send_timeout_millis=0,
        batching_enabled=True,
        batching_max_messages=LAST - AGAIN + 1,
        batching_max_publish_delay_ms=1000,
    )


def main(url: str, topic: str) -> None:
    client = pulsar.Client(url)
    first = named(client, topic)
    for number in range(1, STORED + 1):
        first.send(str(number).encode(), sequence_id=number)
    first.close()
    again = named(client, topic)
    print("the broker's last sequence id:", again.last_sequence_id())
    answers: dict[int, tuple[Any, Any]] = {}

    def answered(number: int) -> Any:
        return lambda result, position: answers.__setitem__(number, (result, position))

    for number in range(AGAIN, LAST + 1):
        again.send_async(str(number).encode(), answered(number), sequence_id=number)
    again.flush()
    for number, (result, position) in sorted(answers.items()):
        print(number, "is acknowledged at" if result == pulsar.Result.Ok else result, position)
    again.close()
    lost = set(range(1, LAST + 1))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    while reader.has_message_available():
        lost.discard(int(reader.read_next(9000).data()))
    print("acknowledged and not in the topic:", sorted(lost))
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
