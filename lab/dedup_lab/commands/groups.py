"""The group of all commands: of their errors, typer keeps none for itself.

Typer ends with 1 if a pipe was closed or an input is at its end. Here 1 is the verdict *fail*, and a broken pipe none.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup


class _Carried(Exception):
    """Carries an error, its cause, past typer."""


class Commands(TyperGroup):
    """All commands, whose errors reach the caller."""

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().main(*args, **extra)
        except _Carried as carried:
            raise carried.__cause__ or carried from None

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _carrying():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        with _carrying():
            return super().invoke(ctx)


@contextmanager
def _carrying() -> Iterator[None]:
    try:
        yield
    except (BrokenPipeError, EOFError) as error:
        raise _Carried from error
