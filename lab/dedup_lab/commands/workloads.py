"""`dedup list workloads`: what a workload may have besides numbers, and what its application may do."""

import json
from typing import Annotated, Any

import typer

from dedup_lab.commands.options import Format
from dedup_lab.terminal.consoles import console


def workloads(output: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE) -> None:
    """List what a workload may have: what each part does, its settings with defaults, and the copies that it may cause.

    Without any a producer sends each message once, in one session, and eight bytes are a message.
    """
    from rich.table import Table

    rows = _rows()
    if output is Format.JSON:
        print(json.dumps(rows, indent=1))
        return
    table = Table(show_lines=True)
    for heading in ("kind", "what it does", "settings (default)", "a variant may change", "its copies are counted as"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        settings = "\n".join(f"{each['key']} ({each['default'] or 'required'})" for each in row["settings"])
        table.add_row(row["kind"], row["does"], settings, ", ".join(row["varies"]), row["cause"])
    console(stderr=False).print(table)


def _rows() -> list[dict[str, Any]]:
    """All parts, in the order of the registry."""
    from dedup.quantities import format_duration
    from dedup.workloads.registry import PARTS

    def shown(value: Any) -> str:
        return format_duration(value) if isinstance(value, float) else str(value)

    return [
        {
            "kind": part.key,
            "does": part.summary,
            "settings": [
                {
                    "key": field.alias or name,
                    "default": None if field.is_required() else shown(field.default),
                    "meaning": field.description,
                }
                for name, field in part.model_fields.items()
            ],
            "varies": [part.model_fields[name].alias or name for name in part.varies],
            "cause": part.cause,
        }
        for part in PARTS
    ]
