"""The objects of an experiment as YAML, for people: `python -m dedup_operator.objects WHAT EXPERIMENT SETTINGS …`.

    runs          the plan: the ids of all runs, one a line, in the order in which they are done
    release NAME  the Helm release of a system: its name, on one line
    values NAME   values for the chart of a system
    accounts      who may do what
    run RUN_ID    one attempt of one run: ConfigMap and Job
    verification  the SparkApplication that judges all of them, or the Job

What is printed is what the operator would apply; docs/run-by-hand.md does a whole experiment with it.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from dedup.errors import EXIT_ERROR, DedupError, SpecificationError
from dedup.experiment.plans import Run, plan
from dedup.experiment.spec import Experiment, System, load
from dedup_operator.objects import settings as settings_files
from dedup_operator.objects.accounts import accounts
from dedup_operator.objects.names import Owner
from dedup_operator.objects.runs import run_objects
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.systems import release_of, values
from dedup_operator.objects.verifications import verification

WHATS = ("runs", "release", "values", "accounts", "run", "verification")


class _Dumper(yaml.SafeDumper):
    """YAML in which long texts are blocks, and nothing points from one place to another."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def printed(what: str, which: str | None, attempt: int, experiment: Experiment, settings: Settings) -> str:
    """What is asked for, as text."""
    owner = Owner(settings.namespace, experiment.name)
    match what:
        case "runs":
            return "".join(f"{run.run_id}\n" for run in plan(experiment))
        case "release":
            return f"{release_of(owner, _deployed(experiment, which))}\n"
        case "values":
            return _yaml(values(_deployed(experiment, which), settings, spec=experiment.spec))
        case "accounts":
            return _yaml(
                *accounts(owner, experiment, settings.account_annotations, settings.chaos_images, settings.systems)
            )
        case "run":
            return _yaml(*run_objects(owner, experiment, _run(experiment, which), attempt, settings))
        case _:
            return _yaml(verification(owner, experiment, settings))


def _yaml(*documents: Any) -> str:
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=118)


def _deployed(experiment: Experiment, name: str | None) -> System:
    systems = {system.name: system for system in experiment.spec.systems if system.existing is None}
    return systems[_known(name, systems, "systems")]


def _run(experiment: Experiment, run_id: str | None) -> Run:
    runs = {run.run_id: run for run in plan(experiment)}
    return runs[_known(run_id, runs, "runs")]


def _known(name: str | None, known: dict[str, Any], what: str) -> str:
    if name in known:
        return str(name)
    raise SpecificationError(
        where=f"the command line's {what[:-1]}",
        got=name or "nothing",
        rule=f"the experiment's {what} are {', '.join(_first(known)) or 'there already'}",
        todo="name one of them",
    )


def _first(names: dict[str, Any], most: int = 8) -> Iterator[str]:
    yield from list(names)[:most]
    if len(names) > most:
        yield f"and {len(names) - most} more"


def main() -> int:
    """Print; the exit code is 0, or 4 with one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m dedup_operator.objects", description="an experiment's objects")
    parser.add_argument("what", choices=WHATS)
    parser.add_argument("experiment", type=Path)
    parser.add_argument("settings", type=Path)
    parser.add_argument("which", nargs="?", metavar="NAME", help="of the system, or the run's id")
    parser.add_argument("--attempt", type=int, default=1, metavar="N")
    asked = parser.parse_args()
    try:
        experiment, settings = load(asked.experiment), settings_files.load(asked.settings)
        print(printed(asked.what, asked.which, asked.attempt, experiment, settings), end="")
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main())
