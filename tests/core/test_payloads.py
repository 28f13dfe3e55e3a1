"""Which messages of a run belong to which stream."""

from hypothesis import given
from hypothesis import strategies as st

from dedup.payloads import messages_of


@given(st.integers(0, 500), st.integers(1, 40))
def test_streams_share_the_messages_in_turn(messages: int, streams: int) -> None:
    sent = [(index % streams, index // streams + 1) for index in range(messages)]
    for stream in range(streams):
        assert [value for of, value in sent if of == stream] == list(
            range(1, messages_of(stream, messages, streams) + 1)
        )
