"""The consoles on which commands print."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.markup import escape

from dedup.errors import one_line

QUIET_S: Final = 20.0
"""No terminal is told what is done now more often than this."""


class _Console(Console):
    """A console that stops printing when its pipe is closed: the exit code must still be the verdict's."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def plain(text: str) -> str:
    """Text of others, safe to print: a history or a summary may come from a store that many write into."""
    return escape(one_line(text))


def console(*, stderr: bool = True) -> Console:
    return _Console(stderr=stderr, highlight=False)


@contextmanager
def saying(
    console: Console, first: str, now_s: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str], None]]:
    """Show what is done now, with what is given: one line that changes at a terminal; elsewhere a line now and then."""
    if console.is_terminal:
        with console.status(first) as status:
            yield status.update
        return
    began = now_s()
    said = began - QUIET_S

    def say(text: str) -> None:
        nonlocal said
        if (now := now_s()) - said >= QUIET_S:
            said = now
            console.print(f"{now - began:7.1f}s  {text}", soft_wrap=True, markup=False)

    yield say
