"""The consoles on which commands print."""

from rich.console import Console


class _Console(Console):
    """A console that stops printing when its pipe is closed: the exit code must still be the verdict's."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def console(*, stderr: bool = True) -> Console:
    return _Console(stderr=stderr, highlight=False)
