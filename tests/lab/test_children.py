"""The programs that the lab starts besides brokers: what is told of one that ended before it could be told anything."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from dedup.errors import PlatformError
from dedup_lab.children import Child, Children
from dedup_runners.waiting import until

BOUND_S: Final = 20.0
ENDS: Final = ["/bin/sh", "-c", "echo no room; exit 3"]
WAITS: Final = ["/bin/sh", "-c", "read line; echo $line"]


@pytest.fixture
def children() -> Iterator[Children]:
    found = Children()
    yield found
    found.close()


def ended(child: Child) -> int | None:
    until(lambda: child.code() is not None, BOUND_S, f"{child.name} ends")
    return child.code()


def test_one_that_ended_is_told_nothing_and_its_last_word_is_the_reason(children: Children, tmp_path: Path) -> None:
    """Its input is closed as soon as somebody sees that it has ended, as whoever starts the next one does."""
    producer = children.start("producer", ENDS, tmp_path / "producer.log")
    until(lambda: producer._process.poll() is not None, BOUND_S, "it ends")
    children.start("consumer", WAITS, tmp_path / "consumer.log")
    with pytest.raises(PlatformError, match="producer: got ended before it was told what to do; no room"):
        producer.tell("{}")


def test_one_that_waits_is_told(children: Children, tmp_path: Path) -> None:
    consumer = children.start("consumer", WAITS, tmp_path / "consumer.log")
    consumer.tell("its config\n")
    assert ended(consumer) == 0 and (tmp_path / "consumer.log").read_text() == "its config\n"
