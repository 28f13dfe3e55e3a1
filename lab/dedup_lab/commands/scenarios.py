"""`dedup list scenarios`: the examples, what each shows, and what to expect of it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dedup_lab.commands.options import Listing
from dedup_lab.terminal.consoles import console

if TYPE_CHECKING:
    from dedup_lab.scenarios import Scenario


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
    from dedup_lab import scenarios as examples
    from dedup_lab.terminal import listings

    root = folder or examples.here()
    found = examples.found(root)
    if output is Listing.TABLE:
        listings.show_scenarios(found, root, console(stderr=False))
        return
    rows = [_row(each, root) for each in found]
    if output is Listing.JSON:
        print(json.dumps(rows, indent=1))
    else:
        lines = [list(rows[0]), ["---"] * len(rows[0]), *(map(_cell, row.values()) for row in rows)]
        print("\n".join(f"| {' | '.join(line)} |" for line in lines))


def _row(each: "Scenario", root: Path) -> dict[str, Any]:
    return {
        "file": str(each.path.relative_to(root)),
        "seeds": each.seeds,
        "systems": each.systems,
        "faults": each.faults,
        "shows": each.shows,
        "expect": each.outcome,
        "issue": each.bug.issue if each.bug else None,
    }


def _cell(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, tuple) else str(value or "-")
    return text.replace("|", "\\|")
