"""Clients that are programs, made ready on this machine: built or installed once into the cache.

What is built is named by a digest of all that it is made from, so nothing stale is ever used. It appears in the cache
complete or not at all: several labs may build at the same time.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from dedup.experiment.clients import Library, is_program
from dedup.experiment.spec import System
from dedup_lab.caches import Progress, silent
from dedup_lab.clients import franz_go, kafka_java, pulsar_java, wheels
from dedup_runners.configs import Program

BUILDERS: Final[Mapping[Library, Callable[[str, Progress], Program]]] = {
    "confluent-kafka": partial(wheels.program, "confluent-kafka"),
    "franz-go": franz_go.program,
    "kafka-java": kafka_java.program,
    "pulsar-client": partial(wheels.program, "pulsar-client"),
    "pulsar-java": pulsar_java.program,
}
"""What makes each program ready: by its version, the command that starts it. DedupError if it cannot be had."""


def program(system: System, progress: Progress = silent) -> Program | None:
    """How the system's client is started, built if need be; None if it is no program."""
    if not is_program(system.library, system.client_version):
        return None
    return BUILDERS[system.library](system.client_version, progress)
