"""The experiment: the one file that people write, for `dedup run` and for `kubectl apply` alike.

It names systems, a workload, variants of the thing under test, faults, and a number of runs. Everything in it is
checked here, before anything is started: unknown keys are refused, durations carry units, a fault lies within the
workload. Field names in the file are camelCase and enum values CamelCase, as in every Kubernetes resource.
"""

import hashlib
import json
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError, model_validator
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import WithDefaultSchema

from dedup import documents
from dedup.errors import SpecificationError
from dedup.experiment import schedules
from dedup.experiment.artifacts import Artifacts
from dedup.experiment.systems import PRODUCTS
from dedup.experiment.tested import Network as Network
from dedup.experiment.tested import System as System
from dedup.experiment.variants import Expectation as Expectation
from dedup.experiment.variants import Switch as Switch
from dedup.experiment.variants import Variant as Variant
from dedup.experiment.variants import check_switches
from dedup.experiment.verifications import DEFAULT as VERIFIED
from dedup.experiment.verifications import Verifying
from dedup.experiment.workloads import Tested, check_workload
from dedup.experiment.workloads import Workload as Workload
from dedup.faults import own_experiments
from dedup.faults.draws import MOST_FAULTS, Random
from dedup.faults.kinds import Need
from dedup.faults.registry import (
    KINDS,
    STRAIGHT_RULE,
    STRAIGHT_TODO,
    UNREACHED,
    Fault,
    Kinded,
    pods_of_brokers,
    possible_on_existing,
)
from dedup.parts import PATTERNS, TOKEN, Name, Part
from dedup.quantities import Seconds, format_duration
from dedup.refusals import meant, readable, refusal
from dedup.workloads import registry as workloads
from dedup.workloads.services import Pattern

MAX_TIMEOUT_S: Final = 7 * 24 * 3600
MAX_RETENTION_S: Final = 365 * 24 * 3600
MAX_RUNS: Final = 10_000
"""Of all systems and variants together. The operator holds the whole plan in memory, for many experiments."""

_ADDED: Final = {"allowPrivilegedFaults": False, "replacements": 0, "verification": VERIFIED} | dict.fromkeys(
    (
        *(
            "client",
            "clientSecretRef",
            "command",
            "deploy",
            "messagesPerSecond",
            "podSelector",
            "version",
            *(PRODUCTS.keys() - {"kafka", "pulsar"}),
        ),
        *(kind.key for kind in KINDS if not kind.in_every_digest),
        *("random", "after", "fault", "delivery"),
        *("workload", *(part.key for part in workloads.PARTS)),
    )
)
"""Keys of the spec and its parts that are newer than the digest: it leaves out their defaults."""
_ELSEWHERE: Final = ("artifacts", "retention", "suspend", "runToken")
"""Keys of the spec that set where and when the experiment runs, and not what it does."""
_CHANGES: Final = "the command line's changes"


class Timeouts(Part):
    """Bounds on the stages: a stage that takes longer is cancelled and counts as an error."""

    provision_s: Seconds = Field(
        900.0, alias="provision", gt=0, le=MAX_TIMEOUT_S, description="to start a system and see it whole"
    )
    run_s: Seconds = Field(
        600.0, alias="run", gt=0, le=MAX_TIMEOUT_S, description="each of prepare, produce, settle and consume"
    )
    delivery_s: Annotated[Seconds, Field(gt=0, le=MAX_TIMEOUT_S)] | None = Field(
        None,
        alias="delivery",
        description="the client tries to send one message, less than run; half of run, if left out",
    )
    verify_s: Seconds = Field(900.0, alias="verify", gt=0, le=MAX_TIMEOUT_S, description="to judge, for every ten runs")
    teardown_s: Seconds = Field(600.0, alias="teardown", gt=0, le=MAX_TIMEOUT_S, description="to end a system")

    @property
    def tried_for_s(self) -> float:
        """How long the client tries to send one message, in seconds."""
        return self.run_s / 2 if self.delivery_s is None else self.delivery_s


class Keep(StrEnum):
    """When something is kept that is not needed any more."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class Retention(Part):
    """Kubernetes only; histories and results are never deleted."""

    resources: Keep = Field(
        Keep.ON_FAILURE,
        description="whether Jobs, pods and the like stay: Always, Never, or OnFailure, unless the verdict is Pass",
    )
    after_s: Seconds = Field(
        86400.0, alias="after", ge=0, le=MAX_RETENTION_S, description="how long after the end the others are deleted"
    )


class Spec(Part):
    """What is to be done. Defaults live here; nothing that runs an experiment ever writes to it."""

    systems: Annotated[list[System], Field(min_length=1, max_length=8)] = Field(
        description="what is tested; all get the same workload, variants and faults"
    )
    workload: Workload = Field(description="what the clients do in every run")
    variants: Annotated[list[Variant], Field(min_length=1, max_length=8)] = Field(
        description="what is compared: deduplication off (the control) and on (the treatment)"
    )
    runs: int = Field(1, ge=1, le=1000, description="of each variant on each system")
    replacements: int = Field(
        0, ge=0, le=1000, description="how many runs, of all together, are done again because a fault of theirs missed"
    )
    confidence_percent: float | None = Field(
        None, ge=50, lt=100, description="what the verdict must reach, or it is inconclusive; left out: not asked"
    )
    seed: int = Field(0, ge=0, le=2**53, description="decides the order of the runs and every other choice")
    faults: Annotated[list[Fault], Field(max_length=MOST_FAULTS)] = Field(
        default_factory=list, description="what goes wrong in every run; none if left out"
    )
    random: Random | None = Field(
        None, description="what else goes wrong in every run, as the seed draws it; nothing if left out"
    )
    allow_privileged_faults: bool = Field(
        False, description="whether a fault may add a container with NET_ADMIN to a broker's pod (Kubernetes only)"
    )
    timeouts: Timeouts = Field(Timeouts(), description="bounds on the stages")
    verification: Verifying = Field(Verifying(), description="how the histories are judged")
    artifacts: Artifacts | None = Field(
        None, description="where histories and results are kept (Kubernetes only; `dedup run` has a folder)"
    )
    retention: Retention = Field(Retention(), description="what stays in the cluster when all is over")
    suspend: bool = Field(
        False, description="start nothing; what runs is ended, and its run done again later (Kubernetes only)"
    )
    run_token: Annotated[str, Field(pattern=TOKEN, max_length=63)] | None = Field(
        None, description="another token runs the experiment again, as the spec is then (Kubernetes only)"
    )

    @model_validator(mode="before")
    @classmethod
    def _percent(cls, written: Any) -> Any:
        """Refuse a fraction such as 0.95, which means 95 %."""
        asked = written.get("confidencePercent") if isinstance(written, dict) else None
        if isinstance(asked, float) and 0.5 <= asked < 1:
            raise refusal(
                "confidencePercent",
                f"{asked:g}",
                "it is in percent, at least 50",
                f"write {100 * asked:g}",
            )
        return written

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for what, names in (
            ("systems", [system.name for system in self.systems]),
            ("variants", [variant.name for variant in self.variants]),
            ("faults", [fault.name for fault in self.faults]),
        ):
            for index, name in enumerate(names):
                if name in names[:index]:
                    raise refusal(
                        f"{what}[{index}].name",
                        f'"{name}"',
                        f"another of the {what} has this name",
                        "rename one of them",
                    )
        span = schedules.Span(self.workload.messages, self.workload.messages_per_second, self.timeouts.run_s)
        schedules.check_times(self.written_faults, self.faults, self.random, span)
        for index, variant in enumerate(self.variants):
            for system in self.systems if variant.client is not None else ():
                if (wrong := system.of(variant).wrong_client(f"variants[{index}].client")) is not None:
                    raise wrong
        check_workload(self.workload, [(each, self._tested(each)) for each in self.variants])
        kinds = [self.workload.of(variant) for variant in self.variants]
        for system in self.systems:
            tested = [system.of(variant) for variant in self.variants]
            check_switches(self.variants, kinds, [(each.sender, each.client.properties) for each in tested])
        self._check_faults_possible()
        schedules.check_told_apart(self.written_faults)
        self._check_services()
        if self.workload.messages < self.workload.partitions:
            raise refusal(
                "workload.messages",
                str(self.workload.messages),
                f"there are {self.workload.partitions} partitions and each gets at least one message",
                "send more or use fewer partitions",
            )
        schedules.check_rate(span)
        own_s = None if self.workload.given is None else self.workload.given.tried_for_s
        schedules.check_delivery(self.timeouts.delivery_s, own_s, span)
        self._check_run_names()
        schedules.check_drawn(self.faults, self.random, self.seed)
        return self

    @model_validator(mode="after")
    def _not_too_many_runs(self) -> Self:
        runs = len(self.systems) * len(self.variants) * self.runs
        if runs > MAX_RUNS:
            raise refusal(
                "runs",
                str(self.runs),
                f"that is {runs:,} runs over all systems and variants, and at most {MAX_RUNS:,} make an experiment",
                "ask for fewer, or make two experiments of it",
            )
        return self

    @property
    def privileged_faults(self) -> list[str]:
        """The names of those faults that need more than Pod Security's level *restricted* grants."""
        return [each.name for _, each in self.written_faults if each.given.needs(Need.PRIVILEGE)]

    @property
    def all_faults(self) -> list[Fault]:
        """What goes wrong in every run: the faults that are written, and those that the seed draws."""
        return [*self.faults, *(() if self.random is None else self.random.faults(self.seed))]

    @property
    def written_faults(self) -> list[tuple[str, Kinded]]:
        """What is written of faults, to be done or to be drawn from, each with its place."""
        return schedules.written(self.faults, self.random)

    def proxied(self, system: System) -> bool:
        """Whether a proxy must stand between clients and the brokers of one of the systems."""
        return bool(system.network.latency_s) or any(fault.given.through_proxy for fault in self.all_faults)

    def leads(self, system: System) -> bool:
        """Whether a pod must lead clients to the brokers of a system that is there already; else they go straight."""
        struck = self.proxied(system) or any(fault.given.on_frames for fault in self.all_faults)
        return system.existing is not None and struck

    @property
    def served(self) -> set[Pattern]:
        """The patterns of the services among the variants' applications; none: there is no service."""
        return self.workload.served(self.variants)

    @property
    def own_networks(self) -> bool:
        """Whether each broker must have a network of its own, where brokers are processes of one machine."""
        return any(fault.given.own_networks for _, fault in self.written_faults)

    @property
    def own_disks(self) -> bool:
        """Whether each broker must have a disk of its own, where brokers are processes of one machine."""
        return any(fault.given.own_disks for _, fault in self.written_faults)

    def _tested(self, variant: Variant) -> list[Tested]:
        systems = [system.of(variant) for system in self.systems]
        return [Tested(s.name, s.protocol, s.library, s.client_version, s.client.properties) for s in systems]

    def _check_faults_possible(self) -> None:
        """Every system must have the target of each fault, and the experiment must grant what the fault needs."""
        other = next((system.name for system in self.systems if system.protocol != "kafka"), None)
        lacking = {
            Need.KAFKA: other,
            Need.PULSAR: next((system.name for system in self.systems if system.protocol != "pulsar"), None),
            Need.BOOKIES: next((system.name for system in self.systems if system.pulsar is None), None),
            Need.OWN_BOOKIES: next((each.name for each in self.systems if each.pulsar and each.existing), None),
            Need.POLICIES: next((each.name for each in self.systems if each.deploy is not None), None),
            Need.PRIVILEGE: None if self.allow_privileged_faults else "",
            Need.TRANSACTIONS: other if self.workload.in_transactions else "",
            Need.PROCESSES: None,  # where it will run, no file says
        }
        kinds = [each.kind for _, each in self.written_faults]
        for index, (where, fault) in enumerate(self.written_faults):
            if fault.given.single and fault.kind in kinds[:index]:
                raise refusal(
                    f"{where}.{fault.kind}",
                    fault.name,
                    f"an experiment has at most one {fault.kind}: {fault.given.single}",
                    "take one of them out",
                )
            self._check_existing(where, fault)
            for choice in fault.given.chosen:
                if (system := lacking[choice.need]) is not None:
                    raise refusal(
                        f"{where}.{fault.kind}.{fault.given.alias(choice.field)}",
                        choice.value.value,
                        choice.rule.format(system=system),
                        choice.todo,
                    )

    def _check_existing(self, where: str, fault: Kinded) -> None:
        """Brokers of others are hurt only if their pods are named, and then clients go to them straight."""
        for system in self.systems:
            if system.existing is None or fault.given.on_existing:
                continue
            if not (fault.given.on_consent and system.existing.pod_selector is not None):
                rule = f"system {system.name} is there already: {UNREACHED}"
                todo = f"write {possible_on_existing()}, or let the system be deployed{pods_of_brokers(fault.given)}"
                raise refusal(f"{where}.{fault.kind}", fault.name, rule, todo)
            led = any(each.given.through_proxy or each.given.on_frames for _, each in self.written_faults)
            if led or system.network.latency_s:
                raise refusal(f"{where}.{fault.kind}", fault.name, STRAIGHT_RULE, STRAIGHT_TODO)

    def _check_services(self) -> None:
        """A service's database and change data capture, a function's worker, or a second cluster, are started, too."""
        existing = next((system.name for system in self.systems if system.existing is not None), None)
        beside = self.workload.beside(self.variants)
        if beside is not None and existing is not None:
            raise refusal(
                f"workload.{beside}",
                f"system {existing}, which is there already",
                f"what a {beside.rpartition('.')[2]} needs beside the brokers is started together with them",
                f"let the system be started, or take {beside.rpartition('.')[2]} out",
            )
        if self.workload.replicated:
            schedules.check_none(self.written_faults)

    def _check_run_names(self) -> None:
        """A run is named after its system and variant: "a-b" + "c" must not have the same name as "a" + "b-c"."""
        seen: dict[str, str] = {}
        for system in self.systems:
            for index, variant in enumerate(self.variants):
                joined = f"{system.name}-{variant.name}"
                if joined in seen:
                    raise refusal(
                        f"variants[{index}].name",
                        f'"{variant.name}"',
                        f'its runs on {system.name} would be called "{joined}", as others on {seen[joined]} are',
                        "rename one of them",
                    )
                seen[joined] = system.name


class Metadata(Part):
    """The resource's name. Labels, annotations and a namespace are Kubernetes' business, and accepted."""

    name: Name = Field(description="of the experiment; results are called after it")
    namespace: Annotated[str, Field(max_length=63)] | None = Field(None, description="Kubernetes'; unused elsewhere")
    labels: dict[str, str] = Field(default_factory=dict, description="Kubernetes'; unused elsewhere")
    annotations: dict[str, str] = Field(default_factory=dict, description="Kubernetes'; unused elsewhere")


class Experiment(Part):
    """A `DedupExperiment` resource."""

    api_version: Literal["dedup.dev/v1alpha1"] = Field(description="the version of this format")
    kind: Literal["DedupExperiment"] = Field(description="what this document is")
    metadata: Metadata = Field(description="the experiment's name")
    spec: Spec = Field(description="what is to be done")

    _folder: Path = PrivateAttr(Path())

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def folder(self) -> Path:
        """Where the relative paths in it begin: the folder of its file, or where this process is."""
        return self._folder

    def kept_in(self, folder: Path) -> Self:
        """The same, with this folder as the one in which its relative paths begin."""
        self._folder = folder
        return self

    def digest(self) -> str:
        """A sha256 of everything that decides what the experiment does; equal digests mean the same experiment."""
        document = self.spec.model_dump(mode="json", by_alias=True)
        for key in _ELSEWHERE:
            del document[key]
        clients = [each["client"] for each in (*document["systems"], *document["variants"]) if each["client"]]
        existing = [(system["deploy"] or {}).get("existing") or {} for system in document["systems"]]
        tls = [each["tls"] for each in existing if each.get("tls")]
        ats, drawable = [each["at"] for each in document["faults"]], (document["random"] or {}).get("operations", [])
        listed = (
            *document["systems"],
            *clients,
            *existing,
            *tls,
            *document["variants"],
            *document["faults"],
            *ats,
            *drawable,
        )
        for fault, kind in ((each, kind) for each in (*document["faults"], *drawable) for kind in KINDS):
            if (given := fault.get(kind.key)) is not None:
                fault[kind.key] = {key: value for key, value in given.items() if kind.newer.get(key, ...) != value}
        for changes in (each["workload"] for each in document["variants"] if each["workload"]):
            workloads.leave_unset_out(changes)
        workloads.leave_defaults_out(document["workload"])
        for part in (document, document["workload"], document["timeouts"], *listed):
            for key, default in _ADDED.items():
                if key in part and part[key] == default:
                    del part[key]
        canonical = json.dumps(document, sort_keys=True)
        return hashlib.sha256(f"{self.name}\n{canonical}".encode()).hexdigest()

    def with_changes(
        self,
        *,
        runs: int | None = None,
        messages: int | None = None,
        systems: Sequence[str] = (),
        seed: int | None = None,
    ) -> "Experiment":
        """The same experiment, smaller or by another seed, for `dedup run --runs --messages --system --seed`.

        SpecificationError names the option that is wrong.
        """
        document = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        spec = document["spec"]
        if runs is not None:
            spec["runs"] = runs
        if messages is not None:
            self._check_faults_within(messages)
            spec["workload"]["messages"] = messages
        if seed is not None:
            spec["seed"] = seed
        if systems:
            known = [system.name for system in self.spec.systems]
            if unknown := [name for name in systems if name not in known]:
                guess = meant(unknown[0], known)
                raise SpecificationError(
                    where="--system",
                    got=unknown[0],
                    rule=f"the experiment's systems are {', '.join(known)}",
                    todo=f"did you mean {guess}?" if guess else "name one of them",
                )
            spec["systems"] = [system for system in spec["systems"] if system["name"] in systems]
        try:
            return parse(document, source=_CHANGES).kept_in(self.folder)
        except SpecificationError as error:
            options = {"spec.runs": "--runs", "spec.workload.messages": "--messages", "spec.seed": "--seed"}
            option = options.get(error.where.split(": ")[-1])
            raise SpecificationError(
                where=option or error.where, got=error.got, rule=error.rule, todo=error.todo
            ) from None

    def _check_faults_within(self, messages: int) -> None:
        last = max(self.spec.faults, key=lambda fault: fault.at.message or 0, default=None)
        if last is not None and (last.at.message or 0) > messages >= 1:
            raise SpecificationError(
                where="--messages",
                got=str(messages),
                rule=f"fault {last.name} begins at message {last.at.message}, and must begin while messages are sent",
                todo=f"ask for at least {last.at.message}, better twice as many, or lower the fault's at.message",
            )


def load(path: Path) -> Experiment:
    """Read and check an experiment file; SpecificationError in one line if it is wrong."""
    document = own_experiments.filled_in(documents.read(path), path.parent)
    return parse(document, source=str(path)).kept_in(path.resolve().parent)


def parse(document: object, *, source: str) -> Experiment:
    """Check a document that was read from `source`; only the file's own names of the keys are known."""
    mapping = documents.check(document, source)
    try:
        return Experiment.model_validate_json(json.dumps(mapping, default=str), by_alias=True, by_name=False)
    except ValidationError as error:
        raise readable(error, source=source, document=mapping, schema=_known_schema(), patterns=PATTERNS) from None


def json_schema() -> dict[str, Any]:
    """The JSON schema of an experiment file, for editors and for `dedup schema`."""
    return Experiment.model_json_schema(by_alias=True, schema_generator=FileSchema)


@cache
def _known_schema() -> dict[str, Any]:
    """For refusals, which only read it."""
    return json_schema()


class FileSchema(GenerateJsonSchema):
    """A schema without pydantic's generated titles, and with default durations as in a file."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        written = super().default_schema(schema)
        if written.get("type") == "string" and isinstance(written.get("default"), float):
            written["default"] = format_duration(written["default"])
        return written
