"""One run: produce, kill the leader at message N, hold it down, consume, and fetch the history.

Producer and consumer are those of the project, in a pod beside Toxiproxy, on the clients' path. The order of things is
every run's (dedup_runners.attempt.courses); this module does what the lab's chaos process does. So there is no chaos
journal, and the record of the fault has the observations of the agent in the pod, the kubelet (exit code 137) and the
clients.
"""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from kubernetes.client import ApiClient

from dedup import __version__
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.experiment.plans import Run, deduplicates
from dedup.experiment.spec import Experiment
from dedup.faults.records import Planned, assemble
from dedup.history.histories import MANIFEST
from dedup.wire.clients import Disturbance, Mark
from dedup.wire.faults import Detail, FaultEvent, FaultLine
from dedup.wire.manifests import ConsumerReport, Deduplication, FaultRecord, Manifest, ProducerReport
from dedup_runners.attempt.courses import other_files
from dedup_runners.configs import ConsumerConfig, ProducerConfig, Trigger
from dedup_runners.recording.journals import lines
from dedup_runners.waiting import until
from testbed import pods
from testbed.kill_leader.sessions import Pod, Session, shells
from testbed.kill_leader.targets import Target

DATA: Final = PurePosixPath("/data")
AGENT: Final = "/agent/agent.py"
KILLED: Final = 137
DIED_S: Final = 60.0
WHOLE_S: Final = 300.0
GRACE_S: Final = 30.0
NO_FILE: Final = Path("/dev/null")
"""Where the lab's keepers would keep their files: a broker in a pod has none."""
Note = Callable[[str], None]


class Scene(NamedTuple):
    """What all runs share. `proxies` is the chart's own list of them, in the order of the brokers' ids."""

    client: ApiClient
    target: Target
    pod: Pod
    proxies: list[dict[str, str]]
    experiment: Experiment
    note: Note

    def endpoints(self) -> Endpoints:
        """The system as a client in the pod sees it."""
        upstreams = [proxy["upstream"].rpartition(":") for proxy in self.proxies]
        return Endpoints(
            system="kafka",
            client_bootstrap=",".join(proxy["listen"] for proxy in self.proxies),
            direct_bootstrap=",".join(f"{host}:9092" for host, _, _ in upstreams),
            brokers=[
                Broker(id=str(number), client_port=int(port), status_file=NO_FILE, hold_file=NO_FILE)
                for number, (_, _, port) in enumerate(upstreams)
            ],
        )

    def brokers(self) -> dict[str, Pod]:
        """Each broker's container, by the broker's id: a pod's name is the first part of its address."""
        names = [proxy["upstream"].partition(".")[0] for proxy in self.proxies]
        return {str(i): self.pod._replace(name=name, container=self.target.container) for i, name in enumerate(names)}


def carry_out(scene: Scene, run: Run, results: Path) -> Path:
    """Do the run; the folder of its history, complete with a manifest."""
    spec = scene.experiment.spec
    variant = next(each for each in spec.variants if each.name == run.variant)
    (fault,) = spec.faults
    folder, topic = DATA / run.run_id, f"{run.run_id}-1"
    common = {
        "run_id": run.run_id,
        "folder": Path(folder),
        "endpoints": scene.endpoints(),
        "topic": topic,
        "library": spec.systems[0].library,
    }
    agent = Session(scene.pod, "python", AGENT, str(folder), scene.endpoints().model_dump_json())
    try:
        agent.ask("create", topic=topic, wait_s=2 * WHOLE_S)
        port = agent.ask("arm")["port"]
        config = ProducerConfig(
            **common,
            deduplication=deduplicates(variant),
            producer_name=f"{run.run_id}-1",
            messages=spec.workload.messages,
            in_flight=spec.workload.in_flight,
            triggers=(Trigger(fault=fault.name, message=fault.at.message, port=port),),
        )
        produce_and_kill(scene, agent, config, fault.lasts_s)
        scene.note(f"{run.run_id}: the producer is done, and the system is healthy again")
        settled = agent.ask("settle", topic=topic, asked=deduplicates(variant), wait_s=WHOLE_S)
    finally:
        agent.close()
    scene.pod.run(
        ["python", "-m", "dedup_runners.consumer", "-"],
        text=ConsumerConfig(**common, timeout_s=spec.timeouts.run_s).model_dump_json(),
        timeout_s=spec.timeouts.run_s + GRACE_S,
    )
    fetch(scene.pod, folder, results)
    write_manifest(scene, run, results / run.run_id, settled)
    return results / run.run_id


def produce_and_kill(scene: Scene, agent: Session, config: ProducerConfig, hold_s: float) -> None:
    """Start the producer; when it pushes its trigger, SIGKILL the leader and hold it down; wait for both to recover."""
    timeout_s = scene.experiment.spec.timeouts.run_s
    (trigger,) = config.triggers
    with shells(scene.brokers()) as broker_shells:
        restarts = {name: restarts_of(scene, pod) for name, pod in scene.brokers().items()}
        producer = Session(scene.pod, "python", "-m", "dedup_runners.producer", "-")
        try:
            producer.send(config.model_dump_json())
            producer.end_input()
            struck = {"fault": trigger.fault, "topic": config.topic, "timeout_s": timeout_s}
            leader = agent.ask("strike", **struck, wait_s=timeout_s)["leader"]
            hold = scene.target.hold
            broker_shells[leader].send(f"echo $(($(date +%s) + {hold_s:.0f})) >{hold}/until; kill -9 $(cat {hold}/pid)")
            witness = until(
                lambda: death(scene, leader, restarts[leader]), DIED_S, f"the death of broker {leader}", 0.1
            )
            shown = Detail(witness=witness, touched=[leader], leader=leader)
            agent.ask("tell", fault=trigger.fault, event=FaultEvent.INJECTED, detail=shown.said())
            scene.note(f"{config.run_id}: broker {leader}, the leader, was killed: {witness}")
            agent.ask("heal", fault=trigger.fault, topic=config.topic, timeout_s=WHOLE_S, wait_s=3 * WHOLE_S)
            producer.succeed(timeout_s)
        finally:
            producer.close()


def restarts_of(scene: Scene, broker: Pod) -> int:
    """How often the kubelet has started the broker's container again."""
    found = pods.container(scene.client, broker.namespace, broker.name, broker.container)
    return int(found.restart_count) if found else 0


def death(scene: Scene, broker: str, restarts: int) -> dict[str, Any] | None:
    """The kubelet's report that SIGKILL ended the container after so many restarts; None without it."""
    pod = scene.brokers()[broker]
    found = pods.container(scene.client, pod.namespace, pod.name, pod.container)
    ended = found and (found.state.terminated or (found.restart_count > restarts and found.last_state.terminated))
    if not ended:
        return None
    return {"exit_code": ended.exit_code, "container": ended.container_id} if ended.exit_code == KILLED else None


def fetch(pod: Pod, folder: PurePosixPath, results: Path) -> None:
    """Copy a run's folder to this machine."""
    packed = pod.run(["tar", "-C", str(folder.parent), "-cf", "-", folder.name], timeout_s=GRACE_S * 4)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(results, filter="data")


def write_manifest(scene: Scene, run: Run, folder: Path, settled: dict[str, Any]) -> None:
    """What the lab writes last, from the same parts."""
    experiment = scene.experiment
    producer = ProducerReport.model_validate_json((folder / ProducerReport.FILE).read_bytes())
    consumer = ConsumerReport.model_validate_json((folder / ConsumerReport.FILE).read_bytes())
    manifest = Manifest(
        experiment=experiment.name,
        spec_digest=experiment.digest(),
        run_id=run.run_id,
        attempt=1,
        system=run.system,
        kind="kafka",
        variant=run.variant,
        run=run.number,
        seed=run.seed,
        messages=experiment.spec.workload.messages,
        streams=1,
        topic=f"{run.run_id}-1",
        versions={**settled["versions"], "dedup": __version__},
        producer=producer,
        consumer=consumer,
        deduplication=Deduplication.model_validate(settled["deduplication"]),
        faults=records(experiment, folder),
        files=(*producer.segments, *consumer.segments, *other_files(folder)),
    )
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")


def records(experiment: Experiment, folder: Path) -> tuple[FaultRecord, ...]:
    """The fault's record from all observations. Chaos Toolkit was not used, so there is no journal."""
    (fault,) = experiment.spec.faults
    return assemble(
        [Planned(fault.name, fault.kind, fault.at.message)],
        messages=experiment.spec.workload.messages,
        lines=lines(folder, FaultLine),
        marks=lines(folder, Mark),
        disturbances=lines(folder, Disturbance),
        journals={fault.name: {"status": "completed"}},
    )
