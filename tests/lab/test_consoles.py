"""What is done now: one line that changes at a terminal, and elsewhere a line now and then."""

import io

from rich.console import Console

from dedup_lab.terminal.consoles import QUIET_S, saying


def test_a_log_has_a_line_now_and_then_and_not_each_step() -> None:
    told, clock = io.StringIO(), [100.0]
    console = Console(file=told, force_terminal=False)
    with saying(console, "beginning", lambda: clock[0]) as say:
        say("1 of 3 visits")
        clock[0] += QUIET_S - 1
        say("what is not shown")
        clock[0] += 1
        say("2 of 3 visits")
        say("3 of 3 visits")
    assert told.getvalue().splitlines() == ["    0.0s  1 of 3 visits", "   20.0s  2 of 3 visits"]


def test_a_terminal_has_a_line_that_changes() -> None:
    told = io.StringIO()
    with saying(Console(file=told, force_terminal=True), "beginning") as say:
        say("1 of 3 visits")
    assert "\n    0.0s" not in told.getvalue()
    assert "1 of 3 visits" in told.getvalue()
