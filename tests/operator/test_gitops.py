"""What people, kstatus, Argo CD and Flux make of each end is one table, and the health check follows it.

Argo CD runs the check in a Lua of version 5.1 that has the base and the table library, no more; so does this test.
"""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from lupa.lua51 import LuaRuntime
from tests.operator.gates import (
    DOCUMENTED,
    GENERATION,
    NOW,
    ROOT,
    STATUSES,
    TASKS,
    all_statuses,
    at,
    ended,
    resource,
    table,
)

from dedup_operator import conditions
from dedup_operator.comparison_statuses import ClusterStatus, ComparisonStatus, Outcome, Step
from dedup_operator.comparisons import reports
from dedup_operator.comparisons.decisions import Plan
from dedup_operator.conditions import noted, stalled
from dedup_operator.schema import comparison_crd
from dedup_operator.schema.crd import GROUP, KIND, VERSION
from dedup_operator.statuses import Judgement, Status

GITOPS: Final = ROOT / "gitops"
LIBRARIES: Final = frozenset({"table"})
BASE: Final = frozenset(
    {"assert", "error", "getmetatable", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget", "rawset", "select"}
    | {"setmetatable", "tonumber", "tostring", "type", "unpack", "xpcall", "_G", "_VERSION"}
)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


SCRIPT: Final = str(load(GITOPS / "argocd-cm.yaml")["data"][f"resource.customizations.health.{GROUP}_{KIND}"])
COMPARISON_SCRIPT: Final = str(
    load(GITOPS / "argocd-cm.yaml")["data"][f"resource.customizations.health.{GROUP}_{comparison_crd.KIND}"]
)


def health(made: dict[str, Any], script: str = SCRIPT) -> tuple[str, str]:
    """The status and message that the health check returns for a resource."""
    lua = LuaRuntime(register_eval=False, register_builtins=False)
    lua.execute("getmetatable('').__index = nil")
    known = lua.globals()
    for name in [name for name in known if name not in BASE | LIBRARIES]:
        known[name] = None
    known.obj = lua.table_from(made, recursive=True)
    hs = lua.execute(script)
    return hs.status, hs.message


def test_the_page_has_a_row_for_each_end_and_no_other() -> None:
    assert DOCUMENTED.keys() == STATUSES.keys()


def test_the_page_says_what_the_module_says() -> None:
    told = table(conditions.__doc__ or "")
    assert len(told) >= 7
    assert {name: {key: DOCUMENTED[name][key] for key in row} for name, row in told.items()} == told


@pytest.mark.parametrize("name", STATUSES)
def test_the_conditions_are_as_documented(name: str) -> None:
    row = DOCUMENTED[name]
    said = {each.type: each for each in STATUSES[name].conditions}
    for kind in ("Ready", "Reconciling", "Stalled", "Finished", "Succeeded"):
        truth, _, reason = row[kind].partition(", ")
        assert said[kind].status == truth, kind
        assert not reason or said[kind].reason == reason, kind


def test_the_page_on_troubleshooting_has_every_reason() -> None:
    """One row for each that a condition may have, and no row for any other."""
    written = {each.reason for status in all_statuses() for each in status.conditions}
    page = (ROOT / "docs" / "install.md").read_text()
    rows = page.partition("| reason | means |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)) == written


@pytest.mark.parametrize("name", STATUSES)
def test_argo_cd_is_told_as_documented(name: str) -> None:
    assert health(resource(STATUSES[name]))[0] == DOCUMENTED[name]["Argo CD"]


@pytest.mark.parametrize("name", STATUSES)
def test_a_status_of_an_older_generation_is_progress(name: str) -> None:
    told, message = health(resource(STATUSES[name], GENERATION + 1))
    assert (told, message) == ("Progressing", "the operator has not looked at the last edit yet")


@pytest.mark.parametrize("status", [None, Status(), Status(observed_generation=GENERATION)])
def test_what_nobody_has_looked_at_is_progress(status: Status | None) -> None:
    assert health(resource(status))[0] == "Progressing"


def test_a_status_without_conditions_is_progress() -> None:
    assert health({**resource(None), "status": {"observedGeneration": GENERATION}})[0] == "Progressing"


def test_every_step_on_the_way_is_progress() -> None:
    assert {health(resource(at(cursor)))[0] for cursor in (None, *range(len(TASKS)))} == {"Progressing"}


def test_who_waits_in_the_queue_makes_progress() -> None:
    waits = at(None, queued="1st in the queue; 4 may run at a time")
    assert health(resource(waits)) == ("Progressing", "Queued: 1st in the queue; 4 may run at a time")


@pytest.mark.parametrize("verdict", [each for each in Judgement if each is not Judgement.PASS])
def test_an_edit_mends_no_verdict(verdict: Judgement) -> None:
    assert health(resource(noted(ended(verdict), GENERATION, True, NOW)))[0] == "Degraded"


def test_an_edit_that_changes_nothing_leaves_a_pass_healthy() -> None:
    assert health(resource(noted(ended(Judgement.PASS), GENERATION, False, NOW)))[0] == "Healthy"


def test_an_edited_experiment_goes_on() -> None:
    assert health(resource(at(0, changed=True)))[0] == "Progressing"


def test_the_order_of_conditions_does_not_matter() -> None:
    for name, status in STATUSES.items():
        turned = status.model_copy(update={"conditions": status.conditions[::-1]})
        assert health(resource(turned)) == health(resource(status)), name


def test_the_message_is_the_condition_s() -> None:
    said = stalled(at(0), GENERATION, "the Secret is not there", NOW)
    assert health(resource(said)) == ("Degraded", "Stalled: the Secret is not there")
    assert health(resource(at(0)))[1].startswith("Provisioning: ")


def test_a_condition_without_words_is_no_error() -> None:
    made = resource(STATUSES["Pass"])
    for condition in made["status"]["conditions"]:
        del condition["reason"], condition["message"]
    assert health(made)[0] == "Healthy"


def test_the_interpreter_has_no_more_libraries_than_argo_cd_s() -> None:
    names = "local names = {} for name in pairs(_G) do names[#names + 1] = name end "
    known, _ = health({}, names + "return {status = table.concat(names, ' ')}")
    assert set(known.split()) == BASE | LIBRARIES | {"obj"}
    with pytest.raises(Exception, match="attempt to index a string"):
        health({}, "return {status = ('x'):upper()}")


def test_the_files_name_our_resource() -> None:
    flux = load(GITOPS / "flux-kustomization.yaml")["spec"]
    kinds = [(each["apiVersion"], each["kind"]) for each in flux["healthCheckExprs"]]
    assert kinds == [(f"{GROUP}/{VERSION}", kind) for kind in (KIND, comparison_crd.KIND)]
    assert flux["wait"] is True
    assert load(GITOPS / "argocd-cm.yaml")["metadata"]["name"] == "argocd-cm"


COMPARISONS: Final = {
    "none yet": (Plan(), ("Progressing", "Comparing")),
    "refused": (Plan(clusters=(ClusterStatus(name="a", step=Step.REFUSED, message="m"),)), ("Degraded", "Stalled")),
    "NothingWorse": (Plan(outcome=Outcome.NOTHING_WORSE), ("Healthy", "NothingWorse")),
    "Worse": (Plan(outcome=Outcome.WORSE), ("Degraded", "Worse")),
    "Inconclusive": (Plan(outcome=Outcome.INCONCLUSIVE), ("Degraded", "Inconclusive")),
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_the_health_of_a_comparison_follows_the_same_conditions(name: str) -> None:
    plan, expected = COMPARISONS[name]
    before = ComparisonStatus()
    status = reports.status_of(plan, before, generation=GENERATION, digest="0" * 64, table="t", kept={}, now=NOW)
    made = {"metadata": {"generation": GENERATION}}
    made["status"] = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    found, message = health(made, COMPARISON_SCRIPT)
    assert (found, message.split(":")[0]) == expected
    truths = {each.type: each.status for each in status.conditions}
    cells = table(str(reports.__doc__))["none, and people have to correct something" if name == "refused" else name]
    assert {kind: cell.split(",")[0] for kind, cell in cells.items()} == truths


def test_a_stalled_comparison_is_degraded_until_people_have_corrected_it() -> None:
    status = reports.stalled(ComparisonStatus(), GENERATION, "spec: got another one", NOW)
    truths = {each.type: each.status for each in status.conditions}
    assert truths["Stalled"] == "True" and truths["Finished"] == "False"
    made = {"metadata": {"generation": GENERATION}, "status": status.model_dump(mode="json", by_alias=True)}
    assert health(made, COMPARISON_SCRIPT)[0] == "Degraded"
