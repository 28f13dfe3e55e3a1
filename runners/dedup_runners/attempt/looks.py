"""Was deduplication in force for the whole time, and not only when somebody looked at the end?

Kafka's stored batches answer that by themselves: each carries a producer id or does not, whenever it was written.
Pulsar's brokers tell only what holds now: `deduplicationStatus` in the statistics of a topic at its owner. So the owner
is asked once a second, from before the first send until the faults have healed, and once more at the end. Every answer
is a line of `deduplication.jsonl`, and one that says otherwise means: not in force for the whole time.

While an owner loads a topic it says `Initialized` and then `Recovering`. It serves no producer before it has finished,
so these two say nothing against it; nor does `Removing`, on its way to off, where deduplication should be off. A broker
that does not answer says nothing either, and what happened meanwhile was not seen. So the longest time without an
answer, of any partition until the faults have healed, is recorded and judged: beyond `UNSEEN_S`, or if nobody answered
for one of them before the end, it is not proven that deduplication was as asked. What was sent was sent by then.
"""

import threading
import time
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dedup.errors import EnvironmentError_
from dedup.wire.clients import Look
from dedup.wire.manifests import Deduplication
from dedup_runners.admins import Admin
from dedup_runners.recording.journals import Journal, unwritable

LOOK_S: Final = 1.0
STOP_S: Final = 60.0
UNSEEN_S: Final = 120.0
"""The longest time without an answer that leaves no doubt.

A killed owner's topic is silent until its session in the metadata store has ended (30 s by default) and another broker
has loaded the topic (seconds to tens of seconds). This is room for both, twice over: an honest outage ends within it.
"""
LOADING: Final = frozenset({"Initialized", "Recovering"})
ON: Final = "Enabled"
OFF: Final = "Disabled"
FAILING: Final = frozenset({"Removing", "Failed"})
"""What a topic says whose deduplication is on its way out, or broken: messages are not checked any more."""


class Looks:
    """Asks what is said of a topic's deduplication: when it `begin`s, and then for as long as its block lasts."""

    def __init__(self, admin: Admin, topic: str, folder: Path, *, partitions: int, every_s: float = LOOK_S) -> None:
        self._admin, self._topic, self._path, self._every_s = admin, topic, folder / Look.FILE, every_s
        self._partitions = partitions
        self._said: dict[str, int] = {}
        self._told: dict[str, set[str]] = {}
        self._last_ns: dict[str, int] = {}
        self._turn, self._answers, self._began_ns, self._unseen_ns = 0, 0, 0, 0
        self._needed, self._ended = True, False
        self._unwritable: EnvironmentError_ | None = None
        self._table = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deduplication", daemon=True)

    def begin(self) -> None:
        """The first look at each partition, before anything is sent; it ends with a look that shows no other one."""
        self._began_ns = time.monotonic_ns()
        for turn in range(self._partitions):
            before, self._turn = len(self._told), turn
            self._look(turn)
            if not before < len(self._told) < self._partitions:
                break

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
        with self._table:
            self._ended = True
            now_ns = time.monotonic_ns()
            silent_ns = [] if len(self._last_ns) >= self._partitions else [self._began_ns]
            self._unseen_ns = max([self._unseen_ns, *(now_ns - at for at in (*self._last_ns.values(), *silent_ns))])

    def shown(self, at_end: Deduplication) -> Deduplication:
        """What all looks show together with the one at the end; EnvironmentError_ if an answer was not written."""
        with self._table:
            if self._unwritable is not None:
                raise self._unwritable
            if not self._needed:
                return at_end
            said, answers, unseen_s = dict(self._said), self._answers, round(self._unseen_ns / 1e9, 3)
            told = [*map(frozenset, self._told.values())]
        told += [frozenset()] * (self._partitions - len(told))
        return whole_time(at_end, said, answers, unseen_s, told)

    def _run(self) -> None:
        try:
            while not self._over.wait(self._every_s):
                self._turn += 1
                self._look(self._turn)
        except OSError as error:
            self._unwritable = unwritable(self._path.parent, error)
        except EnvironmentError_ as error:  # an answer that is not on the disk is no evidence
            self._unwritable = error

    def _look(self, turn: int) -> None:
        try:
            found = self._admin.look(self._topic, turn)
        except Exception:  # an answer that cannot be had is missing: it must not stop the run
            return
        with self._table:
            if not self._ended:
                self._note(found)

    def _note(self, found: dict[str, str] | None) -> None:
        if found is None:
            self._needed = False
        elif found:
            now_ns = time.monotonic_ns()
            self._answers += 1
            journal = Journal(self._path)
            journal.write(Look(monotonic_ns=now_ns, statuses=found))
            journal.close()
            for part, status in found.items():
                self._unseen_ns = max(self._unseen_ns, now_ns - self._last_ns.get(part, self._began_ns))
                self._last_ns[part] = now_ns
                self._told.setdefault(part, set()).add(status)
                self._said[status] = self._said.get(status, 0) + 1


def whole_time(
    at_end: Deduplication,
    said: dict[str, int],
    looks: int,
    unseen_s: float,
    told: Collection[AbstractSet[str]] = (),
) -> Deduplication:
    """What holds for the whole time: `said` counts the statuses that were told before the end, in so many answers.

    `told` are those of each partition; one that told nothing may have been switched in any way.
    """
    silent = LOADING if at_end.asked else LOADING | {"Removing"}
    telling = set(said) - silent
    unheard = sum(not each - silent for each in told)
    against = telling - {ON if at_end.asked else OFF}
    in_force, doubt = at_end.in_force, ""
    if against:
        proven = against & ({OFF} | FAILING) if at_end.asked else against & {ON}
        in_force = (not at_end.asked) if proven else None
    elif in_force is at_end.asked and (not telling or unheard or unseen_s > UNSEEN_S):
        in_force = None
        whose = f"of each of {len(told)} partitions, and {unheard} gave none, " if unheard and len(told) > 1 else ""
        takes = f"it takes answers {whose}before the end, {UNSEEN_S:g} s apart at most"
        doubt = f"; that proves nothing for the whole time: {takes}"
    all_told = ", ".join(f"{status} {count:,} times" for status, count in sorted(said.items())) or "nothing"
    words = f"{at_end.proof}; before, in {looks:,} answers {unseen_s:g} s apart at most: {all_told}{doubt}"
    return at_end.model_copy(update={"in_force": in_force, "proof": words, "looks": looks, "unseen_s": unseen_s})
