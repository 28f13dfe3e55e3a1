"""A producer and one fault, played in a pod: `python -c SOURCE ENDPOINTS FOLDER FAULT HOW`, all but FOLDER as JSON.

FAULT is a fault as in an experiment, HOW says more: `messages`; `die`, the event at which the injector is killed;
`broker`, to strike that one; `believed`, other endpoints that the injector is told. What everyone saw is printed as one
line of JSON.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from dedup.experiment.clients import Library
from dedup.experiment.endpoints import Endpoints
from dedup.faults.records import vacuous
from dedup.faults.registry import Fault
from dedup.wire.clients import Disturbance, Mark
from dedup.wire.faults import FaultLine
from dedup_runners import admins, chaos, lifelines
from dedup_runners.admins import Admin
from dedup_runners.chaos import sites
from dedup_runners.chaos.watchdog import Toxiproxy
from dedup_runners.configs import ProducerConfig, Trigger
from dedup_runners.recording.journals import lines
from dedup_runners.waiting import until

BOUND_S = 240.0
SHARED = Path("/shared")
LIBRARIES: dict[str, Library] = {"kafka": "confluent-kafka", "pulsar": "pulsar-client"}


def play(
    endpoints: Endpoints,
    folder: Path,
    fault: Fault,
    *,
    messages: int,
    die: str | None = None,
    broker: str | None = None,
    believed: dict[str, Any] | None = None,
) -> object:
    """The record of the fault, and what is left of it."""
    folder.mkdir(parents=True)
    struck = endpoints.model_copy(update={"brokers": endpoints.bookies}) if fault.needs_bookies else endpoints
    with (
        lifelines.held(lifelines.CONDUCTOR, SHARED),
        admins.connect(endpoints) as admin,
        sites.connect(endpoints) as site,
        sites.connect(struck) as victims,
    ):
        site.warm_up()
        before = victims.exits()
        topic = admin.topic_name(folder.name, deduplication=True)
        admin.create_topic(topic, partitions=1, deduplication=True)
        os.environ[lifelines.VARIABLE] = str(SHARED)
        injector = start(folder, "injector", "dedup_runners.chaos", str(folder), fault.name)
        del os.environ[lifelines.VARIABLE]
        document = chaos.render(
            fault,
            folder=folder,
            endpoints=Endpoints.model_validate(believed or endpoints),
            topic=topic,
            timeout_s=BOUND_S,
            broker=broker,
            watchdog=SHARED / "watchdog.sock",
        )
        chaos.write(folder, document)
        until(lambda: armed(folder, fault) or injector.poll() is not None, BOUND_S, "the fault to be armed")
        if (port := armed(folder, fault)) is None:
            (record,) = chaos.records(folder, [fault], messages=messages)
            sys.exit(f"never armed: {'; '.join(record.problems)}; {vacuous(record)}")
        trigger = Trigger(fault=fault.name, message=fault.at.message, port=port)
        producer = produce(endpoints, folder, topic, messages, trigger)
        if die:
            until(lambda: die in events(folder) or injector.poll() is not None, BOUND_S, f"the event {die}")
            os.killpg(injector.pid, signal.SIGKILL)
        codes = [producer.wait(BOUND_S), injector.wait(BOUND_S)]
        until(lambda: whole(admin, topic), BOUND_S, "the brokers to be whole again", 0.5)
        until(lambda: not toxics(endpoints), BOUND_S, "the toxics to be gone", 0.1)
        until(site.idle, BOUND_S, "the clients' connections to be gone", 0.1)
        exits = victims.exits() - before
    (record,) = chaos.records(folder, [fault], messages=messages)
    return {
        "record": record.model_dump(mode="json"),
        "vacuous": vacuous(record),
        "codes": codes,
        "exits": exits,
        "lines": [line.model_dump() for line in lines(folder, FaultLine)],
        "marks": [mark.model_dump() for mark in lines(folder, Mark)],
        "disturbances": [each.model_dump() for each in lines(folder, Disturbance)[:50]],
    }


def armed(folder: Path, fault: Fault) -> int | None:
    return chaos.armed_port(folder, fault.name)


def start(folder: Path, name: str, module: str, *arguments: str, stdin: int = subprocess.DEVNULL) -> Any:
    """A program of ours in a group of its own."""
    with open(folder / f"{name}.log", "wb") as log:
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.Popen(command, stdin=stdin, stdout=log, stderr=log, start_new_session=True)


def produce(endpoints: Endpoints, folder: Path, topic: str, messages: int, trigger: Trigger) -> Any:
    """The project's producer at work."""
    config = ProducerConfig(
        run_id="played",
        folder=folder,
        endpoints=endpoints,
        topic=topic,
        library=LIBRARIES[endpoints.system],
        deduplication=True,
        producer_name=folder.name,
        messages=messages,
        triggers=(trigger,),
    )
    producer = start(folder, "producer", "dedup_runners.producer", "-", stdin=subprocess.PIPE)
    producer.stdin.write(config.model_dump_json().encode())
    producer.stdin.close()
    return producer


def whole(admin: Admin, topic: str) -> bool:
    return admin.unhealthy(topic) is None


def events(folder: Path) -> list[str]:
    """What the injector said; and what the producer stamped, which comes first, as "stamp EVENT"."""
    stamps = [f"stamp {mark.event}" for mark in lines(folder, Mark)]
    return [*(line.event for line in lines(folder, FaultLine)), *stamps]


def toxics(endpoints: Endpoints) -> list[str]:
    with closing(Toxiproxy(endpoints.toxiproxy_url or "")) as toxiproxy:
        found: Any = toxiproxy.call("GET", "/proxies")
    return [toxic["name"] for proxy in found.values() for toxic in proxy["toxics"]]


if __name__ == "__main__":
    system, place, asked, how = sys.argv[1:]
    played = play(
        Endpoints.model_validate_json(system), Path(place), Fault.model_validate_json(asked), **json.loads(how)
    )
    print(json.dumps(played))
