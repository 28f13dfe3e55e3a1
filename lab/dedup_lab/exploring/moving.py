"""A partition's leader (Pulsar: the topic's owner) moves while a reply of it waits to be lost: decision 138.

Such a visit runs alone: with a topic of Pulsar's its whole bundle moves, which has topics of other visits.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from dedup.errors import DedupError, PlatformError
from dedup.experiment.points import Action, Schedule
from dedup_lab.exploring import strikes
from dedup_runners.admins import Admin
from dedup_runners.closing import Closing
from dedup_runners.interposer.connections import Strike
from dedup_runners.interposer.protocols import Frame
from dedup_runners.interposer.rules import Rule


class Moving(Closing):
    """What moves the leaders that a schedule asks for. `close` returns when none is on its way.

    `happen` is told when a leader has moved. Whether it has is not asked here: the broker that stored what was sent
    again shows it (`strikes.missed`). `problems`: what could not be asked for, in words.
    """

    def __init__(self, admin: Admin, topic: str, schedule: Schedule) -> None:
        self._admin, self._topic = admin, topic
        self._points = {point.name: point for point in schedule if point.action is Action.LOSE_REPLY_AND_MOVE}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="moving")
        self.happen: Callable[[str], None] = lambda event: None
        self.problems: list[str] = []

    def struck(self, rule: Rule, frame: Frame, strike: Strike) -> None:
        """A rule has struck; called in the interposer's thread, which must not wait."""
        if rule.name in self._points:
            self._pool.submit(self._move, rule.name)

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def _move(self, name: str) -> None:
        point = self._points[name]
        try:
            self._admin.move_leader(self._topic, point.exchange.partition or 0)
        except DedupError as error:
            self.problems.append(str(error))
        with suppress(RuntimeError, PlatformError):  # the interposer is closed by now: the visit was given up
            self.happen(strikes.leader_moved(point))
