"""Commands that end by themselves: what one says, or an error in one line if it is not there, is late or fails."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dedup.errors import DedupError, PlatformError, one_line

WORDS: Final = 300
"""So many characters of what it said last are told."""


def answer(
    command: Sequence[str],
    *,
    where: str,
    rule: str,
    todo: str,
    timeout_s: float,
    said: str = "",
    error: type[DedupError] = PlatformError,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """What the command writes to its output, when it is given `said` and ends within `timeout_s` seconds with code 0.

    It works in `folder`, with these variables; None: in this process's folder, with this process's variables.

    Otherwise `error`, with what it wrote to its error output last. It tells no arguments.
    """
    try:
        done = subprocess.run(
            command,
            input=said,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise error(where=where, got=f"no end within {timeout_s:g} s", rule=rule, todo=todo) from None
    except OSError as problem:
        got = f"{problem.strerror or type(problem).__name__} ({command[0]})"
        raise error(where=where, got=got, rule=rule, todo=todo) from None
    if done.returncode != 0:
        got = one_line(done.stderr)[-WORDS:] or f"exit code {done.returncode}"
        raise error(where=where, got=got, rule=rule, todo=todo)
    return done.stdout
