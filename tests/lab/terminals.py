"""A terminal for a program under test: a real pseudo-terminal of a given size, and what is on its screen.

The screen knows what rich writes and no more; anything else is an error, so that nothing is drawn wrongly unseen.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_PART: Final = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|([^\x1b])", re.DOTALL)
Lines = list[str]


class Screen:
    """The characters that are seen; older lines go out at the top and are kept."""

    def __init__(self, columns: int, rows: int) -> None:
        self._columns, self._rows = columns, rows
        self._cells = [[" "] * columns for _ in range(rows)]
        self._row = self._column = 0
        self.gone: Lines = []

    @property
    def lines(self) -> Lines:
        return ["".join(row).rstrip() for row in self._cells]

    def feed(self, text: str) -> str:
        """Draw; returns the rest, an escape sequence that has not ended yet."""
        at = 0
        while at < len(text):
            part = _PART.match(text, at)
            if part is None:
                assert len(text) - at < 16, f"unknown to this screen: {text[at : at + 16]!r}"
                break
            at = part.end()
            self._draw(part[3]) if part[3] else self._move(part[1], part[2])
        return text[at:]

    def _draw(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._down()
        elif character != "\x07":
            assert character >= " ", f"unknown to this screen: {character!r}"
            if self._column == self._columns:
                self._column = 0
                self._down()
            self._cells[self._row][self._column] = character
            self._column += 1

    def _down(self) -> None:
        if self._row < self._rows - 1:
            self._row += 1
        else:
            self.gone.append("".join(self._cells.pop(0)).rstrip())
            self._cells.append([" "] * self._columns)

    def _move(self, numbers: str, letter: str) -> None:
        match numbers, letter:
            case _, "m" | "h" | "l":
                pass  # colours, and whether there is a cursor
            case number, "A":
                self._row = max(0, self._row - int(number or 1))
            case "2", "K":
                self._cells[self._row] = [" "] * self._columns
            case _:
                raise AssertionError(f"unknown to this screen: {numbers}{letter}")


class Terminal:
    """A program at a terminal."""

    def __init__(self, process: "subprocess.Popen[bytes]", file: int, screen: Screen) -> None:
        self.process, self._file, self.screen, self._rest = process, file, screen, b""

    def until(self, seen: Callable[[Lines], object], bound_s: float) -> Lines:
        """The screen as soon as it is as asked; an AssertionError that shows it, if the program ends before."""
        deadline = time.monotonic() + bound_s
        while not seen(self.screen.lines):
            left_s = deadline - time.monotonic()
            more = self._read(left_s) if left_s > 0 else b""
            assert more, "not seen in time, or the program ended:\n" + "\n".join(
                [*self.screen.gone, *self.screen.lines]
            )
            self._show(more)
        return self.screen.lines

    def to_its_end(self, bound_s: float) -> Lines:
        """All lines, also those that went out at the top, when the program has ended."""
        deadline = time.monotonic() + bound_s
        while more := self._read(max(0.0, deadline - time.monotonic())):
            self._show(more)
        self.process.wait(max(1.0, deadline - time.monotonic()))
        return [*self.screen.gone, *self.screen.lines]

    def enter(self) -> None:
        os.write(self._file, b"\n")

    def _show(self, more: bytes) -> None:
        text, self._rest = _whole(self._rest + more)
        self._rest = self.screen.feed(text).encode() + self._rest

    def _read(self, bound_s: float) -> bytes:
        ready, _, _ = select.select([self._file], [], [], bound_s)
        try:
            return os.read(self._file, 1 << 16) if ready else b""
        except OSError:  # the program has closed its end
            return b""


def _whole(said: bytes) -> tuple[str, bytes]:
    """The text, and the bytes of a last letter that is not whole yet."""
    for short in range(4):
        try:
            return said[: len(said) - short].decode(), said[len(said) - short :]
        except UnicodeDecodeError:
            continue
    raise AssertionError(f"not UTF-8: {said[-20:]!r}")


@contextmanager
def at_terminal(command: Sequence[str], columns: int, rows: int) -> Iterator[Terminal]:
    """Start a program at a terminal of this size; it is ended with the block."""
    ours, its = pty.openpty()
    try:
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        settings = termios.tcgetattr(its)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(its, termios.TCSANOW, settings)
        plain = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR", "CI")
        }
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        env = {**plain, "TERM": "xterm-256color", "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
        with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=env, start_new_session=True) as process:
            os.close(its)
            its = -1
            try:
                yield Terminal(process, ours, Screen(columns, rows))
            finally:
                process.kill()
    finally:
        os.close(ours)
        if its >= 0:
            os.close(its)
