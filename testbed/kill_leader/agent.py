"""The pod's part of a run that is driven from outside: it answers requests from outside of the pods' network.

It runs in the client's pod, `python agent.py FOLDER ENDPOINTS`, from a ConfigMap, and needs the runner image's packages
only. One JSON line comes in (`ask` names a method below), one goes out. It asks the brokers by the direct path, is the
trigger that the producer pushes, and writes faults.jsonl by the same clock as the producer's own marks: all
events but the kill itself are recorded here.
"""

import json
import sys
from pathlib import Path
from typing import Any

import psutil

from dedup.errors import DedupError
from dedup.experiment.endpoints import Endpoints
from dedup.wire.faults import Detail, FaultEvent, FaultLine
from dedup_runners.admins import connect
from dedup_runners.chaos.watchdog import append
from dedup_runners.triggers import TriggerServer
from dedup_runners.waiting import until

CLIENT_PORT = 9094
CLOSED_S = 60.0


class Agent:
    """The requests. Every answer is a JSON object."""

    def __init__(self, folder: Path, endpoints: Endpoints) -> None:
        self._lines = str(folder / FaultLine.FILE)
        self._brokers = {broker.id for broker in endpoints.brokers}
        self._admin = connect(endpoints)
        self._trigger: TriggerServer | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def create(self, topic: str) -> dict[str, Any]:
        """A fresh topic, led and fully replicated."""
        self._admin.create_topic(topic, partitions=1, deduplication=False)
        return {}

    def arm(self) -> dict[str, Any]:
        """Listen for the producer of the next run."""
        self._trigger = TriggerServer()
        return {"port": self._trigger.port}

    def strike(self, fault: str, topic: str, timeout_s: float) -> dict[str, Any]:
        """Wait for the producer's push; returns the topic's leader, which is to be killed now."""
        assert self._trigger is not None
        pushed = self._trigger.wait_message(timeout_s)
        leader = self._admin.leader(topic)
        append(self._lines, fault, FaultEvent.TRIGGERED, Detail(actual=pushed.actual, acked=pushed.acked).said())
        append(self._lines, fault, FaultEvent.INJECTING, {"broker": leader, "leader": leader})
        return {"leader": leader}

    def tell(self, fault: str, event: str, detail: dict[str, Any]) -> dict[str, Any]:
        """Notify the producer, which stamps its counters, and record the event."""
        assert self._trigger is not None
        self._trigger.announce(FaultEvent(event), fault)
        append(self._lines, fault, event, detail)
        return {}

    def heal(self, fault: str, topic: str, timeout_s: float) -> dict[str, Any]:
        """Wait until every broker reports a healthy system, and a round trip on the clients' path succeeded."""
        until(lambda: self._admin.unhealthy(topic) is None, timeout_s, f"{topic} is healthy again", 0.1)
        seconds = until(self._round_trip, timeout_s, "a round trip succeeds", 0.5)
        return self.tell(fault, FaultEvent.HEALED, {"round_trip_s": seconds})

    def settle(self, topic: str, asked: bool) -> dict[str, Any]:
        """When no client is connected any more: what the stored batches show of deduplication."""
        until(lambda: not self._connections(), CLOSED_S, "the clients' connections are gone", 0.1)
        assert self._trigger is not None
        self._trigger.close()
        found = self._admin.deduplication_in_force(topic, asked)
        return {"deduplication": found.model_dump(mode="json"), "versions": self._admin.versions()}

    def _round_trip(self) -> float:
        """Seconds; 0 if it did not succeed, for a first attempt may meet a connection that is just being given up."""
        try:
            return self._admin.round_trip(10.0)
        except DedupError:
            return 0.0

    def _connections(self) -> int:
        """Connections of this pod to the brokers' listener for clients: Toxiproxy's, one for each of a client's."""
        found = psutil.net_connections("tcp")
        return sum(
            1 for each in found if each.raddr and each.raddr.port == CLIENT_PORT and each.status == "ESTABLISHED"
        )


def main() -> None:
    """Answer until standard input ends."""
    agent = Agent(Path(sys.argv[1]), Endpoints.model_validate_json(sys.argv[2]))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(agent, request.pop("ask"))(**request)
        except DedupError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
