"""Statuses that somebody else wrote. No role of ours lets people do that; an administrator may, and so may a thief.

Who writes a status decides what it says, the verdict too: that is what the right is worth, and why nobody gets it. But
a status is not what the operator believes of names and namespaces. From the worst of them it makes nothing but what
the experiment itself asks for, and harms nobody else.
"""

from typing import Any, Final

DIGEST: Final = "0" * 64
WHEN: Final = "2026-11-21T12:00:00Z"


def state(**more: Any) -> dict[str, Any]:
    return {"state": {"digest": DIGEST, **more}}


FORGED: Final[dict[str, dict[str, Any]]] = {
    "a verdict out of nothing": {"verdict": "Pass", "phase": "Finished", "progress": "9/9 runs"},
    "a verdict, and that all was done": {"verdict": "Pass", "phase": "Finished", **state(cursor=99)},
    "that all was done": state(cursor=99),
    "that more was done than there is": state(cursor=2**53),
    "that only the report is left": state(cursor=20, intended=True),
    "a run that nobody began": state(cursor=2, intended=True, attempt=2**53, sinceUnixS=0.0),
    "a start in the far future": state(cursor=1, intended=True, sinceUnixS=2**53),
    "a system that is brought back for a report": state(cursor=21, provisioning=True),
    "a system that is brought back before any": state(cursor=0, provisioning=True),
    "restarts without an end": state(cursor=1, restarts=2**53),
    "failures without an end": state(
        cursor=1, failures=2**53, failedInARow=2**53, lastFailure="x\n\u001b[2J\u202e" * 40
    ),
    "the token of another": {"observedRunToken": "../others", **state(cursor=3)},
    "a token that is a variable": {"observedRunToken": "$(TOKEN)", **state(cursor=3)},
    "another's systems": {"systems": [{"name": "theirs", "variants": [{"name": "v", "runs": 1, "finishedRuns": 1}]}]},
    "conditions of somebody else": {
        "conditions": [
            {"type": f"Theirs{n}", "status": "True", "reason": "R", "message": "{{ x }}", "lastTransitionTime": WHEN}
            for n in range(16)
        ]
    },
    "a generation that is not yet": {"observedGeneration": 2**53},
}
