"""The oracle on many histories: one after the other in this process, or several at once in processes of their own."""

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from pydantic import ValidationError

from dedup.history.stores import Place
from dedup.judgement.verdicts import Evidence
from dedup.wire.manifests import Manifest
from dedup_lab.children import Child, Children, python
from dedup_spark.opinion_job import ANSWERS
from dedup_spark.opinions import Answers, needed, second_opinion

Opened = tuple[Place, Evidence]
"""Where a history's tables are, and what its folder says."""

WORTH_IT: Final = 100_000
"""Messages of a history for which a process of its own is worth its start, half a second."""
BYTES_A_MESSAGE: Final = 4_000
"""What the oracle needs of memory: 2,700 were measured of 1,000,000 messages, each sent and read once."""


class _Asked(NamedTuple):
    """A history that a process judges."""

    number: int
    child: Child
    output: Path
    deadline: float


def one_by_one(histories: Sequence[Opened], before: Callable[[], None]) -> Iterator[tuple[Place, Answers]]:
    """The oracle's answer on each history; `before` is called before each, and may raise."""
    for tables, evidence in histories:
        before()
        yield tables, second_opinion(tables, evidence)


def at_once(histories: Sequence[Opened]) -> int:
    """How many histories are worth judging side by side: as many as there are processors, and memory for.

    One, where the extra `lab` is not installed: nobody tells then how much memory there is.
    """
    sizes = [each.manifest.messages for _, each in histories if isinstance(each.manifest, Manifest) and needed(each)]
    if len(sizes) < 2 or max(sizes) < WORTH_IT:
        return 1
    if find_spec("psutil") is None:
        return 1
    import psutil

    room = int(psutil.virtual_memory().available // (BYTES_A_MESSAGE * max(sizes)))
    return max(1, min(psutil.cpu_count() or 1, room, len(sizes)))


def side_by_side(
    histories: Sequence[Opened], children: Children, work: Path, timeout_s: float, most: int
) -> Iterator[tuple[Place, Answers]]:
    """The oracle's answers, each as soon as it is there, from at most so many processes at once.

    A process that ends without an answer, or has none after the time, makes a `problem` of its history, not of others.
    Cancelled if the stage is.
    """
    work.mkdir(parents=True, exist_ok=True)
    waiting, running = list(enumerate(histories)), list[_Asked]()
    while waiting or running:
        while waiting and len(running) < most:
            number, (tables, evidence) = waiting.pop(0)
            running.append(_ask(number, tables, evidence, children, work, monotonic() + timeout_s))
        for each in list(running):
            if each.child.code() is not None or monotonic() > each.deadline:
                running.remove(each)
                yield histories[each.number][0], _answer(each, timeout_s)
        if running:
            running[0].child.pause()


def _ask(number: int, tables: Place, evidence: Evidence, children: Children, work: Path, deadline: float) -> _Asked:
    output = work / f"oracle-{number}.json"
    output.unlink(missing_ok=True)
    alone = [] if evidence.alone is None else ["--alone"]
    command = python("dedup_spark.opinion_job", "--output", str(output), *alone, str(tables))
    return _Asked(number, children.start(f"oracle {number}", command, work / f"oracle-{number}.log"), output, deadline)


def _answer(asked: _Asked, timeout_s: float) -> Answers:
    code = asked.child.code()
    if code is None:
        asked.child.give_up()
        return {"problem": str(asked.child.failure(f"no answer after {timeout_s:g} s"))}
    if code:
        return {"problem": str(asked.child.failure(f"exit code {code}"))}
    try:
        return ANSWERS.validate_json(asked.output.read_bytes())
    except (OSError, ValidationError) as error:
        return {"problem": str(asked.child.failure(str(error).splitlines()[0]))}
