"""`dedup list scenarios`: the examples, what each shows, and what to expect of it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from dedup_lab.commands.options import Listing
from dedup_lab.terminal.consoles import console


def scenarios(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FOLDER]",
            help=r"Where experiment files are.  \[default: the examples of this repository]",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Listing, typer.Option("--format", help="What to print.")] = Listing.TABLE,
) -> None:
    """List the scenarios: the examples by file, the seed documents that they come from, and what to expect of them."""
    from dedup_lab import scenarios as found
    from dedup_lab.terminal import listings

    rows = found.scenarios(folder or found.here())
    if output is Listing.JSON:
        print(json.dumps([row.model_dump() for row in rows], indent=1))
    elif output is Listing.MARKDOWN:
        print(found.markdown(rows))
    else:
        listings.show_scenarios(rows, console(stderr=False))
