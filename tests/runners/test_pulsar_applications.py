"""An application that writes in Pulsar's transactions: what it orders of the Java client, for which a script stands.

The script knows two partitions of three messages, keeps the transaction that is open, and aborts one if it is told to.
"""

import sys
from pathlib import Path
from typing import Any, Final

import pytest

from dedup.payloads import Message, unpacked
from dedup.wire.manifests import EndPosition
from dedup.workloads.consumer import Commit, Consumer, Output
from dedup.workloads.restart import End, RestartAt
from dedup_runners.clients import processing_pulsar_java
from dedup_runners.clients.processing import Task, life_of
from dedup_runners.configs import ConsumerConfig, Program

LEDGER: Final = 5
SCRIPT: Final = """
import json, sys
conflicts = int(sys.argv[1])
log = open(sys.argv[2], "a")
asked = json.loads(sys.stdin.readline())
print("done pulsar-client 9.9", flush=True)
order = [int(each) for each in sys.argv[3]]
left = {p: [(e, (p << 48 | e + 1).to_bytes(8, "big").hex()) for e in order] for p in range(2)}
for line in sys.stdin:
    words = line.split()
    print(line.strip(), file=log, flush=True)
    if words[0] == "take":
        own = left[int(words[1])]
        for _ in range(min(int(words[2]), len(own))):
            entry, payload = own.pop(0)
            print("message", 5, entry, 0, payload)
    if words[0] == "ack" and conflicts > 0:
        conflicts -= 1
        print("error aborted TransactionConflictException: in pending ack status", flush=True)
        continue
    if words[0] == "commit" and conflicts < 0:
        print("error failed TransactionNotFoundException: no", flush=True)
        continue
    print("done", flush=True)
"""


class Admin:
    """It says that nothing is acknowledged."""

    def __init__(self, _: object) -> None: ...

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None: ...

    def mark_deleted(self, topic: str, subscription: str) -> list[tuple[int, int]]:
        assert (topic, subscription) == ("t", "application-of-r1")
        return [(LEDGER, -1)] * 2


@pytest.fixture
def lived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """What a life that comes to the end has said, and ordered; by when it commits, and how often brokers refuse."""
    monkeypatch.setattr(processing_pulsar_java, "PulsarAdmin", Admin)
    monkeypatch.setattr("dedup_runners.clients.processing_writing.AGAIN_S", 0.0)

    def live(commit: Commit, conflicts: int = 0, order: str = "012") -> tuple[list[str], list[list[str]]]:
        orders = tmp_path / "orders"
        argv = (sys.executable, "-S", "-E", "-c", SCRIPT, str(conflicts), str(orders), order)
        endpoints = {"system": "pulsar", "client_bootstrap": "p", "direct_bootstrap": "p", "brokers": []}
        config = ConsumerConfig.model_validate(
            {
                "run_id": "r1", "folder": tmp_path, "endpoints": endpoints, "topic": "t", "library": "pulsar-client",
                "streams": 2, "program": Program(argv=("never",), application=argv),
                "consumer": Consumer(
                    at=RestartAt(message=5), end=End.CLOSE, commit=commit, batch=4, output=Output.TRANSACTIONS
                ),
            }
        )  # fmt: skip
        end = tuple(EndPosition(partition=each, extents=((LEDGER, 3),)) for each in range(2))
        life_of(Task(config=config, end=end, timeout_s=30.0, life=1)).live()
        said = capfd.readouterr().out.splitlines()
        return said, [each.split() for each in orders.read_text().splitlines()]

    return live


def within(orders: list[list[str]]) -> list[str]:
    """The orders in a row, but for those that take, without their objects."""
    return [" ".join(each[:1] + each[4:]) for each in orders if each[0] != "take"]


FOUR: Final = ["begin", *["write"] * 4, "settle"]
TWO: Final = ["begin", *["write"] * 2, "settle"]


def test_acknowledgements_are_in_the_transaction_of_the_outputs(lived: Any) -> None:
    said, orders = lived(Commit.IN_TRANSACTION)
    assert within(orders) == [*FOUR, *["ack within"] * 4, "commit", *TWO, *["ack within"] * 2, "commit"]
    assert [each for each in said if each.startswith(("wrote", "committed", "speaks", "ended"))] == [
        *("speaks pulsar-client 9.9", "wrote 4", "committed 4", "wrote 6", "committed 6", "ended"),
    ]


@pytest.mark.parametrize(
    ("commit", "first"),
    [
        (Commit.AFTER, [*FOUR, "commit", *["ack outside"] * 4]),
        (Commit.BEFORE, [*FOUR, *["ack outside"] * 4, "commit"]),
    ],
)
def test_outside_of_it_they_come_before_or_after(commit: Commit, first: list[str], lived: Any) -> None:
    _, orders = lived(commit)
    assert within(orders)[: len(first)] == first


@pytest.mark.parametrize("order", ["012", "120"], ids=["in order", "what was pending comes last"])
def test_a_life_takes_what_a_killed_one_left_pending_and_does_not_say_that_it_skipped_it(
    lived: Any, order: str
) -> None:
    said, orders = lived(Commit.IN_TRANSACTION, order=order)
    assert len([each for each in orders if each[0] == "write"]) == 6
    assert not [each for each in said if each.startswith("begins")]


@pytest.mark.parametrize(
    ("at", "left"), [((-1, -1), 7), ((5, -1), 7), ((5, 0), 6), ((5, 2), 4), ((6, 1), 2), ((6, 3), 0), ((9, 9), 0)]
)
def test_what_lies_behind_a_position(at: tuple[int, int], left: int) -> None:
    end = EndPosition(partition=0, extents=((5, 3), (6, 4)))
    assert processing_pulsar_java.behind(end, at) == left


def test_outputs_name_their_input_and_this_life(lived: Any) -> None:
    _, orders = lived(Commit.AFTER)
    written = [(int(each[1]), unpacked(bytes.fromhex(each[2]))) for each in orders if each[0] == "write"]
    assert sorted(written, key=str) == sorted(
        [(stream, Message(stream, value, 1, 0)) for stream in range(2) for value in range(1, 4)], key=str
    )


def test_a_batch_whose_acknowledgement_is_refused_is_written_again(lived: Any) -> None:
    """A life that was killed has left them pending; nothing of the aborted transaction counts."""
    said, orders = lived(Commit.IN_TRANSACTION, conflicts=2)
    assert within(orders)[:14] == [*FOUR, "ack within", *FOUR, "ack within"]
    assert [each.split()[1] for each in said if each.startswith("answered")] == ["1", "1", "0", "0"]
    assert [each for each in said if each.startswith("wrote")] == ["wrote 4", "wrote 6"]


def test_an_acknowledgement_outside_of_a_transaction_is_not_undone_with_it(lived: Any) -> None:
    """Its answer may be lost, and others of its batch have been confirmed before it."""
    said, orders = lived(Commit.BEFORE, conflicts=2)
    assert within(orders)[:14] == [*FOUR, "ack outside", *FOUR, "ack outside"]
    assert [each.split()[1] for each in said if each.startswith("answered")] == ["2", "2", "0", "0"]


def test_a_commit_that_fails_ends_the_life_in_words(lived: Any) -> None:
    """What became of it nobody knows."""
    with pytest.raises(OSError, match="TransactionNotFoundException"):
        lived(Commit.AFTER, conflicts=-1)
