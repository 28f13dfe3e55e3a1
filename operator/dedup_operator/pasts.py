"""What stays in the status of executions that are over: `status.history`, the newest first.

An execution is noted once: with its verdict, in the same write; or without one, when another runToken has ended it. An
older operator noted none: of the execution that its status is about, what the status says is noted when the next one
replaces it, so that nothing is lost by an upgrade.
"""

from dedup_operator.statuses import MOST_EXECUTIONS, Execution, Status


def noted(status: Status, execution: str, finished_at: str, digest: str | None = None) -> Status:
    """The status with its own execution in the history, unless that is there already; the oldest make room."""
    if any(each.execution == execution for each in status.history):
        return status
    over = Execution(
        execution=execution,
        run_token=status.observed_run_token,
        verdict=status.verdict,
        started_at=status.started_at,
        finished_at=finished_at,
        artifacts=status.artifacts,
        summary_digest=digest,
    )
    return status.model_copy(update={"history": [over, *status.history][:MOST_EXECUTIONS]})


def renewed(before: Status, execution: str, token: str | None, now: str) -> Status:
    """The status with which the execution of another token begins; `execution` is the one that it replaces."""
    ends = (each.last_transition_time for each in before.conditions if each.type == "Finished" and before.verdict)
    kept = noted(before, execution, next(ends, now)).history
    return Status(observed_run_token=token, requested_at=now, history=kept, conditions=before.conditions)
