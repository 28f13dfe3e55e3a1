"""A running system that a command is pointed at: its URL, its TLS and log-in by options, and who its brokers are.

`dedup check` and `dedup probe` need no experiment file: a URL and some options say all. What is wrong with these, or
with the way to the brokers, is one line that names the option to change.
"""

import socket
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from dedup.errors import PlatformError, SpecificationError
from dedup.experiment.deployments import PLAIN_RULE, TOKEN_RULE, SaslMechanism
from dedup.experiment.endpoints import Endpoints, Security
from dedup.experiment.systems import Protocol
from dedup_runners.admins.discoveries import discovered
from dedup_runners.interposer.protocols import Address

PORTS: Final[dict[Protocol, int]] = {"kafka": 9092, "pulsar": 6650}
FOUND_S: Final = 10.0
REACHED_S: Final = 5.0
ADMIN_PORTS: Final = {"http": 8080, "https": 8443}
FOREIGN: Final[Mapping[Protocol, tuple[str, ...]]] = {"kafka": ("--token", "--admin"), "pulsar": ("--sasl",)}
"""Options that are for the other protocol."""


class Target(NamedTuple):
    """What a URL names."""

    protocol: Protocol
    brokers: list[Address]

    @property
    def url(self) -> str:
        return url_of(self.protocol, self.brokers)


def target(url: str, command: str, protocols: Sequence[Protocol]) -> Target:
    """The brokers that a URL names; SpecificationError, which shows no password, if it is none of these protocols."""
    scheme, mark, rest = url.partition("://")
    known = next((each for each in protocols if mark and each == scheme), None)

    def wrong(got: str, rule: str) -> SpecificationError:
        forms = " or ".join(f"{each}://HOST:{PORTS[each]}" for each in protocols)
        todo = f"write {forms}, or several brokers with commas between them"
        return SpecificationError(where=command, got=got, rule=rule, todo=todo)

    if "@" in url:
        raise wrong("a URL with a user or a password in it", "a log-in is given by options")
    if known is None:
        names = " and ".join(each.capitalize() for each in protocols)
        begins = " or ".join(f"{each}://" for each in protocols)
        raise wrong(url, f"only {names} can be asked, by a URL that begins with {begins}")
    brokers = [_address(each) for each in rest.rstrip("/").split(",")]
    if None in brokers:
        raise wrong(url, "brokers are host:port, with commas between them")
    return Target(known, [each for each in brokers if each is not None])


def _address(text: str) -> Address | None:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16 or any(each in host for each in "/: "):
        return None
    return Address(host, int(port)) if _is_name(host) else None


def _is_name(host: str) -> bool:
    """Whether it can be asked for: its parts are not empty, nor too long."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def url_of(protocol: Protocol, brokers: Sequence[Address]) -> str:
    """The URL of these brokers."""
    return f"{protocol}://{','.join(map(str, brokers))}"


def access_by(
    tls: bool,
    ca: Path | None,
    sasl: SaslMechanism | None,
    login: Path | None,
    token: Path | None = None,
    own: tuple[Path | None, Path | None] = (None, None),
) -> Security:
    """The TLS and authentication that the options ask for; SpecificationError if they do not fit together."""
    if tls and ca is None:
        known = ssl.get_default_verify_paths().cafile
        if known is None:
            raise _option(
                "--tls", "no list of authorities on this machine", "a certificate is verified", "give --ca FILE"
            )
        ca = Path(known)
    if ca is not None and not ca.is_file():
        raise _option("--ca", str(ca), "it is a file with certificates (PEM)", "name one")
    if (sasl is None) != (login is None):
        given, missing = ("--login", "--sasl") if sasl is None else ("--sasl", "--login")
        raise _option(given, f"no {missing}", "a log-in has a mechanism, a user and a password", f"give {missing}, too")
    if login is not None and not all((login / name).is_file() for name in ("username", "password")):
        raise _option("--login", str(login), "it is a folder with the files username and password", "name one")
    if sasl == "PLAIN" and ca is None:
        raise _option("--sasl", "PLAIN without --tls or --ca", PLAIN_RULE, "use TLS or a SCRAM mechanism")
    if token is not None and not token.is_file():
        raise _option("--token", str(token), "it is a file with a token", "name one")
    if token is not None and ca is None:
        raise _option("--token", "one without --tls or --ca", TOKEN_RULE, "use TLS")
    cert, key = own
    for option, file, other in (("--cert", cert, key), ("--key", key, cert)):
        if file is not None and not file.is_file():
            raise _option(option, str(file), "it is a file (PEM)", "name one")
        if file is not None and (other is None or ca is None):
            missing = "the other of --cert and --key" if other is None else "--tls or --ca"
            raise _option(option, f"no {missing}", "a certificate is shown over TLS, and has a key", f"give {missing}")
    found = {"ca": ca, "login": login, "token": token, "certificate": cert, "key": key}
    return Security.model_validate({"sasl": sasl} | {name: path and path.absolute() for name, path in found.items()})


def _option(where: str, got: str, rule: str, todo: str) -> SpecificationError:
    return SpecificationError(where=where, got=got, rule=rule, todo=todo)


def found(given: Target, access: Security, admin: str | None) -> Endpoints:
    """All brokers of the system. SpecificationError for an option that is for the other protocol."""
    options = {"--token": access.token, "--admin": admin, "--sasl": access.sasl}
    for option in FOREIGN[given.protocol]:
        if options[option] is not None:
            raise _option(option, f"a URL of {given.protocol}", "the option is for the other protocol", "leave it out")
    if given.protocol == "kafka":
        return kafka_at(given.brokers, access)
    return pulsar_at(given.brokers, access, admin)


def kafka_at(given: Sequence[Address], access: Security) -> Endpoints:
    """The brokers, by the word of one of those given; PlatformError if they cannot be reached from here."""
    bootstrap = ",".join(map(str, given))
    asked = Endpoints(
        system="kafka", client_bootstrap=bootstrap, direct_bootstrap=bootstrap, security=access, brokers=[]
    )
    how = f"{_spoken(access)}, {access.sasl or 'without a log-in'}"
    options = "--tls, --ca, --cert, --sasl and --login"
    return reached(_found(asked, url_of("kafka", given), f"on a listener as asked for: {how}", options))


def reached(found: Endpoints) -> Endpoints:
    """A Kafka whose brokers can all be reached from here; PlatformError about the first that cannot."""
    for broker in found.brokers if found.system == "kafka" else ():
        try:
            socket.create_connection((str(broker.host), broker.client_port), REACHED_S).close()
        except OSError as error:
            raise PlatformError(
                where=f"broker {broker.id}, {broker.host}:{broker.client_port}",
                got=str(error),
                rule="every broker can be reached by the address that it gives to clients (advertised.listeners)",
                todo="run this where that address leads to the broker, or have the broker advertise another",
            ) from None
    return found


def pulsar_at(given: Sequence[Address], access: Security, admin: str | None) -> Endpoints:
    """The brokers, by the word of the admin interface at `admin`; PlatformError if it cannot be reached from here.

    None: on the first of those given, at the usual port.
    """
    scheme = "http" if access.ca is None else "https"
    url = admin or f"{scheme}://{given[0].host}:{ADMIN_PORTS[scheme]}"
    if not _is_admin(url) or "@" in url:
        got = "a URL with a user in it" if "@" in url else url
        raise _option("--admin", got, "it is Pulsar's admin interface, http://HOST:PORT or https://…", "name it")
    if access.token is not None and urlsplit(url).scheme != "https":
        raise _option("--admin", url, TOKEN_RULE, "give its https:// address")
    clients = f"pulsar{'' if access.ca is None else '+ssl'}://{','.join(map(str, given))}"
    asked = Endpoints(
        system="pulsar",
        client_bootstrap=clients,
        direct_bootstrap=clients,
        admin_urls=[url.rstrip("/")],
        security=access,
        brokers=[],
    )
    how = f"{_spoken(access)}, {'without a token' if access.token is None else 'with a token'}"
    return _found(asked, url, f"asked as is wished: {how}", "--admin, --tls, --ca, --cert and --token")


def _is_admin(url: str) -> bool:
    """Whether it is a URL of HTTP, with a host, and with a port that can be one if it has any."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in ADMIN_PORTS and port != 0 and _is_name(parts.hostname or "")


def _found(asked: Endpoints, where: str, how: str, options: str) -> Endpoints:
    try:
        return discovered(asked, FOUND_S)
    except PlatformError as error:
        raise PlatformError(
            where=where,
            got=error.got,
            rule=f"one of these brokers says who the brokers are, {how}",
            todo=f"check the address, that the broker is up, and {options}",
        ) from None


def _spoken(access: Security) -> str:
    return "plaintext" if access.ca is None else "TLS"
