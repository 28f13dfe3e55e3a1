"""Options that several commands have: how a running system is reached, and what is printed."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dedup.experiment.deployments import SaslMechanism


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


class Listing(StrEnum):
    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class Shown(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def only_of_comparisons(shown: Shown) -> None:
    """A wrong command line if Markdown is asked of an experiment."""
    if shown is Shown.MARKDOWN:
        raise typer.BadParameter("of an experiment dedup report --markdown writes it", param_hint="--format markdown")


Open = Annotated[bool, typer.Option("--open", help="Open report.html in the browser.")]

Tls = Annotated[bool, typer.Option("--tls", help="Use TLS, and trust the authorities that this machine trusts.")]
Ca = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Use TLS, and trust these authorities (PEM).", show_default=False),
]
Sasl = Annotated[SaslMechanism | None, typer.Option(help="Log in by this mechanism.", show_default=False)]
Login = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Who logs in: a folder with the files username and password, as a Secret is mounted.",
        show_default=False,
    ),
]
Token = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Pulsar: the file with the token of clients and admins.", show_default=False),
]
Cert = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="With TLS: our own certificate (PEM), if brokers ask for one.", show_default=False
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The private key of --cert (PEM, without a password).", show_default=False),
]
Secret = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FOLDER",
        help="The folder of a Secret that the file names, with a file for each key; may be repeated.",
        show_default=False,
    ),
]
Admin = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help=r"Pulsar: its admin interface.  \[default: http://HOST:8080, with TLS https://HOST:8443]",
        show_default=False,
    ),
]
