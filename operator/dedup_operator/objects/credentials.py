"""Secrets that an experiment names, and how pods see them: as files at places of ours, key by key, and nowhere else.

A Secret is mounted where clients are that log in with it, and only the keys that they need. No object of ours has
anything of what is in it. Whether its owner agreed (the label) is looked up before each step of the experiment, and
whether the administrator's is there, which needs no such label. A log-in is shown only where its owner says (HOSTS).
"""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from dedup.experiment.deployments import Secret
from dedup.experiment.endpoints import OPEN, Security, security_by
from dedup.experiment.spec import Experiment, System
from dedup_operator.objects.pods import Object
from dedup_operator.objects.settings import STORE_KEYS, Defaults

MOUNT: Final = "/credentials"
USE: Final = "dedup.dev/use"
HOSTS: Final = "dedup.dev/hosts"


class Named(NamedTuple):
    """A Secret by its name, where it is named, and the keys that must be in it (none: whatever is there will do)."""

    where: str
    name: str
    keys: tuple[str, ...] = ()
    labelled: bool = True
    """Its owner has to have said that experiments may use it."""
    shown_to: tuple[str, ...] = ()
    """Where a log-in is shown, host:port: its owner has to have said that it may be."""


def secrets_named(experiment: Experiment) -> list[Named]:
    """Every Secret that the experiment names: nobody's is used unless its owner has labelled it."""
    s3 = experiment.spec.artifacts.s3 if experiment.spec.artifacts else None
    found = [Named("spec.artifacts.s3.secretRef.name", s3.secret_ref.name)] if s3 and s3.secret_ref else []
    for index, system in enumerate(experiment.spec.systems):
        for each in _of(system).values():
            where = f"spec.systems[{index}].deploy.existing.{each.at}.name"
            found.append(Named(where, each.name, each.keys, shown_to=_hosts(system) if each.login else ()))
    return found


def administrators(experiment: Experiment, defaults: Defaults) -> list[Named]:
    """The Secret of the administrator's store, if histories go there."""
    store = defaults.artifacts if experiment.spec.artifacts is None else None
    if store is None or store.s3 is None or store.s3.secret is None:
        return []
    return [Named("settings.artifacts.s3.secret", store.s3.secret, STORE_KEYS, labelled=False)]


def unusable(secret: Object | None, named: Named, *, to_any_host: bool = False) -> tuple[str, str, str] | None:
    """Why a Secret is not used: what it is, the rule, and what to do. None if it is used.

    `to_any_host`: a log-in whose owner does not say where it may be shown is shown wherever the experiment says.
    """
    label, keys = f'only Secrets that are labelled {USE}: "true" are used', f"it has the keys {', '.join(named.keys)}"
    if secret is None and not named.labelled:
        return "which is not there", f"{keys}, in each namespace of experiments", "make it in this one"
    if secret is None:
        return "which is not there", label, "make it, or label it"
    if named.labelled and (secret["metadata"].get("labels") or {}).get(USE) != "true":
        return "which has no such label", label, "make it, or label it"
    allowed = (secret["metadata"].get("annotations") or {}).get(HOSTS)
    if allowed is None and named.shown_to and not to_any_host:
        rule = f"a log-in is shown only where its owner says, in the annotation {HOSTS}"
        return (
            "which has no such annotation",
            rule,
            f"have its owner add it, such as {HOSTS}={','.join(named.shown_to)}",
        )
    if allowed is not None and (host := forbidden_host(named, allowed)):
        rule = f"its owner says in the annotation {HOSTS} where it may be shown"
        return f"which may not be shown to {host}", rule, "write one of those addresses, or have its owner add this one"
    if missing := [key for key in named.keys if key not in (secret.get("data") or {})]:
        return f"which has no {missing[0]}", keys, "add the key"
    return None


def security(system: System) -> Security:
    """How to speak to a system, as pods with its credentials find them."""
    if system.existing is None:
        return OPEN
    return security_by(system.existing, {use: Path(MOUNT, use) for use in _of(system)})


def credential_volumes(system: System) -> list[Object]:
    """The keys of the Secrets that a system wants, as volumes of a pod."""
    return [
        {
            "name": f"credentials-{use}",
            "secret": {
                "secretName": each.name,
                "defaultMode": 0o440,
                "items": [{"key": key, "path": key} for key in each.keys],
            },
        }
        for use, each in _of(system).items()
    ]


def credential_mounts(system: System, *, behind_tls: bool = False) -> dict[str, str]:
    """Where a container that speaks to the system mounts them.

    `behind_tls`: another one speaks TLS for it, and shows the certificate; it has to log in, and no more.
    """
    uses = [use for use in _of(system) if not behind_tls or use in _logs_in(system)]
    return {f"credentials-{use}": f"{MOUNT}/{use}" for use in uses}


def _logs_in(system: System) -> tuple[str, ...]:
    """By what a client of whose TLS a proxy takes care says who it is. A Pulsar's greeting names the certificate."""
    by_certificate = system.protocol == "pulsar" and "token" not in _of(system)
    return ("sasl", "token", *(["client"] if by_certificate else []))


def _hosts(system: System) -> tuple[str, ...]:
    """Whom a log-in is shown, as host:port. Brokers that these name besides are not asked for."""
    assert system.existing is not None
    told = (system.existing.bootstrap, system.existing.service_url, system.existing.admin_url)
    return tuple(host for each in told if each for host in each.rpartition("://")[2].split(","))


def forbidden_host(named: Named, allowed: str) -> str | None:
    """The first whom it may not be shown. `allowed` are hosts, or host:port, with commas between and * for any part."""
    patterns = [each.strip() for each in allowed.split(",")]
    for host in named.shown_to:
        bare = host.rpartition(":")[0] or host
        if not any(fnmatchcase(host if ":" in pattern else bare, pattern) for pattern in patterns):
            return host
    return None


def _of(system: System) -> dict[str, Secret]:
    """The Secrets of a system, by what each is for."""
    return {} if system.existing is None else system.existing.secrets
