"""The command `dedup check`: what it takes, and the help that teaches it."""

from pathlib import Path
from typing import Annotated

import typer

from dedup.experiment.deployments import SaslMechanism
from dedup_lab.terminal.consoles import console

Tls = Annotated[bool, typer.Option("--tls", help="Use TLS, and trust the authorities that this machine trusts.")]
Ca = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Use TLS, and trust these authorities (PEM).", show_default=False)
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


def check(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="kafka://HOST:PORT, or several brokers: kafka://HOST:PORT,HOST:PORT.",
            show_default=False,
        ),
    ],
    tls: Tls = False,
    ca: Ca = None,
    sasl: Sasl = None,
    login: Login = None,
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
        dedup check kafka://HOST:9093 --ca ca.crt --sasl SCRAM-SHA-512 --login FOLDER

    A producer sends 100 messages through a proxy that understands Kafka. Ten
    times the proxy waits until the broker has stored a message and answers,
    and closes the connection instead of passing the answer on. The producer
    cannot know that its message is stored, and sends it again. This is done
    without idempotence (the control: the broker must store copies, or the loss
    proved nothing), then with it (the broker must recognise what it has).

        pass          the control has copies; with idempotence nothing is
                      stored twice, lost or out of order
        fail          with idempotence something is
        inconclusive  nothing is proven: the control has no copies, or not all
                      ten answers could be lost

    Two topics named dedup-check-* are made, and removed at the end, also after
    Ctrl-C. The broker must let this client create, write, read and delete them.
    Nothing else on it is touched.
    """
    from dedup_lab import checks

    access = checks.access_by(tls, ca, sasl, login)
    raise typer.Exit(checks.check(url, access, out=out, as_json=as_json, console=console()))
