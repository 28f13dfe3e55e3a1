"""The process of a function worker. A keeper of this machine starts it again, or the kubelet of its pod.

It is killed as a broker is (dedup_runners.chaos.sites), and its end and its return are proven in the same way. What a
life of it calls itself is a number that stands in all that it makes: the number of its process, or, in a container,
what its start has written down.
"""

import shlex
from typing import Final, NamedTuple

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Endpoints, Worker
from dedup_runners.chaos import sites
from dedup_runners.chaos.sites.protocol import Victim
from dedup_runners.closing import Closing
from dedup_runners.waiting import persistently, until

ALIVE_S: Final = 60.0
DEAD_S: Final = 60.0


class Lived(NamedTuple):
    """One life of the worker: which one, and its number."""

    victim: Victim
    number: int


class Keeping(Closing):
    """Who looks after the worker, and kills it."""

    def __init__(self, worker: Worker, endpoints: Endpoints) -> None:
        alone = {"brokers": [worker.process], "bookies": [], "zookeepers": []}
        self._worker = worker
        self._site = sites.connect(endpoints.model_copy(update=alone))

    def now(self) -> Lived:
        """Its present life; it is waited for."""
        bound_s = ALIVE_S + self._site.restart_grace_s  # a run before may have killed it
        victim = persistently(lambda: self._site.victim(self._worker.process.id), bound_s, "the function worker")
        return Lived(victim, persistently(lambda: self._number(victim), ALIVE_S, "the function worker's number"))

    def token(self, of: Lived) -> str:
        """What the worker asks for."""
        return self._site.run(of.victim, f"cat {shlex.quote(self._worker.token_file)}").strip()

    def is_at_work(self, life: Lived) -> bool:
        """Whether that life goes on."""
        return self._site.victim(life.victim.broker).life == life.victim.life

    def kill(self, life: Lived, down_s: float) -> None:
        """SIGKILL; it is started again so much later. PlatformError if that life is over."""
        if not self.is_at_work(life):
            raise PlatformError(
                where=f"the function worker, process {life.number}",
                got="another process",
                rule="it lives until it is killed",
                todo="look into the worker's log for why it ended",
            )
        self._site.kill(life.victim, down_s)

    def code_of(self, life: Lived) -> int:
        """The exit code of a life that was killed, when its keeper or the kubelet has said so."""
        death = until(lambda: self._site.death(life.victim), DEAD_S, "the function worker is dead")
        assert death is not None  # what `until` returns is true
        return death.exit_code

    def after(self, life: Lived, down_s: float) -> Lived:
        """The next life, once it is there."""
        bound_s = down_s + ALIVE_S + self._site.restart_grace_s
        until(lambda: self._site.restarted(life.victim), bound_s, "the function worker was started again", 0.1)
        return self.now()

    def close(self) -> None:
        self._site.close()

    def _number(self, victim: Victim) -> int:
        file = self._worker.life_file
        said = self._site.run(victim, 'echo "$process"' if file is None else f"cat {shlex.quote(file)}").strip()
        if not said.isdigit():
            raise PlatformError(
                where=f"the function worker: {file or 'its process'}",
                got=said[:80] or "nothing",
                rule="each life of it has a number, which stands in its outputs",
                todo="look into the worker's log",
            )
        return int(said)
