"""An experiment on this machine from start to finish: check, run, judge, report, clean up."""

import shlex
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dedup.errors import SpecificationError
from dedup.experiment.plans import deduplicates, out_of_reach, plan
from dedup.experiment.spec import Experiment, System, Variant
from dedup.experiment.stages import Stage, State, Task, drive, rewound, schedule, timeout_of
from dedup.experiment.verifications import Method
from dedup.faults.kinds import Need, Platform
from dedup.faults.registry import possible_on_existing
from dedup.history.attempts import result_of
from dedup.history.reports import gather, keep, recall, write
from dedup.history.stores import Place
from dedup.judgement.anomalies import Engine
from dedup.judgement.verdicts import ORACLE_LIMIT, Evidence
from dedup.process import machines
from dedup_lab import caches, estimates, isolation, java, logins, reporting, results, room
from dedup_lab import clients as programs
from dedup_lab.children import Children
from dedup_lab.judging import judge
from dedup_lab.logins import Secrets
from dedup_lab.platform import LocalPlatform, Reporter
from dedup_lab.prefetches import Prefetch
from dedup_lab.results import Results
from dedup_lab.systems import labs
from dedup_lab.systems.jars import read_lock
from dedup_lab.terminal import reports
from dedup_lab.terminal.reporters import ConsoleReporter
from dedup_lab.trials import SparkTrial
from dedup_runners import clients


def check(experiment: Experiment, progress: caches.Progress = caches.silent) -> None:
    """Find what is wrong before a broker is started; raises a one-line error. Clients that are programs are built."""
    logins.check_clients(experiment)
    for where, fault in experiment.spec.written_faults:
        if Platform.PROCESSES not in fault.given.platforms:
            raise SpecificationError(
                where=f"spec.{where}.{fault.kind}",
                got=f"fault {fault.name}",
                rule="it needs brokers in pods; here they are processes",
                todo="kubectl apply the experiment, or use a kill or a dropTCP",
            )
        if not fault.given.on_existing and any(system.existing is not None for system in experiment.spec.systems):
            raise SpecificationError(
                where=f"spec.{where}.{fault.kind}",
                got=f"fault {fault.name}, of a system that is there already",
                rule="only in a cluster its pods can be struck, if their owner allows it",
                todo=f"kubectl apply the experiment, or write {possible_on_existing(Platform.PROCESSES)}",
            )
        for choice in fault.given.chosen:
            if choice.need is Need.POLICIES:
                raise SpecificationError(
                    where=f"spec.{where}.{fault.kind}.{fault.given.alias(choice.field)}",
                    got=choice.value.value,
                    rule="only a cluster has network policies; here brokers are processes",
                    todo="kubectl apply the experiment, or write NetFilter",
                )
    for index, system in enumerate(experiment.spec.systems):
        if system.existing is None:
            read_lock(system.kind, system.version)
        for variant in experiment.spec.variants:
            try:
                _check_client(experiment, system.of(variant), variant, progress)
            except SpecificationError as error:
                raise SpecificationError(
                    where=f"spec.systems[{index}].client, variant {variant.name}: {error.where}",
                    got=error.got,
                    rule=error.rule,
                    todo=error.todo,
                ) from None


def _check_client(experiment: Experiment, system: System, variant: Variant, progress: caches.Progress) -> None:
    """Let the client itself say whether it takes the settings of a variant; `system` is as it is in that variant."""
    workload, program = experiment.spec.workload, programs.program(system, experiment.folder, progress)
    clients.check(system.library, system.client.properties, deduplicates(variant), workload.in_flight, program)
    if workload.has_keys:
        clients.check_keys(system.library)


def run(
    experiment: Experiment,
    *,
    out: Path | None,
    resume: bool,
    console: Console,
    command: str,
    secrets: Secrets = logins.NONE,
) -> int:
    """Run (or finish) the experiment; returns the exit code of its verdict. `secrets`: the folders of its Secrets."""
    access = logins.access(experiment, secrets)
    check(experiment, _told(console))
    caches.check()
    room.check(experiment)
    if isolation.owned(experiment.spec):
        isolation.enter(experiment, _told(console))  # where all of this is done again
    warn(experiment, console)
    if needs_java(experiment):
        java.find()
    with machines.at(f"results folder {out or 'results'}"):
        folder = _open(experiment, out, resume)
    labs.sweep()
    with results.alone(folder.root, "dedup run"), ConsoleReporter(console, experiment) as reporter:
        state = _resumed(experiment, folder, reporter)
        done = [each for each in plan(experiment) if folder.finished_attempt(each)]
        reporter.resumed(len(done))
        reporter.note(f"{experiment.name}: {len(plan(experiment))} runs, results in {folder.root}")
        if needs_java(experiment) and (fallback := java.fallback()):
            reporter.note(fallback)
        finish = Finish(experiment, folder, reporter)
        trial = SparkTrial(folder.root / "verification")
        local = judges_locally(experiment)
        before_runs = (lambda: None) if local else trial.demand
        platform = LocalPlatform(experiment, folder, reporter, finish, before_runs=before_runs, access=access)
        try:
            with (
                machines.at(f"results folder {folder.root}"),
                nullcontext() if local or len(done) == len(plan(experiment)) else trial,
                Prefetch(experiment, folder.root / "logs"),
            ):
                drive(experiment, state, platform, folder.save)
        except BaseException as error:
            why = "interrupted" if isinstance(error, KeyboardInterrupt) else "this machine cannot go on"
            reporter.note(f"{why}; stopping every process")
            platform.close()
            reporter.note(f"to finish it: {command} --resume --out {shlex.quote(str(folder.root))}")
            raise
        platform.close()
    code = reports.show(folder, console)
    reporting.attempt(folder, console)
    return code


def command_of(file: Path, secrets: Iterable[str] = (), *, systems: Iterable[str] = (), **given: int | None) -> str:
    """The command that runs an experiment; the user repeats it with --resume.

    `secrets`: each as the option has it, NAME=FOLDER. `given`: options with a number, those that are not None.
    """
    numbers = [f"--{name} {value}" for name, value in given.items() if value is not None]
    chosen = [f"--system {name}" for name in systems]
    folders = [f"{logins.OPTION} {shlex.quote(each)}" for each in secrets]
    return " ".join(["dedup run", shlex.quote(str(file)), *numbers, *chosen, *folders])


def judges_locally(experiment: Experiment) -> bool:
    """Whether the local engine judges, which needs no Spark: asked for, or where nothing else needs Java.

    That is where all systems are there already, and runs are small enough for the oracle.
    """
    spec = experiment.spec
    there = all(system.existing is not None for system in spec.systems)
    return spec.verification.engine is Method.LOCAL or (there and spec.workload.messages <= ORACLE_LIMIT)


def needs_java(experiment: Experiment) -> bool:
    """Whether brokers are started here, or Spark."""
    return not judges_locally(experiment) or any(system.existing is None for system in experiment.spec.systems)


def _resumed(experiment: Experiment, folder: Results, reporter: Reporter) -> State:
    """The state to go on from; runs that failed before their first message are done again."""
    results = {run.run_id: result_of(folder.attempts(run)) for run in plan(experiment)}
    over = {run_id for run_id, result in results.items() if result is not None}
    for run_id, result in results.items():
        if result is not None and not result.finished:
            reporter.note(f"{run_id} failed after its first message: that is its result, and it is not done again")
    return rewound(schedule(experiment), folder.state(), over)


def plan_document(experiment: Experiment) -> dict[str, Any]:
    """What would be done, for programs; times in seconds. `cannot_pass`: why the verdict cannot be pass, or null."""
    workload, guess = experiment.spec.workload, estimates.of(experiment)
    variants = {variant.name: variant for variant in experiment.spec.variants}
    return {
        "name": experiment.name,
        "digest": experiment.digest(),
        "workload": workload.model_dump(mode="json", by_alias=True),
        "faults": [
            {
                "name": fault.name,
                "kind": fault.kind,
                "message": fault.at.message,
                "time": fault.at.time,
                "seconds": fault.lasts_s,
            }
            for fault in experiment.spec.all_faults
        ],
        "runs": [
            {
                "run_id": each.run_id,
                "system": each.system,
                "variant": each.variant,
                "deduplication": variants[each.variant].deduplication,
                "expect": variants[each.variant].expect,
                "seed": each.seed,
            }
            for each in plan(experiment)
        ],
        "estimate": {"seconds": guess.seconds, **guess.model_dump()},
        "cannot_pass": out_of_reach(experiment),
    }


def _drawn(experiment: Experiment) -> Table:
    """The faults that the seed has drawn, a line each."""
    spec = experiment.spec
    table = Table(title=f"drawn by seed {spec.seed}", title_justify="left")
    for heading in ("fault", "begins", "what it does"):
        table.add_column(heading, no_wrap=heading != "what it does")
    for fault in spec.all_faults[len(spec.faults) :]:
        table.add_row(fault.name, fault.at.words, fault.given.words)
    return table


def warn(experiment: Experiment, console: Console) -> None:
    """Warn at the start that the verdict cannot be pass; the runs are done all the same."""
    if why := out_of_reach(experiment):
        console.print(f"[yellow]warning[/] the verdict cannot be pass: {escape(why)}", soft_wrap=True)


def show_plan(experiment: Experiment, console: Console) -> None:
    """A table of the runs in the order in which they would be done, and about how long they take."""
    table = Table(title=f"{experiment.name} ({experiment.digest()[:12]})", title_justify="left")
    for heading in ("#", "run", "deduplication", "expect", "seed"):
        table.add_column(heading, no_wrap=True)
    variants = {variant.name: variant for variant in experiment.spec.variants}
    for index, each in enumerate(plan(experiment), 1):
        variant = variants[each.variant]
        table.add_row(str(index), each.run_id, variant.deduplication, variant.expect, str(each.seed))
    console.print(table)
    workload = experiment.spec.workload
    named = [f"{fault.name} ({fault.kind}) {fault.at.words}" for fault in experiment.spec.faults]
    faults = ", ".join([*named, *([] if experiment.spec.random is None else ["those drawn, below"])])
    size = f" of {workload.payload_bytes:,} bytes" if workload.payload_bytes else ""
    keys = f" of {workload.streams:,} keys" if workload.has_keys else ""
    rate = f" and {workload.messages_per_second:,} a second" if workload.messages_per_second else ""
    console.print(
        f"each run: {workload.messages:,} messages{size}{keys}, at most {workload.in_flight:,} unacknowledged{rate}, "
        f"{workload.partitions} partition(s); faults: {faults or 'none'}",
        soft_wrap=True,
    )
    if experiment.spec.random is not None:
        console.print(_drawn(experiment))
    guess = estimates.of(experiment)
    console.print(
        f"estimated: {estimates.words(guess.seconds)} on two cores ({estimates.words(guess.provision_s)} to start, "
        f"{estimates.words(guess.runs_s)} of runs, {estimates.words(guess.verify_s)} to judge), "
        f"and downloads the first time",
        soft_wrap=True,
    )
    if experiment.spec.replacements:
        console.print(f"at most {experiment.spec.replacements:,} runs whose fault missed are replaced by new ones")
    if wanted := dict.fromkeys(f"{logins.OPTION} {each.secret.name}=FOLDER" for each in logins.wanted(experiment)):
        console.print(f"dedup run needs {' '.join(wanted)}", soft_wrap=True, markup=False)
    warn(experiment, console)
    owned = isolation.owned(experiment.spec)
    if why := (None if isolation.inside(owned) else isolation.lack(owned)) or room.lack(experiment):
        console.print(f"[yellow]warning[/] this machine cannot run it: {escape(why)}", soft_wrap=True)


class Finish:
    """The stages of the whole experiment: Verify and Report."""

    def __init__(self, experiment: Experiment, folder: Results, reporter: Reporter) -> None:
        self._experiment, self._folder, self._reporter = experiment, folder, reporter

    def __call__(self, children: Children, stage: Stage) -> None:
        if stage is Stage.VERIFY:
            runs = plan(self._experiment)
            paths = [path for each in runs for path in self._folder.histories(each)]
            work = self._folder.root / "verification"
            timeout_s = timeout_of(Task(stage), self._experiment.spec.timeouts, len(runs))
            judged = judge(
                paths,
                children,
                work,
                timeout_s,
                self._reporter.note,
                findings=work / "findings",
                locally=judges_locally(self._experiment),
            )
            for path, evidence in zip(paths, judged, strict=True):
                keep(path, evidence)
        else:
            root = self._folder.root
            write(self._experiment, gather(self._experiment, root, self._recalled), root)

    def _recalled(self, folder: Place) -> Evidence:
        """What is kept of a run; if nobody verified it, the judge that should have is named."""
        asked = Engine.LOCAL if judges_locally(self._experiment) else Engine.SPARK
        evidence = recall(folder)
        return evidence if evidence.said is not None else evidence.model_copy(update={"engine": asked})


def _told(console: Console) -> caches.Progress:
    """Says what takes long the first time, once."""
    said: set[str] = set()

    def progress(what: str, _done: int, _total: int) -> None:
        if what not in said and not what.startswith("check"):
            said.add(what)
            console.print(escape(what), soft_wrap=True)

    return progress


def _open(experiment: Experiment, out: Path | None, resume: bool) -> Results:
    if not resume:
        return results.create(out or results.default_root(experiment), experiment)
    root = out or results.latest_root(experiment)
    if root is None:
        raise SpecificationError(
            where="--resume",
            got="no results of this experiment below results/",
            rule="there is nothing to resume",
            todo="leave --resume out, or name the folder with --out",
        )
    return results.resume(root, experiment)
