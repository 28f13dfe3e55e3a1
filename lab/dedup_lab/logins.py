"""What Secrets are on one machine: folders, each with files named like the Secret's keys.

An experiment file names Secrets (`deploy.existing`). In a cluster they are mounted into pods; here the command line
says where each is: `--secret NAME=FOLDER`. What is in the files is read by the programs that log in, and kept nowhere.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from dedup.errors import SpecificationError
from dedup.experiment.clients import is_program
from dedup.experiment.deployments import Secret
from dedup.experiment.endpoints import Security, security_by
from dedup.experiment.spec import Experiment, System

OPTION: Final = "--secret"
Secrets = Mapping[str, Path]
NONE: Final[Secrets] = {}


class Wanted(NamedTuple):
    """A Secret that the experiment names, and where."""

    where: str
    use: str
    system: System
    secret: Secret


def given(options: Iterable[str]) -> dict[str, Path]:
    """The folders, by the names of the Secrets, that `NAME=FOLDER` give."""
    found: dict[str, Path] = {}
    for option in options:
        name, mark, folder = option.partition("=")
        if not (name and mark and folder):
            raise _wrong(OPTION, option, "it is NAME=FOLDER", "name a Secret of the experiment and its folder")
        if name in found:
            raise _wrong(OPTION, option, "a Secret has one folder", "give it once")
        found[name] = Path(folder).absolute()
    return found


def wanted(experiment: Experiment) -> Iterator[Wanted]:
    """Every Secret that systems of the experiment need which are there already."""
    for index, system in enumerate(experiment.spec.systems):
        for use, secret in (system.existing.secrets if system.existing is not None else {}).items():
            yield Wanted(f"spec.systems[{index}].deploy.existing.{secret.at}.name", use, system, secret)


def access(experiment: Experiment, secrets: Secrets) -> dict[str, Security]:
    """How each system that is there already is spoken to. SpecificationError if a Secret or one of its files lacks."""
    check_clients(experiment)
    folders: dict[str, dict[str, Path]] = {}
    for each in wanted(experiment):
        folder = secrets.get(each.secret.name)
        if folder is None:
            keys = " and ".join(each.secret.keys)
            rule = f"on one machine a Secret is a folder, here with {keys}"
            raise _wrong(each.where, each.secret.name, rule, f"give {OPTION} {each.secret.name}=FOLDER")
        for key in each.secret.keys:
            if not os.access(folder / key, os.R_OK):
                got = f"no file {key} that can be read in {folder}"
                raise _wrong(f"{OPTION} {each.secret.name}", got, f"{each.where} needs it", "put it there")
        folders.setdefault(each.system.name, {})[each.use] = folder
    if unused := sorted(secrets.keys() - {each.secret.name for each in wanted(experiment)}):
        rule = "the experiment's systems name the Secrets that they need"
        raise _wrong(OPTION, unused[0], rule, "leave it out, or write its name in deploy.existing")
    return {
        system.name: security_by(system.existing, folders.get(system.name, {}))
        for system in experiment.spec.systems
        if system.existing is not None
    }


def check_clients(experiment: Experiment) -> None:
    """SpecificationError if a client is a program, and would have to log in."""
    for index, system in enumerate(experiment.spec.systems):
        existing = system.existing
        logs_in = existing is not None and (existing.sasl is not None or existing.token is not None)
        for client in (system.of(variant) for variant in experiment.spec.variants):
            if logs_in and is_program(client.library, client.client_version):
                raise _wrong(
                    f"spec.systems[{index}].client",
                    f"{client.library} {client.client_version}, a program",
                    "a program is given no password and no token",
                    "write the installed client, or name a listener that asks for none",
                )


def _wrong(where: str, got: str, rule: str, todo: str) -> SpecificationError:
    return SpecificationError(where=where, got=got, rule=rule, todo=todo)
