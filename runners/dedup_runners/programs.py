"""How our programs begin and end: one config in, exit code 0 with a report or one line on standard error."""

import errno
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

from dedup.errors import EXIT_ERROR, DedupError, EnvironmentError_, PlatformError
from dedup.experiment.assignments import EXIT_CLAIMED
from dedup.process.orphans import leave_with_parent
from dedup_runners import clients, lifelines
from dedup_runners.claims import AlreadyClaimed
from dedup_runners.configs import C, read

STDIN = "-"
UNREACHABLE = {errno.EHOSTUNREACH, errno.ENETUNREACH}


class Ending(NamedTuple):
    """How a program ended: its exit code, and the line that a person is told if it is not 0."""

    code: int = 0
    words: str = ""


def main(kind: type[C], work: Callable[[C], None], arguments: list[str]) -> int:
    """Run `work` on the config that the only argument names; the process's exit code."""
    leave_with_parent()
    if len(arguments) != 1:
        print(f"usage: python -m dedup_runners.… CONFIG|{STDIN}", file=sys.stderr)
        return 2
    source, role = arguments[0], kind.__name__.removesuffix("Config").lower()
    with lifelines.held(role) as ended:
        ending = attempt(role, lambda: work(_config(source, kind)))
        ended(*ending)
    return ending.code


def attempt(role: str, work: Callable[[], None]) -> Ending:
    """Do the work of a program, and say on standard error in one line what it could not do."""
    try:
        work()
        return Ending()
    except AlreadyClaimed as error:
        print(error, file=sys.stderr)
        return Ending(EXIT_CLAIMED, str(error))
    except DedupError as error:
        words = str(error)
    except OSError as error:
        words = str(_refused(role, error))
    except Exception as error:
        traceback.print_exc()
        words = str(
            PlatformError(
                where=role,
                got=f"{type(error).__name__}: {error}",
                rule="this is a defect of the program, or of a library that it uses",
                todo="see the traceback above it in the log",
            )
        )
    print(words, file=sys.stderr)
    return Ending(EXIT_ERROR, words)


def _config(source: str, kind: type[C]) -> C:
    """The config of a runner, awaited if it comes later; what it may ask for is loaded meanwhile."""
    if source == STDIN or lifelines.shared() is not None:
        clients.import_all()  # every run is spared that time
    if source != STDIN:
        lifelines.await_orders(Path(source))
    return read(source, kind)


def leave(code: int) -> NoReturn:
    """End the process at once, without tearing down client libraries.

    Everything of ours is closed by now, and the kernel closes connections. Pulsar's C++ threads now and then abort a
    process that ends in the ordinary way ("terminate called without an active exception"): a crash that means nothing.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def has_the_process() -> bool:
    """Whether the process is this runner's own. Else it is a thread among others, and leaves the process as it is."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT call `stop` while the block runs: the runner ends in order, its report says incomplete."""
    if not has_the_process():
        yield
        return

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
    if not has_the_process():
        yield
        return
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _refused(role: str, error: OSError) -> DedupError:
    """What a machine or a peer has refused: a connection that breaks says nothing of the folder."""
    if isinstance(error, ConnectionError | TimeoutError) or error.errno in UNREACHABLE:
        return PlatformError(
            where=role,
            got=str(error) or type(error).__name__,
            rule="who is asked over the network answers",
            todo="look into the brokers' logs, and whether they can be reached from here",
        )
    return EnvironmentError_(
        where=role,
        got=str(error),
        rule="a runner needs its folder, and its metrics port if it is given one",
        todo="make the folder writable or the port free, then run again",
    )
