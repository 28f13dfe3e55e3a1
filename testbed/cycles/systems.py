"""The systems of the cycles: each is started once, and again if it did not become whole."""

import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from dedup.errors import DedupError
from dedup.experiment.endpoints import Endpoints
from dedup_lab.systems import kafka, labs, pulsar
from dedup_runners import admins
from testbed.cycles.cycles import Cycle, Outcome, done

VERSIONS: Final = {"kafka": (kafka, "4.3.1"), "pulsar": (pulsar, "4.2.4")}


def turns(cycles: Sequence[Cycle], seed: int, logs: Path) -> Generator[Outcome]:
    """Do them all on one system; one that did not become whole again is replaced by a new one."""
    todo = list(cycles)
    while todo:
        module, version = VERSIONS[todo[0].system]
        with closing(labs.create(logs)) as lab:
            system = module.start(lab, version=version, proxied=True)
            while todo:
                outcome = _one(todo.pop(0), seed, system).model_copy(update={"version": version})
                yield outcome
                if any(problem.startswith("unhealthy") for problem in outcome.problems):
                    break


def _one(cycle: Cycle, seed: int, system: Endpoints) -> Outcome:
    """One cycle on a topic of its own."""
    folder = Path(tempfile.mkdtemp(prefix="dedup-cycle-"))
    with admins.connect(system) as admin:
        topic = admin.topic_name(f"cycle-{seed}-{cycle.number}", True)
        admin.create_topic(topic, partitions=1, deduplication=True)
        outcome = done(cycle, seed, system, admin, topic, folder)
        with suppress(DedupError):
            admin.delete_topic(topic)
    if not outcome.bad:
        shutil.rmtree(folder)
    return outcome
