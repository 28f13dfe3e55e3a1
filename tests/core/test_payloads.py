"""A message is its identity: what goes in comes out, and nothing else comes out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.payloads import MAX_STREAMS, MAX_VALUE, decode, encode, messages_of


def test_the_bytes_are_sixteen_bits_of_stream_and_forty_eight_of_value() -> None:
    assert encode(1, 2) == bytes([0, 1, 0, 0, 0, 0, 0, 2])
    assert encode(MAX_STREAMS - 1, MAX_VALUE) == b"\xff" * 8


@given(st.integers(0, MAX_STREAMS - 1), st.integers(0, MAX_VALUE))
def test_what_goes_in_comes_out(stream: int, value: int) -> None:
    assert decode(encode(stream, value)) == (stream, value)


@pytest.mark.parametrize(("stream", "value"), [(-1, 1), (MAX_STREAMS, 1), (0, -1), (0, MAX_VALUE + 1)])
def test_what_does_not_fit_is_refused(stream: int, value: int) -> None:
    with pytest.raises(ValueError, match="16 bits of stream and 48 of value"):
        encode(stream, value)


@pytest.mark.parametrize("payload", [b"", b"1234567", b"123456789"])
def test_a_payload_that_is_not_ours_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match=f"a payload of {len(payload)} bytes"):
        decode(payload)


@given(st.integers(0, 500), st.integers(1, 40))
def test_streams_share_the_messages_in_turn(messages: int, streams: int) -> None:
    sent = [(index % streams, index // streams + 1) for index in range(messages)]
    for stream in range(streams):
        assert [value for of, value in sent if of == stream] == list(
            range(1, messages_of(stream, messages, streams) + 1)
        )
