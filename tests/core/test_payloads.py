"""Which messages of a run belong to which stream, and payloads that name their send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.payloads import (
    MAX_ATTEMPT,
    MAX_SESSION,
    MAX_STREAMS,
    MAX_TRANSACTION,
    MAX_VALUE,
    SEND_BYTES,
    Message,
    messages_of,
    packed,
    unpacked,
)

MESSAGE = Message(stream=3, value=1_000_000, session=1, attempt=2)


@given(st.integers(0, 500), st.integers(1, 40))
def test_streams_share_the_messages_in_turn(messages: int, streams: int) -> None:
    sent = [(index % streams, index // streams + 1) for index in range(messages)]
    for stream in range(streams):
        assert [value for of, value in sent if of == stream] == list(
            range(1, messages_of(stream, messages, streams) + 1)
        )


@given(
    st.builds(
        Message,
        stream=st.integers(0, MAX_STREAMS - 1),
        value=st.integers(0, MAX_VALUE),
        session=st.integers(0, MAX_SESSION),
        attempt=st.integers(0, MAX_ATTEMPT),
        transaction=st.integers(0, MAX_TRANSACTION),
        made_from=st.integers(0, (1 << 64) - 1),
    ),
    st.integers(SEND_BYTES, 2048),
)
def test_a_send_that_was_packed_is_read_again(message: Message, size: int) -> None:
    payload = packed(message, size)
    assert (len(payload), unpacked(payload)) == (size, message)


def test_it_begins_with_the_eight_bytes_of_every_message() -> None:
    assert packed(MESSAGE)[:8] == (3).to_bytes(2, "big") + (1_000_000).to_bytes(6, "big")


@pytest.mark.parametrize("size", [SEND_BYTES, 40])
def test_no_flipped_bit_makes_another_send_of_it(size: int) -> None:
    """Neither in its numbers and its checksum, nor in its filler."""
    payload = packed(MESSAGE, size)
    for bit in range(8 * len(payload)):
        damaged = bytearray(payload)
        damaged[bit // 8] ^= 1 << bit % 8
        assert unpacked(bytes(damaged)) is None


@pytest.mark.parametrize("length", [0, 7, 8, 9, SEND_BYTES - 1, SEND_BYTES, 39, 41])
def test_what_is_shorter_or_longer_names_no_send(length: int) -> None:
    assert unpacked((packed(MESSAGE, 40) + b"\0")[:length]) is None


@pytest.mark.parametrize(
    "message",
    [
        MESSAGE._replace(stream=MAX_STREAMS),
        MESSAGE._replace(value=MAX_VALUE + 1),
        MESSAGE._replace(session=MAX_SESSION + 1),
        MESSAGE._replace(attempt=MAX_ATTEMPT + 1),
        MESSAGE._replace(attempt=-1),
    ],
)
def test_a_number_that_does_not_fit_is_refused(message: Message) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        packed(message)


def test_a_size_that_has_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 28"):
        packed(MESSAGE, SEND_BYTES - 1)
