"""Functions of Pulsar, seen by their operator: registered with a worker, and what brokers tell of their progress."""

import json
from typing import Any, Final

import httpx

from dedup.errors import one_line
from dedup.experiment.endpoints import Endpoints
from dedup_runners.admins.owners import Owners, refused

MOST_WORDS: Final = 600
SPACE: Final = "public/default"
"""The tenant and the namespace in which functions are registered. Their topics are elsewhere."""


class Functions(Owners):
    """The function worker at a URL, and the brokers that its functions read and write."""

    def __init__(self, endpoints: Endpoints, url: str, token: str) -> None:
        """`token`: what the worker asks for. Brokers are shown it, too, and ask for none."""
        super().__init__(endpoints)
        self._place, self._leader = f"{url}/admin/v3/functions/{SPACE}", f"{url}/admin/v2/worker/cluster/leader"
        self._http.headers["Authorization"] = f"Bearer {token}"

    def leads(self) -> bool:
        """Whether the worker has found who leads, as it must before it is given anything."""
        try:
            return self._http.get(self._leader).is_success
        except httpx.HTTPError:
            return False

    def register(self, name: str, config: dict[str, Any], package: str) -> None:
        """Have the worker run a function of a package; PlatformError with its words if it refuses."""
        parts = {"functionConfig": (None, json.dumps(config), "application/json")}
        try:
            answer = self._http.post(f"{self._place}/{name}", files={**parts, "url": (None, package, "text/plain")})
        except httpx.HTTPError as error:
            raise OSError(f"{type(error).__name__}: {error}") from None
        if not answer.is_success:
            raise refused(f"function {name}", answer)

    def told(self, name: str) -> dict[str, Any]:
        """The function's configuration, as the worker has it."""
        return dict(self.asked(f"{self._place}/{name}", f"the configuration of function {name}"))

    def state(self, name: str) -> str:
        """What the worker says of the function's instances, in one line."""
        try:
            told = self._http.get(f"{self._place}/{name}/status").text
        except httpx.HTTPError as error:
            told = f"{type(error).__name__}: {error}"
        return one_line(told)[:MOST_WORDS]

    def restarts(self, name: str) -> int:
        """How often its worker has started the function's instances again, since the worker runs."""
        told = self.asked(f"{self._place}/{name}/status", f"the status of function {name}")
        return sum(int(each.get("status", {}).get("numRestarts", 0)) for each in told.get("instances", ()))

    def remove(self, name: str) -> None:
        """End the function's instances; one that is not there is no error."""
        try:
            answer = self._http.delete(f"{self._place}/{name}")
        except httpx.HTTPError as error:
            raise OSError(f"{type(error).__name__}: {error}") from None
        if not answer.is_success and answer.status_code != httpx.codes.NOT_FOUND:
            raise refused(f"function {name}", answer)

    def consumers(self, topic: str, partitions: int, subscription: str) -> int:
        """How many consumers a subscription has, in all partitions; one that is not there has none."""
        told = [each["subscriptions"].get(subscription) for each in self.statistics(topic, partitions)]
        return sum(len(each["consumers"]) for each in told if each is not None)

    def backlog(self, topic: str, partitions: int, subscription: str) -> int | None:
        """How many entries of a topic a subscription has not acknowledged; None if there is no such subscription."""
        told = [each["subscriptions"].get(subscription) for each in self.statistics(topic, partitions)]
        return None if None in told else sum(int(each["msgBacklog"]) for each in told)
