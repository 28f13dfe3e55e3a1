"""One attempt of one run, stage by stage, from an empty folder to a manifest: the same for the lab and for a pod.

Prepare: everything that takes time to start (chaos processes, producer, consumer: companions.py) is started first, and
a fresh topic is made while it loads. A producer is told its configuration only when every chaos process is armed.
Produce: the producer runs; the chaos processes strike and heal.
Settle: the system is whole again, the clients' connections are gone, deduplication is proven from the broker, for all
the time since the first send. Whether the faults missed the traffic is known then, before anything is read: only this
decides whether the run is replaced.
Consume: the topic is read to the end position taken then, and the manifest is written, last of all.
"""

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from dedup import __version__
from dedup.errors import PlatformError
from dedup.experiment.endpoints import Endpoints, Worker
from dedup.experiment.plans import Run, deduplicates
from dedup.experiment.spec import Experiment, System, Variant
from dedup.faults.moments import At
from dedup.faults.records import lives_ended, missed
from dedup.history.histories import ALL_TABLES, MANIFEST, VERIFICATION, sha256_of, version_of
from dedup.wire.files import Listening
from dedup.wire.manifests import ConsumerReport, Deduplication, FaultRecord, Machine, Manifest, ProducerReport, Segment
from dedup.workloads.kinds import WorkloadKind
from dedup_runners import chaos
from dedup_runners.admins import Admin
from dedup_runners.attempt import progress
from dedup_runners.attempt.companions import Companion, Companions
from dedup_runners.attempt.faults import ArmedFaults, Rendering
from dedup_runners.attempt.looks import Looks
from dedup_runners.chaos.sites.protocol import Site
from dedup_runners.configs import Beside, ConsumerConfig, ProducerConfig, Program, RunnerConfig, Second, Trigger
from dedup_runners.recording.journals import save_report
from dedup_runners.waiting import until

WHOLE_S: Final = 120.0
CONNECTIONS_GONE_S: Final = 120.0
PROGRESS_EVERY_S: Final = 0.25


class Hooks(NamedTuple):
    """Where a test of the tester tampers with a run, behind the experiment's back."""

    render: Rendering = chaos.render
    configure: Callable[[ProducerConfig], ProducerConfig] = lambda config: config


NO_HOOKS: Final = Hooks()


class Situation(NamedTuple):
    """What a run needs to know of its surroundings. `site` was opened before anything else and counts from there.

    `java`: the version of the lab's Java, if there is one. `program`: the client, if it is a program. `beside`: what
    stands beside the brokers, if the workload needs it: for a service, a function or a replication.
    """

    experiment: Experiment
    system: System
    variant: Variant
    run: Run
    attempt: int
    folder: Path
    endpoints: Endpoints
    admin: Admin
    site: Site
    companions: Companions
    dead: Callable[[], str | None]
    report: Callable[[str, progress.Progress], None]
    hooks: Hooks = NO_HOOKS
    watchdog: Path | None = None
    java: str = ""
    program: Program | None = None
    beside: Beside | Worker | Second | None = None

    @property
    def deployed_by_us(self) -> bool:
        """Whether the experiment's version is the brokers': a chart of the administrator's list has its own in pods."""
        in_pods = any(each.pod is not None for each in self.endpoints.brokers)
        return self.system.existing is None and not (self.system.listed is not None and in_pods)


class Course:
    """The four stages of one attempt; each is called once, in order, and raises PlatformError if it cannot be done."""

    def __init__(self, situation: Situation) -> None:
        self._ = situation
        self._stage_seconds: dict[str, float] = {}
        self._topic = situation.admin.topic_name(
            f"{situation.endpoints.topic_prefix}{situation.run.run_id}-{situation.attempt}",
            deduplicates(situation.variant),
        )
        self._faults = ArmedFaults(
            situation.folder, situation.experiment.spec.all_faults, situation.system.network.latency_s
        )
        self._producer: Companion | None = None
        self._consumer: Companion | None = None
        partitions = situation.experiment.spec.workload.partitions
        self._looks = Looks(situation.admin, self._topic, situation.folder, partitions=partitions)
        self._deduplication: Deduplication | None = None
        self._records: tuple[FaultRecord, ...] = ()
        self._missed: tuple[str, ...] = ()
        self._exits_before = situation.site.exits()

    def prepare(self) -> None:
        """Start what takes time to load, make a fresh topic meanwhile, and tell the producer what to do."""
        with self._timed("prepare"):
            spec = self._.experiment.spec
            self._faults.start(
                self._.companions,
                self._.hooks.render,
                endpoints=self._.endpoints,
                topic=self._topic,
                partition=self._homes[self._.run.seed % len(self._homes)],
                timeout_s=spec.timeouts.run_s,
                watchdog=self._.watchdog,
                transactional_id=self._producer_name if spec.workload.in_transactions else None,
            )
            self._producer = self._.companions.client("producer")
            self._consumer = self._.companions.client("consumer")
            self._.admin.create_topic(
                self._topic, partitions=spec.workload.partitions, deduplication=deduplicates(self._.variant)
            )
            self._looks.begin()
            config = self._.hooks.configure(self._producer_config(self._faults.armed()))
            self._tell(self._producer, "producer", config)

    def produce(self) -> None:
        """Let the producer run to its end, and the faults to theirs."""
        assert self._producer is not None
        watch = progress.Watch(self._.folder, "producer")
        with self._looks:
            with self._timed("start and end the producer"):
                self._producer.succeed(
                    self._.experiment.spec.timeouts.run_s,
                    lambda: self._.report("produce", watch.read(PROGRESS_EVERY_S)),
                )
            self._split_producing()
            with self._timed("heal"):
                self._faults.wait(self._.site.restart_grace_s, lambda: self._.report("heal", watch.last))

    def _split_producing(self) -> None:
        """Tell the time between first send and last acknowledgement from the producer's own starting and ending."""
        report = ProducerReport.model_validate_json((self._.folder / ProducerReport.FILE).read_bytes())
        producing_s = max(0.0, (report.last_acknowledgement_ns - report.first_send_ns) / 1e9)
        self._stage_seconds["produce"] = round(producing_s, 3)
        around = self._stage_seconds["start and end the producer"]
        self._stage_seconds["start and end the producer"] = round(max(0.0, around - producing_s), 3)

    def settle(self) -> None:
        """Prove that the system is whole, that nobody writes any more, and what deduplication did."""
        with self._timed("settle"):
            admin, topic = self._.admin, self._topic
            until(lambda: admin.unhealthy(topic) is None, WHOLE_S, f"{topic} to be whole again after the faults")
            until(self._.site.idle, CONNECTIONS_GONE_S, "the producer's connections to be gone")
            at_end = admin.deduplication_in_force(topic, deduplicates(self._.variant))
            self._deduplication = self._looks.shown(at_end)
            self._records = self._faults.records(self._.experiment.spec.workload.messages)
            self._missed = missed(self._records)

    def consume(self) -> Manifest:
        """Read everything back, and write the manifest."""
        assert self._consumer is not None
        watch = progress.Watch(self._.folder, "consumer")
        with self._timed("consume"):
            self._tell(self._consumer, "consumer", self._consumer_config())
            self._consumer.succeed(
                self._.experiment.spec.timeouts.run_s, lambda: self._.report("consume", watch.read(PROGRESS_EVERY_S))
            )
        manifest = self._manifest()
        save_report(self._.folder / MANIFEST, manifest)
        try:
            self._.admin.delete_topic(self._topic)
        except PlatformError:
            pass  # the history is complete; a topic left behind goes with its system
        return manifest

    def _tell(self, program: Companion, role: str, config: RunnerConfig) -> None:
        folder = self._.folder / "config"
        folder.mkdir(exist_ok=True)
        save_report(folder / f"{role}.json", config)
        program.tell(config.model_dump_json())

    @property
    def _producer_name(self) -> str:
        return f"{self._.run.run_id}-{self._.attempt}"

    def _producer_config(self, faults: dict[str, Listening]) -> ProducerConfig:
        """One fault at most stands between the producer and its brokers, and then the producer is told of it alone."""
        doors = [each.bootstrap for each in faults.values() if each.bootstrap is not None]
        between = {"client_bootstrap": doors[0]} if doors else {}
        spec, client = self._.experiment.spec, self._.system.client
        at = {fault.name: fault.at for fault in spec.all_faults}
        return ProducerConfig(
            run_id=self._.run.run_id,
            folder=self._.folder,
            endpoints=self._.endpoints.model_copy(update=between),
            topic=self._topic,
            library=self._.system.library,
            properties=client.properties,
            deduplication=deduplicates(self._.variant),
            producer_name=self._producer_name,
            messages=spec.workload.messages,
            streams=spec.workload.streams,
            partitions=self._partitions,
            homes=self._homes if self._partitions is not None or spec.workload.has_keys else None,
            keys=spec.workload.has_keys,
            in_flight=spec.workload.in_flight,
            messages_per_second=spec.workload.messages_per_second,
            triggers=tuple(_trigger(name, at.get(name), each.port) for name, each in faults.items()),
            delivery_timeout_s=spec.timeouts.tried_for_s,
            metrics_port=0,
            program=self._.program,
            sends=self._names_sends,
            payload_bytes=spec.workload.payload_bytes,
            **self._given_to(ProducerConfig),
        )

    def _consumer_config(self) -> ConsumerConfig:
        spec = self._.experiment.spec
        return ConsumerConfig(
            run_id=self._.run.run_id,
            folder=self._.folder,
            endpoints=self._.endpoints,
            topic=self._topic,
            library=self._.system.reader,
            properties={},
            streams=spec.workload.streams,
            partitions=self._partitions,
            timeout_s=spec.timeouts.run_s * 0.9,
            metrics_port=0,
            sends=self._names_sends,
            payload_bytes=spec.workload.payload_bytes,
            beside=self._.beside,
            program=self._.program if self._.program is not None and self._.program.application else None,
            **self._given_to(ConsumerConfig),
        )

    @property
    def _kind(self) -> WorkloadKind | None:
        """What the application does beyond sending each message once, in this variant."""
        return self._.experiment.spec.workload.of(self._.variant)

    @property
    def _names_sends(self) -> bool:
        return self._kind is not None and self._kind.names_sends

    def _given_to(self, role: type[RunnerConfig]) -> dict[str, WorkloadKind]:
        """The kind, for the runner that does it."""
        kind = self._kind
        return {kind.key: kind} if kind is not None and kind.key in role.model_fields else {}

    @property
    def _homes(self) -> tuple[int, ...]:
        """The partition that each stream is sent to."""
        system = self._.system
        return self._.experiment.spec.workload.homes(system.library, system.client.properties)

    @property
    def _partitions(self) -> int | None:
        """How many partitions the topic has, where that is not how many streams there are."""
        workload = self._.experiment.spec.workload
        return workload.partitions if workload.partitions != workload.streams else None

    def _problems(self) -> tuple[str, ...]:
        """A broker that died without being killed by a fault of this run."""
        killed = lives_ended(self._records)
        died = self._.site.exits() - self._exits_before
        problems = [f"{died} broker exits for {killed} kills: a broker died by itself"] if died > killed else []
        if gone := self._.dead():
            problems.append(gone)
        return tuple(problems)

    def _manifest(self) -> Manifest:
        assert self._deduplication is not None
        folder, run, experiment = self._.folder, self._.run, self._.experiment
        producer = ProducerReport.model_validate_json((folder / ProducerReport.FILE).read_bytes())
        consumer = ConsumerReport.model_validate_json((folder / ConsumerReport.FILE).read_bytes())
        workload = experiment.spec.workload
        return Manifest(
            schema_version=version_of(self._names_sends),
            experiment=experiment.name,
            spec_digest=experiment.digest(),
            run_id=run.run_id,
            attempt=self._.attempt,
            system=run.system,
            kind=self._.system.kind,
            variant=run.variant,
            run=run.number,
            seed=run.seed,
            messages=workload.messages,
            streams=workload.streams,
            partitions=self._partitions,
            stream_partitions=self._homes,
            resent_partitions=self._kind.resent_partitions(workload.partitions) if self._kind is not None else None,
            topic=self._topic,
            versions={
                **self._.admin.versions(),
                **({"deployed": self._.system.version} if self._.deployed_by_us else {}),
                "dedup": __version__,
                "python": platform.python_version(),
            },
            producer=producer,
            consumer=consumer,
            deduplication=self._deduplication,
            faults=self._records,
            missed=self._missed,
            problems=self._problems(),
            files=(*producer.segments, *consumer.segments, *other_files(folder)),
            stage_seconds=self._stage_seconds,
            recorded_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            machine=Machine(host=platform.node(), os=platform.platform(), java=self._.java),
        )

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._stage_seconds[stage] = round(time.monotonic() - began, 3)


def _trigger(fault: str, at: At | None, port: int) -> Trigger:
    """Where and when the producer tells a fault that its moment has come; the latency (None) has none."""
    if at is None:
        return Trigger(fault=fault, port=port)
    return Trigger(fault=fault, message=at.message, after_s=at.after_s, effect_of=at.fault, port=port)


NOT_RECORDED: Final = ("clock.parquet", VERIFICATION)
"""The clock is named among the tables' segments; what a judge has said meanwhile is none of ours."""


def other_files(folder: Path) -> Iterator[Segment]:
    """Everything in the folder that is not a table and is not written to any more."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if name.split("/")[0] not in ALL_TABLES and not name.endswith((".log", ".txt")) and name not in NOT_RECORDED:
            yield Segment(path=name, bytes=path.stat().st_size, sha256=sha256_of(path))
