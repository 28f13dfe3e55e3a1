"""The command `dedup check`: what it takes, and the help that teaches it."""

from pathlib import Path
from typing import Annotated

import typer

from dedup_lab.commands.options import Admin, Ca, Cert, Key, Login, Sasl, Tls, Token
from dedup_lab.terminal.consoles import console


def check(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="kafka://HOST:PORT or pulsar://HOST:PORT, or several brokers: kafka://HOST:PORT,HOST:PORT.",
            show_default=False,
        ),
    ],
    tls: Tls = False,
    ca: Ca = None,
    sasl: Sasl = None,
    login: Login = None,
    token: Token = None,
    cert: Cert = None,
    key: Key = None,
    admin: Admin = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one line of JSON.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Keep both histories there, with every request and reply (conversation.parquet).",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check whether your own broker deduplicates: in half a minute, without Java, an experiment file or a cluster.

        dedup check kafka://localhost:9092
        dedup check pulsar://localhost:6650 --admin http://localhost:8080
        dedup check kafka://HOST:9093 --ca ca.crt --sasl SCRAM-SHA-512 --login FOLDER
        dedup check kafka://HOST:9093 --ca ca.crt --cert tls.crt --key tls.key
        dedup check pulsar://HOST:6651 --ca ca.crt --token FILE

    A producer sends 100 messages through a proxy that reads the protocol. Ten
    times the proxy waits until the broker has stored a message and answers,
    and closes the connection instead of passing the answer on. The producer
    cannot know that its message is stored, and sends it again. This is done
    without deduplication (the control: the broker must store copies, or the
    loss proved nothing), then with it (it must recognise what it has).

        pass          the control has copies; with deduplication nothing is
                      stored twice, lost or out of order
        fail          with deduplication something is
        inconclusive  nothing is proven: the control has no copies, or not all
                      ten answers could be lost

    Two topics named dedup-check-* are made, and removed at the end, also after
    Ctrl-C; on Pulsar also namespaces, public/dedup-on and public/dedup-off. The
    broker must let this client create, write, read and delete them. Nothing else
    on it is touched.
    """
    from dedup_lab import checks, targets

    access = targets.access_by(tls, ca, sasl, login, token, (cert, key))
    raise typer.Exit(checks.check(url, access, admin=admin, out=out, as_json=as_json, console=console()))
