"""A shrunk schedule as an experiment file, that `dedup run` takes and a person can read: for other clients, too.

A point becomes a fault of kind `message`. Only some can: one point, at a request that is found by its number alone (a
batch is of a partition that the run's seed chooses), and a stall that ends as those of an experiment can.
"""

import textwrap
from typing import Any, Final

import yaml

from dedup.experiment.clients import CLIENTS, Library
from dedup.experiment.dialects import ends_transaction
from dedup.experiment.points import Action, Point
from dedup.faults.message import Action as Deed
from dedup.faults.message import Api, Side, Until
from dedup.judgement.explorations import Shrunk
from dedup_lab.exploring.strikes import STALLED_S
from dedup_lab.exploring.visits import Ground

BY_NUMBER: Final = (Api.INIT_PRODUCER_ID, Api.END_TXN)
DEEDS: Final[dict[Action, tuple[Side, Deed, Until | None]]] = {
    Action.LOSE_REQUEST: (Side.REQUEST, Deed.LOSE, None),
    Action.LOSE_REPLY: (Side.REPLY, Deed.LOSE, None),
    Action.STALL_REQUEST: (Side.REQUEST, Deed.STALL, Until.RETRY),
    Action.STALL_REPLY: (Side.REPLY, Deed.STALL, Until.RETRY),
    Action.STALL_REQUEST_TO_NEXT: (Side.REQUEST, Deed.STALL, Until.NEXT_PRODUCE),
}
WIDTH: Final = 118


def text_of(ground: Ground, shrunk: Shrunk, explanation: str) -> str:
    """The experiment file of a shrunk schedule, with the explanation on top; empty if no experiment can say it."""
    fault = fault_of(shrunk)
    if fault is None:
        return ""
    here = ground.smaller(shrunk.messages, shrunk.transaction_size).experiment
    document: dict[str, Any] = here.model_dump(mode="json", by_alias=True, exclude_none=True)
    spec = document["spec"]
    document["metadata"] = {"name": "witness"}
    document["spec"] = {
        "systems": [_allowed(each, here.spec.systems[0].library) for each in spec["systems"]],
        "workload": spec["workload"],
        "faults": [fault],
        "variants": [each for each in spec["variants"] if each["name"] == ground.treatment.name],
        "runs": shrunk.tries,
        "verification": {"engine": "Local"},
    }
    (point,) = shrunk.schedule
    told = f"{point}. Anomalies ({', '.join(shrunk.anomalies)}) in {shrunk.shown} of {shrunk.tries} runs."
    told += f" The alarm that this was shrunk from: {explanation}"
    head = "\n".join(f"# {line}" for line in textwrap.wrap(told, WIDTH))
    return f"{head}\n{yaml.safe_dump(document, sort_keys=False)}"


def _allowed(system: dict[str, Any], library: Library) -> dict[str, Any]:
    """The system with those of its client's settings that an experiment may give."""
    client = system["client"]
    given = client.get("properties", {})
    properties = {name: value for name, value in given.items() if name in CLIENTS[library].allowed}
    return system | {"client": client | {"properties": properties}}


def fault_of(shrunk: Shrunk) -> dict[str, Any] | None:
    """The fault of an experiment that does what the schedule does; None if there is none."""
    if len(shrunk.schedule) != 1:
        return None
    (point,) = shrunk.schedule
    deed = DEEDS.get(point.action)
    if deed is None or point.exchange.api not in BY_NUMBER or not _ends(point):
        return None
    side, action, until = deed
    message: dict[str, Any] = {"api": point.exchange.api, "frame": side.value, "action": action.value}
    if point.exchange.number > 1:
        message["nth"] = point.exchange.number
    if until is not None:
        message |= {"until": until.value, "deadline": f"{STALLED_S:g}s"}
    return {"name": "struck", "at": {"message": 1}, "message": message}


def _ends(point: Point) -> bool:
    """Whether NextProduce is what ends the stall: of a request that ends a transaction."""
    return point.action is not Action.STALL_REQUEST_TO_NEXT or ends_transaction(point.exchange.api)
