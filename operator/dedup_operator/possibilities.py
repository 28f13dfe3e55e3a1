"""Whether a recorded state is one that an operator can have written."""

from typing import Final

from dedup.errors import PlatformError
from dedup.experiment.stages import State, Task, finished

MOST: Final = 10**9
"""Attempts and failures: nobody comes so far."""


def check_possible(tasks: tuple[Task, ...], state: State) -> None:
    """PlatformError if no operator can have written this state: only a run has a system that is brought back."""
    most = max(state.attempt, state.restarts, state.replaced, state.failures, state.failed_in_a_row)
    aside = state.provisioning and not finished(tasks, state) and tasks[state.cursor].run_id is None
    if most > MOST or aside:
        raise PlatformError(
            where="status.state",
            got=f"a number of {most}" if most > MOST else f"{tasks[state.cursor]} while its system is brought back",
            rule="only the operator writes a status, and it never comes to that",
            todo="find out who wrote it; choose another spec.runToken, or delete the experiment",
        )
