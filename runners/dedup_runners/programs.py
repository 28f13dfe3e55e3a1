"""How both runners begin and end: one config in, exit code 0 with a report or one line on standard error."""

import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from dedup.errors import EXIT_ERROR, DedupError, EnvironmentError_, PlatformError
from dedup.orphans import leave_with_parent
from dedup_runners.configs import C, RunnerConfig, read

STDIN = "-"


def main(kind: type[C], work: Callable[[C], None], arguments: list[str]) -> int:
    """Run `work` on the config that the only argument names; the process's exit code."""
    leave_with_parent()
    try:
        if len(arguments) != 1:
            print(f"usage: python -m dedup_runners.… CONFIG|{STDIN}", file=sys.stderr)
            return 2
        if arguments[0] == STDIN:
            _import_early()
        work(read(arguments[0], kind))
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    except OSError as error:
        print(_refused(kind, error), file=sys.stderr)
        return EXIT_ERROR
    except Exception as error:
        traceback.print_exc()
        print(
            PlatformError(
                where=kind.__name__.removesuffix("Config").lower(),
                got=f"{type(error).__name__}: {error}",
                rule="this is a defect of the runner, or of the client library",
                todo="see the traceback above it in the log",
            ),
            file=sys.stderr,
        )
        return EXIT_ERROR
    return 0


def leave(code: int) -> NoReturn:
    """End the process at once, without tearing down client libraries.

    Everything of ours is closed by now, and the kernel closes connections. Pulsar's C++ threads now and then abort a
    process that ends in the ordinary way ("terminate called without an active exception"): a crash that means nothing.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT call `stop` while the block runs: the runner ends in order, its report says incomplete."""

    def handle(_signal: int, _frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Nothing in the loop makes cycles; scanning hundreds of thousands of messages for them would cost a tenth."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _refused(kind: type[RunnerConfig], error: OSError) -> EnvironmentError_:
    return EnvironmentError_(
        where=kind.__name__.removesuffix("Config").lower(),
        got=str(error),
        rule="a runner needs its folder, and its metrics port if it is given one",
        todo="make the folder writable or the port free, then run again",
    )


def _import_early() -> None:
    """Load what the config may ask for while it is awaited: every run is spared that time."""
    for library in ("confluent_kafka", "pulsar"):
        with suppress(ImportError):
            importlib.import_module(library)
