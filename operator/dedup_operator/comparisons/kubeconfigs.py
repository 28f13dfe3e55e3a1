"""The way into another cluster, from a kubeconfig that somebody else wrote.

A kubeconfig can do much more than name a cluster: it can run programs (`exec`, `auth-provider`), read files of the
machine that uses it, and switch off the check of the server's certificate. Here it would be this operator's pod that
did so, with this operator's account (GHSA-vvmq-fwmg-2gjc is such a case). So nothing of it is used but an address, an
authority, a token and a namespace; whatever else it says is refused.
"""

import base64
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import yaml

from dedup.errors import SpecificationError

RULE: Final = "a kubeconfig here has a server, its certificate-authority-data, a token, a namespace, and nothing else"
MAX_CHARACTERS: Final = 64 << 10
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TODO: Final = "make one for an account that may handle experiments there (docs/compare-clusters.md)"
_FILE: Final = "a file of the operator's own pod"
_REFUSED: Final[Mapping[str, str]] = {
    "exec": "a program that would run in the operator's pod",
    "auth-provider": "a program that would run in the operator's pod",
    "insecure-skip-tls-verify": "a server whose certificate nobody checks",
    "certificate-authority": _FILE,
    "client-certificate": _FILE,
    "client-key": _FILE,
    "tokenFile": _FILE,
    "client-certificate-data": "a certificate for the user",
    "client-key-data": "a key for the user",
    "username": "a password",
    "password": "a password",
    "as": "another user's name",
    "proxy-url": "a proxy",
}
"""What stands behind a key that people may have, in words."""


class Way(NamedTuple):
    """How another cluster is asked. Its token is in no text that this makes."""

    server: str
    token: str
    authority: str | None
    """Certificates in PEM; None: those that the operator's image trusts."""
    namespace: str | None

    def __repr__(self) -> str:
        return f"Way({self.server})"


def way_in(text: str, where: str) -> Way:
    """The way that a kubeconfig's current context names; SpecificationError in one line, of that place."""
    document = _read(text, where)
    _only(document, {"apiVersion", "kind", "preferences", "clusters", "users", "contexts", "current-context"}, where)
    context = _named(document, "contexts", "context", document.get("current-context"), where)
    cluster = _named(document, "clusters", "cluster", context.get("cluster"), where)
    user = _named(document, "users", "user", context.get("user"), where)
    _only(context, {"cluster", "user", "namespace"}, f"{where}: context")
    _only(cluster, {"server", "certificate-authority-data"}, f"{where}: cluster")
    _only(user, {"token"}, f"{where}: user")
    return Way(
        server=_server(cluster.get("server"), where),
        token=_text(user.get("token"), f"{where}: user", "token"),
        authority=_authority(cluster.get("certificate-authority-data"), where),
        namespace=_namespace(context.get("namespace"), where),
    )


def _read(text: str, where: str) -> dict[str, Any]:
    """No alias is followed: a few of them make gigabytes of a page."""
    if len(text) > MAX_CHARACTERS:
        raise _refusal(where, f"more than {MAX_CHARACTERS >> 10} KiB")
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise _refusal(where, "YAML with aliases")
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise _refusal(where, "text that is not YAML") from None
    if not isinstance(document, dict):
        raise _refusal(where, "something else than a kubeconfig")
    return document


def _named(document: Mapping[str, Any], many: str, one: str, name: object, where: str) -> dict[str, Any]:
    found = document.get(many)
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict) and each.get("name") == name and isinstance(name, str):
            value = each.get(one)
            return value if isinstance(value, dict) else {}
    raise _refusal(where, f"a current context whose {one} is not in the file")


def _only(mapping: Mapping[Any, Any], known: set[str], where: str) -> None:
    for key in mapping:
        if key not in known:
            what = _REFUSED.get(str(key))
            raise _refusal(where, f"{str(key)[:40]!r}" + (f", {what}" if what else ""))


def _server(given: object, where: str) -> str:
    server = _text(given, f"{where}: cluster", "server")
    try:
        at = urlsplit(server)
        plain = at.scheme == "https" and at.hostname and not (at.username or at.password or at.query or at.fragment)
        _ = at.port
    except ValueError:
        plain = False
    if not plain:
        raise _refusal(f"{where}: cluster", "a server that is not https://HOST:PORT")
    return server


def _authority(given: object, where: str) -> str | None:
    if given is None:
        return None
    try:
        decoded = base64.b64decode(_text(given, where, "authority"), validate=True).decode("ascii")
    except ValueError:
        decoded = ""
    if "-----BEGIN CERTIFICATE-----" not in decoded:
        raise _refusal(f"{where}: cluster", "a certificate-authority-data that is no certificate in base64")
    return decoded


def _namespace(given: object, where: str) -> str | None:
    if given is None:
        return None
    if not _NAMESPACE.fullmatch(_text(given, where, "namespace")):
        raise _refusal(f"{where}: context", "a namespace that is none")
    return str(given)


def _text(given: object, where: str, what: str) -> str:
    """A token goes into a header: it may have no line of its own."""
    if not isinstance(given, str) or not given or not given.isascii() or not given.isprintable():
        raise _refusal(where, f"no {what}" if given is None else f"a {what} that is none")
    return given


def _refusal(where: str, got: str) -> SpecificationError:
    return SpecificationError(where=where, got=got, rule=RULE, todo=_TODO)
