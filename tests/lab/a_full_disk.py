"""A program for tests, to be run in a mount namespace of our own: a broker of a lab whose own disk is filled.

`a_full_disk.py HOW FOLDER`. The broker is a line of shell that appends to a file until it cannot, and then ends with 1,
as Kafka does; HOW `idle`: it writes nothing. The injector is a process of its own; HOW `killed`: it is killed once the
disk is full, so that nobody heals but the line of shell and the keeper; HOW `fails`: it fails once the end of a broker
that writes nothing is announced, and plays its rollback. It prints what was seen, as JSON.
"""

import contextlib
import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any, Final

from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.registry import Fault
from dedup.wire.faults import FaultEvent
from dedup_lab.systems import labs
from dedup_runners.chaos import keepers, sessions
from dedup_runners.chaos.experiments import render
from dedup_runners.chaos.faults import fill_disk
from dedup_runners.waiting import until

DISK_BYTES: Final = 4 << 20
LASTS_S: Final = 2.0
BOUND_S: Final = 60.0
FAULT: Final = Fault.model_validate_json(
    json.dumps({"name": "full", "at": {"message": 50}, "fillDisk": {"duration": f"{LASTS_S:g}s"}})
)
WRITES: Final = "while printf %4096s x >>log; do sleep 0.05; done; exit 1"


class Leader:
    """The part of an Admin that tells who leads."""

    def leader(self, topic: str, partition: int) -> str:
        return "1"

    def close(self) -> None:
        return


def fail(broker: Broker) -> int:
    assert broker.hold_file is not None and broker.hold_file.exists()
    raise OSError("no file can be made")


def inject(how: str, configuration: dict[str, Any]) -> None:
    session = sessions.current(configuration)
    session.admin, session.triggered = Leader(), True  # type: ignore[assignment]
    if how == "fails":
        fill_disk.fill = fail
        with contextlib.suppress(OSError):
            fill_disk.fill_disk(LASTS_S, configuration)
        session.note(FaultEvent.INJECTED)  # for who looks on
        fill_disk.free_disk(configuration)
        return
    fill_disk.fill_disk(LASTS_S, configuration)
    fill_disk.free_disk(configuration)
    fill_disk.free_disk(configuration)
    fill_disk.await_restart(configuration)


def events(folder: Path) -> list[str]:
    lines = folder / "faults.jsonl"
    return [json.loads(line)["event"] for line in lines.read_text().splitlines()] if lines.exists() else []


def main() -> None:
    how, folder = sys.argv[1], Path(sys.argv[2])
    writes = how not in ("idle", "fails")
    with labs.create(folder / "logs", disk_bytes=DISK_BYTES) as lab:
        disk = lab.disk("broker")
        assert disk is not None and disk == lab.disk("broker")
        kept = lab.start("broker", ["/bin/sh", "-c", WRITES if writes else "sleep 600"])
        broker = Broker(id="1", client_port=9, disk=disk, status_file=kept.status_file, hold_file=kept.hold_file)
        address = "127.0.0.1:9"
        endpoints = Endpoints(system="kafka", client_bootstrap=address, direct_bootstrap=address, brokers=[broker])
        configuration = render(FAULT, folder=folder, endpoints=endpoints, topic="t")["configuration"]
        first = keepers.status(broker).pid
        injector = multiprocessing.get_context("spawn").Process(target=inject, args=(how, configuration))
        injector.start()
        until(lambda: "injected" in events(folder), BOUND_S, "the disk is full")
        began = time.monotonic()
        if how == "killed":
            injector.kill()
        full = fill_disk.free_bytes(broker)
        injector.join(BOUND_S)
        until(lambda: not fill_disk.ballast(broker).exists(), BOUND_S, "the file is gone")
        if writes:
            until(lambda: keepers.status(broker).pid not in (None, first), BOUND_S, "the broker runs again")
        healed_s, free = time.monotonic() - began, fill_disk.free_bytes(broker)
        said: dict[str, Any] = {"healed_s": healed_s, "full": full, "free": free}
        status = keepers.status(broker)
        said |= {"codes": [each.code for each in status.exits], "starts": status.starts, "events": events(folder)}
        said["held"] = broker.hold_file is not None and broker.hold_file.exists()
        print(json.dumps(said))


if __name__ == "__main__":
    main()
