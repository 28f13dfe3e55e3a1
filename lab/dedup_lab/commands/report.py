"""`dedup report`: the page of a result, and what pipelines read beside it."""

from pathlib import Path
from typing import Annotated

import typer

from dedup_lab.commands.options import Open
from dedup_lab.terminal.consoles import console


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="RESULTS", help="A results folder of `dedup run`, or a fetched one.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=r"The page.  \[default: RESULTS/report.html]", show_default=False),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write JUnit XML, too: a case a run and one a variant.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a summary in Markdown, too, for a pull request.")
    ] = None,
    open_page: Open = False,
) -> None:
    """Draw the results of an experiment: one page of HTML, which needs no network and no script.

    It is made from summary.json and the histories and judges nothing again. The exit code is the verdict's.

        dedup report results/kafka-kill-tcp-20261121-120000 --junit junit.xml --markdown summary.md
    """
    from dedup_lab import reporting
    from dedup_lab.reporting import opening
    from dedup_lab.results import Results

    code, written = reporting.write(Results(folder), page=out, junit=junit, markdown=markdown)
    for each in written:
        print(each)
    if open_page:
        opening.show(written[-1], console())
    raise typer.Exit(code)
