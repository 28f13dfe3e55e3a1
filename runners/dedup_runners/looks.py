"""Was deduplication in force for the whole time, and not only when somebody looked at the end?

Kafka's stored batches answer that by themselves: each carries a producer id or does not, whenever it was written.
Pulsar's brokers tell only what holds now: `deduplicationStatus` in the statistics of a topic at its owner. So the owner
is asked once a second, from before the first send until the faults have healed, and once more at the end. Every answer
is a line of `deduplication.jsonl`, and one that says otherwise means: not in force for the whole time.

While an owner loads a topic it says `Initialized` and then `Recovering`. It serves no producer before it has finished,
so these two say nothing against it. A broker that does not answer says nothing either. So the longest time between two
answers is recorded: the switch is a policy of the namespace, which no fault of ours can turn, and an owner that loads
the topic takes it from there, but what happened between two answers was not seen.
"""

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dedup.manifests import Deduplication
from dedup_runners.admins import Admin
from dedup_runners.journals import Journal

LOOK_S: Final = 1.0
STOP_S: Final = 60.0
FILE: Final = "deduplication.jsonl"
LOADING: Final = frozenset({"Initialized", "Recovering"})
ON: Final = "Enabled"
OFF: Final = "Disabled"
FAILING: Final = frozenset({"Removing", "Failed"})
"""What a topic says whose deduplication is on its way out, or broken: messages are not checked any more."""


class Looks:
    """Asks what is said of a topic's deduplication: when it `begin`s, and then for as long as its block lasts."""

    def __init__(self, admin: Admin, topic: str, folder: Path, every_s: float = LOOK_S) -> None:
        self._admin, self._topic, self._path, self._every_s = admin, topic, folder / FILE, every_s
        self._said: dict[str, int] = {}
        self._answers, self._last_ns, self._unseen_ns = 0, 0, 0
        self._needed = True
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deduplication", daemon=True)

    def begin(self) -> None:
        """The first look, before anything is sent."""
        self._last_ns = time.monotonic_ns()
        self._look(0)

    def __enter__(self) -> Self:
        if self._needed:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def shown(self, at_end: Deduplication) -> Deduplication:
        """What all looks show together with the one at the end."""
        if not self._needed:
            return at_end
        self._note_answer()
        unseen_s = round(self._unseen_ns / 1e9, 3)
        return whole_time(at_end, self._said, self._answers - 1, unseen_s)

    def _run(self) -> None:
        turn = 0
        while not self._over.wait(self._every_s):
            turn += 1
            self._look(turn)

    def _look(self, turn: int) -> None:
        try:
            found = self._admin.look(self._topic, turn)
        except Exception:  # an answer that cannot be had is missing: it must not stop the run
            return
        if found is None:
            self._needed = False
            return
        if not found:
            return
        self._note_answer()
        journal = Journal(self._path)
        journal.write(monotonic_ns=time.monotonic_ns(), statuses=found)
        journal.close()
        for status in found.values():
            self._said[status] = self._said.get(status, 0) + 1

    def _note_answer(self) -> None:
        now_ns = time.monotonic_ns()
        self._unseen_ns = max(self._unseen_ns, now_ns - self._last_ns)
        self._last_ns, self._answers = now_ns, self._answers + 1


def whole_time(at_end: Deduplication, said: dict[str, int], looks: int, unseen_s: float) -> Deduplication:
    """What holds for the whole time: `said` counts the statuses that were told before the end, in so many answers."""
    against = set(said) - LOADING - {ON if at_end.asked else OFF}
    in_force = at_end.in_force
    if against:
        proven = against & ({OFF} | FAILING) if at_end.asked else against & {ON}
        in_force = (not at_end.asked) if proven else None
    told = ", ".join(f"{status} {count:,} times" for status, count in sorted(said.items())) or "nothing"
    words = f"{at_end.proof}; before, in {looks:,} answers {unseen_s:g} s apart at most: {told}"
    return at_end.model_copy(update={"in_force": in_force, "proof": words, "looks": looks, "unseen_s": unseen_s})
