"""The command `dedup explore`: what it takes, and the help that teaches it."""

from pathlib import Path
from typing import Annotated

import typer

from dedup_lab.commands.options import Admin, Ca, Cert, Format, Key, Login, Sasl, Tls, Token
from dedup_lab.terminal.consoles import console

Messages = Annotated[
    int | None,
    typer.Option(min=1, max=1000, help=r"Messages a run.  \[default: the file's up to 1,000, else 20]"),
]
Partitions = Annotated[int | None, typer.Option(min=1, max=64, help=r"Of each topic.  \[default: the file's, else 2]")]
Out = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help=r"Where everything is kept.  \[default: results/explore-TIME]")
]
Resume = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Go on with an interrupted exploration.", show_default=False)
]

Replay = Annotated[
    Path | None,
    typer.Option(metavar="WITNESS", help="Only run a witness's schedule again, ten times.", show_default=False),
]


def explore(
    target: Annotated[
        str,
        typer.Argument(
            metavar="URL|FILE",
            help="kafka://HOST:PORT[,HOST:PORT…], pulsar://…, or a file with one system, whose brokers are started.",
            show_default=False,
        ),
    ],
    messages: Messages = None,
    partitions: Partitions = None,
    pairs: Annotated[int, typer.Option(min=0, help="Visit so many pairs of points, too, drawn at random.")] = 0,
    seed: Annotated[int, typer.Option(help="Draws the pairs: the same seed, the same pairs.")] = 1,
    at_once: Annotated[int, typer.Option("--at-once", min=1, max=64, help="Runs side by side.")] = 12,
    tls: Tls = False,
    ca: Ca = None,
    sasl: Sasl = None,
    login: Login = None,
    token: Token = None,
    admin: Admin = None,
    cert: Cert = None,
    key: Key = None,
    output: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
    out: Out = None,
    resume: Resume = None,
    replay: Replay = None,
) -> None:
    """Break every request and reply of a short conversation once, in every way, and see whether the promise holds.

        dedup explore kafka://localhost:9092
        dedup explore pulsar://localhost:6650
        dedup explore examples/explore/kafka.yaml --pairs 200

    A producer with deduplication sends 20 messages to 2 partitions, three times,
    through a proxy that understands the protocol: these conversations are calm.
    Every exchange that all three have is a point for each action: its request or
    its reply is lost with the connection; its request waits until the retry has
    succeeded, or until the end, and then arrives (unless a Pulsar has closed its
    connection by then), or its reply waits. Each point is struck once, in a run
    with a topic of its own, many side by side. The lost replies to messages are
    struck without deduplication, too: the broker must store copies.

        pass          every point was struck, the client noticed, nothing was
                      stored twice, lost or out of order; without
                      deduplication every lost reply to a message left copies
        fail          something was, and is again in 9 of 10 replays
        inconclusive  points were missed, an alarm does not come again, …

    What was not explored is listed. An alarm is shrunk to the fewest messages and
    faults that still show it. Topics dedup-explore-* are removed, also after Ctrl-C.
    """
    from dedup_lab.exploring import explorations
    from dedup_lab.exploring.grounds import Access, Shape
    from dedup_lab.targets import access_by

    access = Access(access_by(tls, ca, sasl, login, token, own=(cert, key)), admin)
    shape = Shape(messages, partitions)
    options = explorations.Options(shape, pairs, seed, at_once, out=out, resume=resume, replay=replay)
    as_json = output is Format.JSON
    raise typer.Exit(explorations.explore(target, access, options, as_json=as_json, console=console()))
