"""A byte stream in pieces is the same frames, and what is not of the protocol is refused in words."""

import pytest

from dedup_runners.interposer.frames import Splitter
from dedup_runners.interposer.protocols import Unreadable

FRAMES = [b"\0\0\0\3abc", b"\0\0\0\0", b"\0\0\0\1d"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 99])
def test_frames_come_out_whole_however_they_came_in(size: int) -> None:
    splitter, stream = Splitter("Kafka"), b"".join(FRAMES)
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [frame for piece in pieces for frame in splitter.feed(piece)] == FRAMES


def test_half_a_frame_waits() -> None:
    splitter = Splitter("Kafka")
    assert list(splitter.feed(FRAMES[0][:-1])) == []
    assert list(splitter.feed(FRAMES[0][-1:])) == [FRAMES[0]]


def test_a_tls_handshake_is_no_frame_and_the_longest_frame_is_one() -> None:
    with pytest.raises(Unreadable, match="a plaintext listener of Kafka"):
        list(Splitter("Kafka").feed(b"\x16\x03\x01\x02\x00\x01"))
    longest = Splitter("Kafka", longest_bytes=3)
    assert list(longest.feed(FRAMES[0])) == [FRAMES[0]]
    with pytest.raises(Unreadable, match="a frame of 4 bytes"):
        list(longest.feed(b"\0\0\0\4"))
