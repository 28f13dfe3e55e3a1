"""The command `dedup replay`: what it takes, and the help that teaches it."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dedup_lab.commands.options import Format, Secret
from dedup_lab.terminal.consoles import console


def replay(
    results: Annotated[
        Path,
        typer.Argument(
            metavar="RESULTS", help="A results folder of `dedup run`, or a run's folder.", show_default=False
        ),
    ],
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="Which of its runs, such as kafka-dedup-001.", show_default=False),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Only write the experiment that does it, to a new file.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help=r"Results folder of the replay.  \[default: results/NAME-replay-TIME]"),
    ] = None,
    secret: Secret = None,
    output: Annotated[Format, typer.Option("--format", help="What to print at the end.")] = Format.TABLE,
) -> None:
    """Repeat one recorded run: each fault begins at the message at which it began then.

        dedup replay results/mine kafka-dedup-002
        dedup replay results/mine kafka-dedup-002 --write again.yaml

    What began at a time, after another fault, or by a seed's draw, begins at
    a message: so it strikes the same on a quicker or a slower machine. One run
    is done, on the same system, with the same variant, workload and settings;
    faults that never began are left out, and named. It is judged by itself.

    At the end it shows, for each fault, at which message it began and struck
    then and now, and what was read twice, lost or misordered in both runs. The
    exit code is the new run's verdict.
    """
    from dedup_lab import logins, replays

    as_json = output is Format.JSON
    ask = partial(replays.replay, write=write, out=out, as_json=as_json, console=console())
    raise typer.Exit(ask(results, run, secrets=logins.given(secret or [])))
