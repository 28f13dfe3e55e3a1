"""An experiment that cannot go on gives its place up: what of it still runs is ended first, or has had its time.

One that is suspended or stalled would else keep its place, and with it its systems, for as long as people like, and a
few of them would keep everybody else waiting for ever. So its run is ended, and when the run's pods are gone its
systems are taken away; a verification or report that has begun comes to its end. Then it is *parked*: it has no place,
and waits for one to go on with, like those that never began. The stage machine goes on from where it was: a system
that is not there is brought back, and a run that was cut short is done again as a new attempt.

What cannot be ended (nobody may delete it, a node is gone) holds a place for a bounded time only.
"""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from dedup.errors import DedupError
from dedup.experiment.assignments import GRACE_S
from dedup.experiment.spec import Experiment
from dedup.experiment.stages import State, Task, current, timeout_of
from dedup_operator.clusters import Refused
from dedup_operator.conditions import TIME
from dedup_operator.platforms import KubernetesPlatform
from dedup_operator.statuses import Status
from dedup_operator.stories import runs_over

KEEPS_S: Final = 600.0
"""How long a stalled one keeps its place: most are mended soon, and to take a system away and bring it back costs."""
AT_MOST_S: Final = 3600.0
"""How long it does if not even what it runs can be read."""


def idle_s(status: Status, now_unix_s: float) -> float:
    """For how long it has been suspended or stalled, as its status says; 0: it is not."""
    for each in status.conditions:
        if (each.type, each.status) == ("Reconciling", "False"):
            since = datetime.strptime(each.last_transition_time, TIME).replace(tzinfo=UTC)
            return max(0.0, now_unix_s - since.timestamp())
    return 0.0


def made_room(
    platform: KubernetesPlatform, taken: Experiment, tasks: tuple[Task, ...], state: State, idle_s: float, why: str
) -> bool:
    """End what runs, a step at a time; whether nothing does any more, or has had its time."""
    task, attempt = current(tasks, state)
    with suppress(Refused, DedupError):
        if platform.rest(task, attempt, f"{task}: ended by {why}"):
            return True
    if idle_s <= timeout_of(task, taken.spec.timeouts, runs_over(tasks, len(tasks))) + GRACE_S:
        return False
    with suppress(Refused, DedupError):
        platform.cancel(task, attempt, f"{task}: ended by {why}")
    return True


def resumed(tasks: tuple[Task, ...], state: State) -> State:
    """Where one that was parked goes on. That it was is no failure of its task, whose time begins anew."""
    anew = {} if current(tasks, state)[0].run_id else {"intended": False, "since_unix_s": 0.0}
    return state.model_copy(update={"restarts": 0, **anew})
