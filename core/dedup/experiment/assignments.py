"""The assignment of one attempt's pod: which run of which experiment, against which system, and where to write.

Everything else follows from it, so the program that makes the pod decides nothing about the run. It is one JSON
document (`run.json`) in a ConfigMap that all containers of the pod mount; for a run by hand one writes the same file.
"""

from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError

from dedup.errors import SpecificationError
from dedup.experiment.clients import Library, is_program
from dedup.experiment.endpoints import Endpoints, Worker
from dedup.experiment.plans import Run, plan
from dedup.experiment.spec import Experiment, System, Variant
from dedup.faults.registry import LATENCY_FAULT, Fault
from dedup.refusals import location, short
from dedup.wire.manifests import Record

FILE: Final = "run.json"
FOLDER: Final = Path("/history")
SHARED: Final = Path("/shared")
PROGRAMS: Final = Path("/usr/local/dedup/clients")
"""Where the image of clients that are programs has a folder for each, with what starts it (docs/decisions/112)."""
GRACE_S: Final = 600
"""How long a run's pod may take to end after its programs: the uploader must upload the rest, with retries."""
EXIT_CLAIMED: Final = 5
"""The exit code of a conductor whose attempt another one has claimed: it has sent nothing."""

LAST_WORD: Final = Path("/dev/termination-log")
"""The file whose text Kubernetes copies into the pod's status when the container ends."""
MISSED: Final = "missed: "
"""The prefix of a conductor's termination message if the faults of a finished run missed; the reason follows."""


def start_of(library: Library, version: str) -> Path:
    """What starts that version of a client in the image of programs; it takes the arguments that the program takes."""
    return PROGRAMS / f"{library}-{version}" / "start"


class Assignment(Record):
    """One attempt of one run, for the programs that carry it out side by side."""

    experiment: Experiment
    run_id: str
    attempt: int = Field(ge=1)
    endpoints: Endpoints
    folder: Path = Field(FOLDER, description="the run's folder; every program writes its part of the history there")
    shared: Path = Field(SHARED, description="where the programs see that the others are alive")
    artifacts: str | None = Field(
        None, description="s3://bucket/prefix that the history is uploaded to; None: it stays in the folder"
    )
    database: str | None = Field(
        None,
        description="the URL of the database beside the brokers, if some variant's application is a service; who is to "
        "log in there has the password in the environment (PGPASSWORD)",
    )
    worker: Worker | None = Field(None, description="what runs the function, if some variant's application is one")
    watchdog: Path | None = Field(
        None, description="the socket of the watchdog that heals every fault; None: each fault starts one of its own"
    )

    @property
    def run(self) -> Run:
        return next(run for run in plan(self.experiment) if run.run_id == self.run_id)

    @property
    def system(self) -> System:
        return next(system for system in self.experiment.spec.systems if system.name == self.run.system)

    @property
    def variant(self) -> Variant:
        return next(variant for variant in self.experiment.spec.variants if variant.name == self.run.variant)

    @property
    def program(self) -> Path | None:
        """What starts the client, in the image of programs; None if the client is none of these."""
        system = self.system.of(self.variant)
        if system.client.command is not None or not is_program(system.library, system.client_version):
            return None
        return start_of(system.library, system.client_version)

    @property
    def faults(self) -> dict[str, Fault | None]:
        """The faults by name, in the order in which they are armed; None is the link's own latency.

        Each has a container of its own, called `chaos-NAME`.
        """
        latency: dict[str, Fault | None] = {LATENCY_FAULT: None} if self.system.network.latency_s else {}
        return latency | {fault.name: fault for fault in self.experiment.spec.all_faults}

    def place(self) -> str | None:
        """The URI of this attempt's folder in the store, laid out as in a results folder; None without a store."""
        if self.artifacts is None:
            return None
        return f"{self.artifacts.rstrip('/')}/runs/{self.run_id}/attempt-{self.attempt}"

    def document(self) -> str:
        """The text of `run.json`."""
        return self.model_dump_json(by_alias=True, exclude_none=True, indent=1)


def read(path: Path) -> Assignment:
    """The assignment in a file; SpecificationError in one line if there is none."""
    try:
        assignment = Assignment.model_validate_json(path.read_bytes())
        assert assignment.run.run_id
        return assignment
    except OSError as error:
        where, got, rule = str(path), error.strerror or type(error).__name__, "a run's pod needs its assignment"
    except StopIteration:
        where, got, rule = f"{path}: run_id", "a run that is not of the experiment", "a run is one of the plan's"
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where, got, rule = f"{path}: {location(first['loc']) or 'document'}", short(first["input"]), first["msg"]
    raise SpecificationError(where=where, got=got, rule=rule, todo="give an Assignment as JSON")
