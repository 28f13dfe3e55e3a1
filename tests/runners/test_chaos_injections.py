"""Every kind of fault has a module that does it, and the functions that its chaos experiments name are there."""

import importlib
import json
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from dedup.experiment.endpoints import Endpoints
from dedup.faults.kinds import FaultKind
from dedup.faults.registry import KINDS, Fault
from dedup_runners.chaos.experiments import render

ENDPOINTS = Endpoints(system="kafka", client_bootstrap="127.0.0.1:9", direct_bootstrap="127.0.0.1:9", brokers=[])
SETTINGS: dict[str, dict[str, Any]] = {
    "duration": {"duration": "2s"},
    "restartAfter": {"restartAfter": "2s"},
    "by": {"by": "NetFilter"},
    "api": {"api": "Produce"},
    "frame": {"frame": "Reply"},
    "action": {"action": "Lose"},
}
"""Those that have no default, by their keys."""


def example(kind: type[FaultKind]) -> Fault:
    required = [kind.alias(name) for name, field in kind.model_fields.items() if field.is_required()]
    settings = {key: value for name in required for key, value in SETTINGS[name].items()}
    return Fault.model_validate_json(json.dumps({"name": "f", "at": {"message": 1}, kind.key: settings}))


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_experiment_calls_is_there(kind: type[FaultKind], tmp_path: Path) -> None:
    fault = example(kind)
    document = render(fault, folder=tmp_path, endpoints=ENDPOINTS, topic="t")
    assert fault.given.words in document["description"]
    for activity in (*document["method"], *document["rollbacks"]):
        provider = activity["provider"]
        called = getattr(importlib.import_module(provider["module"]), provider["func"])
        signature(called).bind(**provider["arguments"], configuration={})
