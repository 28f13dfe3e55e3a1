"""Stands for librdkafka's client where a test says what it reports."""

import ctypes
from collections.abc import Sequence
from typing import Any

import confluent_kafka as ck
import numpy as np

from dedup_runners.clients import words_of
from dedup_runners.clients.native import Reports

LIBRARY = ctypes.CDLL(ck.cimpl.__file__)
"""Functions of librdkafka that only tests need; each says itself what it takes."""


def reports(
    values: Sequence[int],
    offsets: Sequence[int],
    errors: Sequence[int] | None = None,
    streams: Sequence[int] | None = None,
) -> Reports:
    """Reports of messages that went to partition 0."""
    streams = [0] * len(values) if streams is None else streams
    return Reports(
        words_of(np.array(streams, np.int32), np.array(values, np.int64)),
        np.array([0] * len(values) if errors is None else errors, np.int32),
        np.zeros(len(values), np.int32),
        np.array(offsets, np.int64),
    )


class Reporter:
    """A client that has these reports to give, one each time it is polled."""

    closed = False

    deaf = None

    def __init__(self, *waiting: Reports) -> None:
        self._waiting = list(waiting)

    def poll(self, for_s: float) -> Reports | None:
        return self._waiting.pop(0) if self._waiting else None

    def close(self) -> None:
        """There is nothing to close."""


def given(producer: Any, *waiting: Reports) -> None:
    """Let a producer have this client in place of its own, and take all that it says."""
    producer.close()
    producer._client = Reporter(*waiting)
    for _ in waiting:
        producer._serve(0)
