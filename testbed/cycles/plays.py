"""One fault and one producer on a topic of real brokers: both processes started, armed and told; nothing of them stays.

Whoever plays decides what becomes of them: waits for their ends, or kills the injector in mid-fault.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dedup.experiment.clients import Library
from dedup.experiment.endpoints import Endpoints
from dedup.faults.registry import LATENCY_FAULT, Fault
from dedup.wire.files import Listening
from dedup.wire.manifests import FaultRecord
from dedup_runners import chaos
from dedup_runners.configs import ProducerConfig, Trigger
from dedup_runners.waiting import until

BOUND_S: Final = 240.0
PRODUCERS_WORD: Final = "producer.err"
"""What it says when it ends with an error."""
LIBRARIES: Final[dict[str, Library]] = {"kafka": "confluent-kafka", "pulsar": "pulsar-client"}


@dataclass
class Play:
    """The two processes, and what they have written so far."""

    folder: Path
    fault: Fault | None
    messages: int
    injector: "subprocess.Popen[bytes]"
    producer: "subprocess.Popen[bytes]"

    def kill_injector(self) -> None:
        """SIGKILL for the chaos process and all that is in its process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.injector.pid, signal.SIGKILL)
        self.injector.wait(BOUND_S)

    def said(self, name: str = "faults.jsonl") -> list[dict[str, Any]]:
        """The lines of one of the run's files so far."""
        path = self.folder / name
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        return [json.loads(line) for line in whole.splitlines()]

    def events(self, name: str = "faults.jsonl") -> list[str]:
        return [line["event"] for line in self.said(name)]

    def record(self) -> FaultRecord:
        """What became of the fault, by everyone's word."""
        (record,) = chaos.records(self.folder, [self.fault], messages=self.messages)
        return record


@contextmanager
def playing(
    folder: Path,
    system: Endpoints,
    topic: str,
    fault: Fault | None,
    *,
    messages: int,
    producer_name: str,
    rate: int | None = None,
    **setting: Any,
) -> Iterator[Play]:
    """Both processes, from the time when the fault is armed and the producer told; they are killed at the end.

    `fault=None` is the link's latency; `setting` goes to `chaos.render`.
    """
    name = fault.name if fault else LATENCY_FAULT
    told = {"endpoints": system, "topic": topic, "timeout_s": BOUND_S, **setting}
    chaos.write(folder, chaos.render(fault, folder=folder, **told))
    null = subprocess.DEVNULL
    sender = [sys.executable, "-m", "dedup_runners.producer", "-"]
    injector = subprocess.Popen(chaos.command(folder, name), start_new_session=True, stdout=null, stderr=null)
    with (folder / PRODUCERS_WORD).open("w") as word:
        producer = subprocess.Popen(sender, stdin=subprocess.PIPE, stdout=null, stderr=word)
    play = Play(folder, fault, messages, injector, producer)
    assert producer.stdin is not None
    try:
        found = until(lambda: _armed(play, name), BOUND_S, "the fault to be armed")
        assert found is not None
        between = {"client_bootstrap": found.bootstrap} if found.bootstrap is not None else {}
        config = ProducerConfig(
            run_id="play",
            folder=folder,
            endpoints=system.model_copy(update=between),
            topic=topic,
            library=LIBRARIES[system.system],
            deduplication=True,
            producer_name=producer_name,
            messages=messages,
            messages_per_second=rate,
            triggers=(Trigger(fault=name, message=fault and fault.at.message, port=found.port),),
        )
        producer.stdin.write(config.model_dump_json().encode())
        producer.stdin.close()
        yield play
    finally:
        for process in (injector, producer):
            process.kill()
            process.wait(BOUND_S)


def _armed(play: Play, name: str) -> Listening | None:
    assert play.injector.poll() is None, f"the injector ended before it was armed: {play.folder}"
    return chaos.armed(play.folder, name)
