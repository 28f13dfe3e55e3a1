"""The application of a run: a program of ours, one that writes, a service, or a function of Pulsar."""

from typing import Protocol

from dedup.wire.manifests import Application, EndPosition
from dedup_runners import admins
from dedup_runners.configs import ConsumerConfig
from dedup_runners.recording.journals import Observer
from dedup_runners.recording.recorders import Recorder
from dedup_runners.workloads.consumer import Lives
from dedup_runners.workloads.outputs import Reads, Writing


class Runs(Protocol):
    """What lets an application live, and says what came of it."""

    def run(self, timeout_s: float) -> Application: ...

    def stop(self) -> None: ...


def application(
    config: ConsumerConfig,
    end: tuple[EndPosition, ...],
    admin: admins.Admin,
    recorder: Recorder,
    observer: Observer,
    reads: Reads,
    messages: int,
) -> Runs:
    """That of a run, as its workload has it. `messages`: so many the audit has read."""
    assert config.consumer is not None
    if config.consumer.service is not None:
        from dedup_runners.workloads.services import Serving  # Kafka's client

        return Serving(config, end, admin, recorder, observer.log)
    if config.consumer.function is not None:
        from dedup_runners.workloads.functions import Working  # few applications are Pulsar's

        return Working(config, end, messages, admin, recorder, observer, reads)
    lives = Lives(config, end, recorder, observer.log)
    return Writing(config, lives, admin, recorder, observer, reads) if config.consumer.writes else lives
