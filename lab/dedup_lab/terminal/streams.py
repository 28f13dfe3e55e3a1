"""Standard output and standard error when writing to them fails: a full disk, /dev/full.

A failed write to standard output is an error. One to standard error loses the text, and the exit code stays the
verdict's: Python's own exit code for an error that it cannot print is 1, which here means "fail".
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any, TextIO, cast

from dedup.process import machines


class Stream:
    """A standard stream; `refuse` is called when a write fails."""

    def __init__(self, stream: TextIO, refuse: Callable[[OSError], None]) -> None:
        self._stream, self._refuse = stream, refuse

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._watched():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._watched():
            self._stream.flush()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            discard(self._stream)
            self._refuse(error)


def guard() -> None:
    """Replace standard output and standard error by a `Stream`; a stream that was closed stays None.

    What the output's encoding does not have becomes a question mark there: standard error has its own way.
    """
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")
    if sys.stdout is not None:
        sys.stdout = cast(TextIO, Stream(sys.stdout, _no_output))
    if sys.stderr is not None:
        sys.stderr = cast(TextIO, Stream(sys.stderr, _no_log))


def flush() -> None:
    """Flush standard output now, so that a failed write is found before Python ends."""
    if sys.stdout is not None:
        sys.stdout.flush()


def discard(stream: TextIO) -> None:
    """Discard what is still written to the stream; otherwise Python's last flush changes the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _no_output(error: OSError) -> None:
    raise machines.refusal(error, "standard output") or error


def _no_log(_error: OSError) -> None:
    pass
