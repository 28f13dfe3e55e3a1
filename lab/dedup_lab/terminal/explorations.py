"""What people see of an exploration: a row for each API and action, the alarms, the verdict, and what was left out."""

from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dedup.experiment.points import Action
from dedup.judgement.explorations import Alarm, Exploration, Replay
from dedup_lab.terminal.reports import coloured, show_reasons

LABELS: Final = {
    Action.LOSE_REQUEST: "lose request",
    Action.LOSE_REPLY: "lose reply",
    Action.STALL_REQUEST: "stall request",
    Action.STALL_REQUEST_TO_END: "stall to end",
    Action.STALL_REPLY: "stall reply",
    Action.STALL_REQUEST_TO_NEXT: "stall to next",
    Action.STALL_REQUEST_TO_RETURN: "stall to return",
    Action.LOSE_REPLY_AND_MOVE: "lose reply, move",
}


def show(result: Exploration | Replay, console: Console) -> None:
    """Print an exploration's result, or a replay's."""
    if isinstance(result, Exploration):
        _show_exploration(result, console)
    console.print(f"\nverdict: {coloured(result.verdict)}", soft_wrap=True)
    show_reasons(result.reasons, console)
    if isinstance(result, Exploration):
        console.print(f"\nall of it is in {result.folder}", soft_wrap=True, markup=False)


def _show_exploration(result: Exploration, console: Console) -> None:
    table = Table(title=escape(result.target), title_justify="left", box=None, pad_edge=False)
    for heading in ("request", "action"):
        table.add_column(heading, no_wrap=True)
    for heading in ("points", "struck", "clean", "alarms", "unknown", "control"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in result.rows:
        counts = (row.points, row.struck, row.clean, row.alarms, row.unknown)
        table.add_row(row.api, LABELS[row.action], *(f"{each:,}" for each in counts), row.control)
    console.print(table)
    size = "" if result.transaction_size is None else f" in transactions of {result.transaction_size:,}"
    shape = (
        f"{result.messages:,} messages{size}, {result.partitions} partition(s), at most {result.in_flight:,} in flight"
    )
    speed = f"{result.visits:,} runs in {result.seconds:,.0f} s"
    console.print(f"{result.scope}; {shape}; {speed}", soft_wrap=True, markup=False)
    for each in result.unexplored:
        console.print(f"not explored: {each.exchange}: {each.why}", soft_wrap=True, markup=False)
    for alarm in result.alarms:
        _show_alarm(alarm, console)


def _show_alarm(alarm: Alarm, console: Console) -> None:
    where = " and ".join(map(str, alarm.visit.schedule)) or "no fault"
    console.print(f"\nalarm: {where}; replayed {alarm.replayed} of {alarm.replays}", soft_wrap=True, markup=False)
    if (shrunk := alarm.shrunk) is not None:
        shortest = " and ".join(map(str, shrunk.schedule)) or "no fault"
        size = "" if shrunk.transaction_size is None else f" in transactions of {shrunk.transaction_size}"
        words = f"  shortest: {shrunk.messages} message(s){size}, {shortest}; {shrunk.shown} of {shrunk.tries}"
        console.print(words, soft_wrap=True, markup=False)
    if alarm.visit.explanation:
        console.print(f"  {alarm.visit.explanation}", soft_wrap=True, markup=False)
    if alarm.visit.folder is not None:
        console.print(f"  its history: {alarm.visit.folder}", soft_wrap=True, markup=False)
