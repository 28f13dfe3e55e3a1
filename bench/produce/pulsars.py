"""Pulsar's Java clients as contenders: our program with its full history, and Pulsar's own performance producer.

The tool is of another version than the client, because Maven has it of few; the client that it sends with is of the
broker's version, as our program's is. Its list of files lies in `locks/` beside this: only this bench fetches it.

The tool counts acknowledgements, not sends: it stops when so many came, and has sent up to `max-outstanding` more by
then. Its own rate begins with the start of its client. So the time is taken between two lines of its log (the producer
was created; so many messages were acknowledged), and its processor time is divided by all that was acknowledged.
"""

import os
import re
import uuid
from datetime import datetime
from pathlib import Path

from contenders import PULSAR, Contest, Sample

from dedup_lab import java
from dedup_lab.caches import silent
from dedup_lab.clients import pulsar_java
from dedup_lab.systems import jars, jvms

TOOL_VERSION = "4.0.8"
LOCKS = Path(__file__).parent / "locks"
LOGGING = Path(jvms.__file__).with_name("log4j2.properties")
SETTINGS = {
    "batchingMaxMessages": PULSAR["batching_max_messages"],
    "batchingMaxPublishDelayMicros": f"{PULSAR['batching_max_publish_delay_ms']}000",
}
"""The same settings by the Java client's names."""
CREATED = re.compile(r"^(\S+) .*Created 1 producers", re.MULTILINE)
DONE = re.compile(r"^(\S+) .*reached the maximum number", re.MULTILINE)
SENT = re.compile(r"Aggregated throughput stats --- (\d+) records sent")


def our_java_producer(contest: Contest) -> Sample:
    """pulsar-java as it runs in an experiment."""
    program = pulsar_java.program(contest.version, silent)
    return contest._produced(
        {"library": pulsar_java.NAME, "program": program.model_dump(mode="json"), "properties": SETTINGS}
    )


def performance_producer(contest: Contest) -> Sample:
    """Pulsar's PerformanceProducer, with a name of its own, without which brokers do not deduplicate."""
    topic, nothing = contest._topic(), contest.logs / "perf.conf"
    nothing.touch()
    arguments = [
        *(str(nothing), "produce", topic, "--service-url", contest.endpoints.client_bootstrap),
        *(("--listener-name", contest.endpoints.listener_name) if contest.endpoints.listener_name else ()),
        *("--num-messages", str(contest.messages), "--rate", str(2**31 - 1), "--size", "8"),
        *("--batch-max-messages", PULSAR["batching_max_messages"]),
        *("--batch-time-window", PULSAR["batching_max_publish_delay_ms"]),
        *("--max-outstanding", str(contest.in_flight), "--max-outstanding-across-partitions", str(contest.in_flight)),
        *("--producer-name", f"perf-{uuid.uuid4().hex[:8]}", "--warmup-time", "0"),
    ]
    path = os.pathsep.join(
        [jars.classpath("pulsar-testclient", TOOL_VERSION, locks=LOCKS), jars.classpath("pulsar", contest.version)]
    )
    tool = "org.apache.pulsar.testclient.PulsarPerfTestTool"
    command = [java.find(), "-Xmx1g", f"-Dlog4j2.configurationFile={LOGGING}", tool, *arguments]
    said, cpu_seconds = contest._run(command, CLASSPATH=path)
    contest._done_with(topic)
    found = CREATED.search(said), DONE.search(said), SENT.search(said)
    if None in found:
        raise RuntimeError(f"{tool}: not the words of a whole run: {said[-500:]}")
    created, done, sent = (each[1] for each in found if each is not None)
    seconds = (datetime.fromisoformat(done) - datetime.fromisoformat(created)).total_seconds()
    return Sample(contest.messages / seconds, cpu_seconds / int(sent) * 1e6)
