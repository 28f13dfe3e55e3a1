"""Clients that are programs, made ready on this machine: built or installed once into the cache.

What is built is named by a digest of all that it is made from, so nothing stale is ever used. It appears in the cache
complete or not at all: several labs may build at the same time.
"""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from dedup.errors import SpecificationError
from dedup.experiment.clients import Library, is_program
from dedup.experiment.spec import System
from dedup.refusals import short
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


def program(system: System, folder: Path, progress: Progress = silent) -> Program | None:
    """How the system's client is started, built if need be; None if it is no program.

    `folder`: where the relative paths of a program of the user's own begin.
    """
    if system.client.command is not None:
        return own(system.client.command, folder)
    if not is_program(system.library, system.client_version):
        return None
    return BUILDERS[system.library](system.client_version, progress)


def own(command: Sequence[str], folder: Path) -> Program:
    """A program of the user's own, started in that folder; SpecificationError if there is none of its name."""
    name, folder = command[0], folder.absolute()
    place = os.path.join(folder, name) if os.sep in name else name
    if shutil.which(place) is None:
        raise SpecificationError(
            where="client.command",
            got=short(name),
            rule=f"it is no program that can be run{f' in {folder}' if os.sep in name else ' on PATH'}",
            todo="write the path of one, from the experiment's file on, or the name of one on PATH; chmod +x it",
        )
    return Program(argv=tuple(command), folder=folder)
