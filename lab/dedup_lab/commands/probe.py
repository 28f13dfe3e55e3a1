"""The command `dedup probe`: what it takes, and the help that teaches it."""

from typing import Annotated

import typer

from dedup_lab.commands.options import Admin, Ca, Cert, Format, Key, Login, Sasl, Tls, Token
from dedup_lab.terminal.consoles import console

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="kafka://HOST:PORT or pulsar://HOST:PORT; of several brokers HOST:PORT,HOST:PORT.",
        show_default=False,
    ),
]


def probe(
    url: Url,
    tls: Tls = False,
    ca: Ca = None,
    sasl: Sasl = None,
    login: Login = None,
    token: Token = None,
    cert: Cert = None,
    key: Key = None,
    admin: Admin = None,
    output: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
) -> None:
    """Ask a running broker for each rule of deduplication: what does it do with a batch that is sent again?

        dedup probe kafka://localhost:9092
        dedup probe pulsar://localhost:6650 --format json

    For each rule one message is sent that a producer after a lost answer, a
    restart or an error could send: the last batch again, one that is older than
    the broker remembers, one with a gap before it, one of an old epoch. Then the
    topic is read to its end: how often is the message stored?

    The verdict says whether the broker does what is claimed (by the seeds of
    this project, or by an issue). The exit code says whether it does what is
    expected of its version:

        0  every rule is as expected
        1  a rule is not
        3  a rule could not be tried; the table says why
        4  no topic could be made, or no broker reached

    Each rule has topics of its own, named dedup-probes-* (on Pulsar in
    namespaces public/dedup-probes-*). They are removed, also after Ctrl-C.
    """
    from dedup_lab import probes, targets

    access = targets.access_by(tls, ca, sasl, login, token, (cert, key))
    asked = probes.probe(url, access, admin=admin, as_json=output is Format.JSON, log=console())
    raise typer.Exit(asked)
