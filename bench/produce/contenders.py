"""The contenders: our runners as they run in an experiment, the brokers' own tools, and bare loops.

Each is a process of its own on a fresh topic. Rates are messages over the time from the first send to the last
acknowledgement (producers) or from the consumer's start to the last message (consumers), as each program itself
reports; our consumer's time goes on until its history is closed. No process is warmed up before it counts: the brokers
are. Processor time is the whole process's, a Java tool's start included; our producer is a fork, as in an experiment.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from dedup.experiment.endpoints import Endpoints
from dedup.history.histories import CLOCK_SENT
from dedup.wire.manifests import ProducerReport
from dedup_lab import java
from dedup_lab.caches import silent
from dedup_lab.children import Children
from dedup_lab.clients import kafka_java
from dedup_lab.systems import jars
from dedup_runners.admins import Admin

TIMEOUT_S = 600.0
KAFKA = {
    "linger.ms": "50",
    "compression.type": "none",
    "max.in.flight.requests.per.connection": "5",
}
PULSAR = {"batching_max_messages": "1000", "batching_max_publish_delay_ms": "10"}
HERE = Path(__file__).parent


class Sample(NamedTuple):
    """What one contender did once."""

    rate: float
    cpu_s_a_million: float
    max_rss_bytes: int = 0


@dataclass
class Contest:
    """One system under load; each method is a contender."""

    system: str
    endpoints: Endpoints
    admin: Admin
    version: str
    logs: Path
    messages: int
    batch_bytes: int = 16384
    """Kafka's batch.size: the Java client's default; librdkafka's is 1,000,000."""
    in_flight: int = 10_000
    """Messages that may be unacknowledged; Kafka's own tool has no such setting."""
    warm: int = 0
    """So many messages a producer sends before it counts, where the system is Kafka."""
    filled: str = ""
    """A topic with `messages` messages in it, for consumers."""

    def of(self, messages: int) -> "Contest":
        """The same with another number of messages."""
        return replace(self, messages=messages, filled="")

    def our_producer(self) -> Sample:
        return self._produced({})

    def our_java_producer(self) -> Sample:
        program = kafka_java.program(self.version, silent)
        return self._produced({"library": kafka_java.NAME, "program": program.model_dump(mode="json")})

    def _produced(self, changes: dict[str, Any]) -> Sample:
        topic = self._topic()
        folder = self._folder()
        config = self._config(topic, folder) | {
            **changes,
            "deduplication": True,
            "producer_name": folder.name,
            "messages": self.messages,
            "in_flight": self.in_flight,
        }
        children = Children()
        try:
            producer = children.fork("our producer", ["dedup_runners.producer", "-"], self.logs / "producer.log")
            producer.tell(json.dumps(config))
            producer.succeed(TIMEOUT_S)
        finally:
            children.close()
        report = ProducerReport.model_validate_json((folder / "producer.json").read_bytes())
        if not report.complete:
            raise RuntimeError(f"our producer was not complete: {report.problems}")
        first, began_ns = self._counted_from(folder) if self.warm else (0, report.first_send_ns)
        shutil.rmtree(folder)
        self._done_with(topic, keep=self.system == "kafka")
        seconds = (report.last_acknowledgement_ns - began_ns) / 1e9
        return self._sample(seconds, report.cpu_seconds, report.max_rss_bytes, self.messages - first)

    def _counted_from(self, folder: Path) -> tuple[int, int]:
        """How many messages one of our producers had sent when it was warm, and when that was."""
        ticks = pq.read_table(folder / "clock.parquet").to_pylist()
        return min(
            (tick["index"], tick["monotonic_ns"])
            for tick in ticks
            if tick["kind"] == CLOCK_SENT and tick["index"] >= self.warm
        )

    def bare_producer(self) -> Sample:
        topic = self._topic()
        settings = {"topic": topic, "messages": self.messages, "in_flight": self.in_flight}
        if self.system == "kafka":
            settings |= {"bootstrap": self.endpoints.client_bootstrap, "properties": self._kafka(), "warm": self.warm}
        else:
            settings |= {
                "bootstrap": self.endpoints.client_bootstrap,
                "listener_name": self.endpoints.listener_name,
                "properties": {name: int(value) for name, value in PULSAR.items()},
            }
        said = json.loads(self._run([sys.executable, str(HERE / "bare.py"), self.system], json.dumps(settings))[0])
        self._done_with(topic)
        return self._sample(said["seconds"], said["cpu_seconds"], counted=said["counted"])

    def producer_performance(self) -> Sample:
        topic = self._topic()
        properties = {
            **self._kafka(),
            "bootstrap.servers": self.endpoints.client_bootstrap,
            "acks": "all",
            "enable.idempotence": "true",
        }
        arguments = [
            *("--topic", topic, "--num-records", str(self.messages)),
            *(("--warmup-records", str(self.warm)) if self.warm else ()),
            *("--record-size", "8", "--throughput", "-1", "--reporting-interval", "3600000"),
            *("--command-property", *(f"{name}={value}" for name, value in properties.items())),
        ]
        said, cpu_seconds = self._java("org.apache.kafka.tools.ProducerPerformance", arguments)
        *_, rate = re.findall(r"([\d.]+) records/sec", said)
        self._done_with(topic)
        return Sample(float(rate), cpu_seconds / self.messages * 1e6)

    def our_consumer(self) -> Sample:
        folder = self._folder()
        config = self._config(self._filled(), folder)
        said = json.loads(self._run([sys.executable, str(HERE / "reading.py")], json.dumps(config))[0])
        shutil.rmtree(folder)
        return self._sample(said["seconds"], said["cpu_seconds"])

    def consumer_performance(self) -> Sample:
        arguments = ["--bootstrap-server", self.endpoints.client_bootstrap, "--topic", self._filled()]
        arguments += ["--num-records", str(self.messages), "--group", uuid.uuid4().hex]
        arguments += ["--hide-header", "--timeout", "60000"]
        said, cpu_seconds = self._java("org.apache.kafka.tools.ConsumerPerformance", arguments)
        # start, end, MB, MB/s, messages, messages/s, rebalance ms, fetch ms, fetch MB/s, fetch messages/s
        line = [line.split(",") for line in said.splitlines() if line.count(",") >= 9][-1]
        return Sample(float(line[5]), cpu_seconds / self.messages * 1e6)

    def _config(self, topic: str, folder: Path) -> dict[str, Any]:
        return {
            "run_id": folder.name,
            "folder": str(folder),
            "endpoints": self.endpoints.model_dump(mode="json"),
            "topic": topic,
            "library": "confluent-kafka" if self.system == "kafka" else "pulsar-client",
            "properties": self._kafka() if self.system == "kafka" else PULSAR,
        }

    def _topic(self) -> str:
        topic = self.admin.topic_name(f"bench-{uuid.uuid4().hex[:12]}", deduplication=True)
        self.admin.create_topic(topic, partitions=1, deduplication=True)
        return topic

    def _filled(self) -> str:
        if not self.filled:
            self.our_producer()
        return self.filled

    def _done_with(self, topic: str, *, keep: bool = False) -> None:
        """Forget a topic, or keep it for the consumers in place of the one before."""
        dropped = self.filled if keep else topic
        if dropped:
            self.admin.delete_topic(dropped)
        if keep:
            self.filled = topic

    def _folder(self) -> Path:
        folder = self.logs / f"r-{uuid.uuid4().hex[:12]}"
        folder.mkdir()
        return folder

    def _java(self, tool: str, arguments: list[str]) -> tuple[str, float]:
        path = jars.classpath("kafka", self.version)
        return self._run([java.find(), "-Xmx1g", tool, *arguments], CLASSPATH=path)

    def _run(self, command: list[str], stdin: str = "", **environment: str) -> tuple[str, float]:
        """A process's standard output and its processor seconds; RuntimeError with its last words if it fails."""
        before = _children_cpu_s()
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, **environment},
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command[:4])}: exit code {done.returncode}: {done.stderr[-500:]}")
        return done.stdout, _children_cpu_s() - before

    def _kafka(self) -> dict[str, str]:
        return {"batch.size": str(self.batch_bytes), **KAFKA}

    def _sample(self, seconds: float, cpu_seconds: float, max_rss_bytes: int = 0, counted: int | None = None) -> Sample:
        """`seconds`: for the messages that count, all by default; processor seconds are for all of them."""
        rate = (self.messages if counted is None else counted) / seconds
        return Sample(rate, cpu_seconds / self.messages * 1e6, max_rss_bytes)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
