"""A control of Chaos Toolkit: when to begin, and what the system showed before and after each action.

    "controls": [{"name": "stamps", "provider": {"type": "python", "module": "chaosdedup.stamps", "arguments": {
      "protocol": "kafka", "bootstrap": "…", "topic": "…", "at_messages": 1000, "within_s": 60}}}]

Before the method it waits until the topic has that many messages more than when the experiment began: a fault that
strikes when nobody sends tests nothing. If they do not come in time, the experiment is interrupted, and no action runs.
Each action's entry in the journal then has `dedup`: who led, and how far the topic reached, just before and just after.

Further arguments: `partition`, Pulsar's `admin_url`, and `login`, the name of the group in the experiment's `secrets`.
"""

import time
from contextlib import AbstractContextManager
from typing import Any, Final

from chaoslib.exceptions import ActivityFailed, InterruptExecution

from chaosdedup import systems
from chaosdedup.systems import Secrets
from dedup_runners.admins import Admin
from dedup_runners.waiting import WaitedTooLong, until

LOOK_EVERY_S: Final = 0.1
STAMPS: Final = "dedup"
_before: dict[str, dict[str, Any]] = {}
"""What was seen before each action that runs now, by its name: a control's functions have no object to hold it."""


def before_method_control(
    context: Any, topic: str, at_messages: int = 0, within_s: float = 60.0, secrets: Secrets = None, **system: Any
) -> None:
    """Wait until that many messages have come since now; InterruptExecution if they do not, within the time."""
    if not at_messages:
        return
    try:
        with _asked(system, secrets) as admin:
            first = systems.stored(admin, topic)
            what = f"{at_messages} messages on {topic}"
            until(lambda: systems.stored(admin, topic) >= first + at_messages, within_s, what, LOOK_EVERY_S)
    except (ActivityFailed, WaitedTooLong) as error:
        raise InterruptExecution(f"no action began: {error}") from None


def before_activity_control(context: Any, topic: str, secrets: Secrets = None, **system: Any) -> None:
    """Look at the system before an action."""
    if context.get("type") == "action":
        _before[context["name"]] = _seen(topic, system, secrets)


def after_activity_control(context: Any, state: Any, topic: str, secrets: Secrets = None, **system: Any) -> None:
    """Look again, and put both into the action's entry of the journal."""
    before = _before.pop(context.get("name", ""), None) if context.get("type") == "action" else None
    if before is not None and isinstance(state, dict):
        state[STAMPS] = {"before": before, "after": _seen(topic, system, secrets)}


def _asked(system: dict[str, Any], secrets: Secrets) -> AbstractContextManager[Admin]:
    login = (secrets or {}).get(system.get("login", ""))
    return systems.asked(system.get("protocol", ""), system.get("bootstrap", ""), system.get("admin_url", ""), login)


def _seen(topic: str, system: dict[str, Any], secrets: Secrets) -> dict[str, Any]:
    """Who leads, and how far the topic reaches; if it cannot be asked, the words that say why."""
    seen: dict[str, Any] = {"monotonic_ns": time.monotonic_ns()}
    try:
        with _asked(system, secrets) as admin:
            leader = admin.leader(topic, int(system.get("partition", 0)))
            return seen | {"leader": leader, "stored": systems.stored(admin, topic)}
    except ActivityFailed as error:
        return seen | {"error": str(error)}
