"""The tables that a person sees: a pass of calm runs is told from one under failure."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.core.evidences import all_evidence, experiment

from dedup.experiment.plans import plan
from dedup.judgement.conclusions import conclude
from dedup.judgement.summaries import Summary, summarise
from dedup_lab import experiments
from dedup_lab.experiments import plan_document, show_plan
from dedup_lab.terminal.reports import show_summary


def shown(summary: Summary) -> str:
    said = io.StringIO()
    show_summary(summary, Console(file=said, width=100))
    return said.getvalue()


def test_a_pass_without_any_fault_is_called_calm_in_every_table() -> None:
    made = experiment(faults=[], variants=[{"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}])
    found = [
        each.model_copy(update={"manifest": each.manifest.model_copy(update={"faults": ()}), "vacuous": {}})
        for each in all_evidence(made)
        if each.manifest is not None
    ]
    said = shown(summarise(made, conclude(made, found), found))
    assert said.count("pass, calm") == 1 + len(plan(made))
    assert "no fault was injected: calm runs say nothing about failures" in said


def test_a_pass_with_a_fault_is_not() -> None:
    made = experiment()
    found = all_evidence(made)
    said = shown(summarise(made, conclude(made, found), found))
    assert "pass" in said and "calm" not in said


def planned(**spec: Any) -> str:
    said = io.StringIO()
    show_plan(experiment(**spec), Console(file=said, width=100))
    return said.getvalue()


def test_a_plan_that_cannot_pass_says_so_and_its_twin_does_not() -> None:
    said = planned(runs=2, confidencePercent=95)
    assert "warning the verdict cannot be pass: 2 runs of each variant are too few for 95 % confidence" in said
    assert "warning" not in planned(runs=3, confidencePercent=95)
    assert plan_document(experiment(runs=2, confidencePercent=95))["cannot_pass"].startswith("2 runs of each variant")
    assert plan_document(experiment(runs=3, confidencePercent=95))["cannot_pass"] is None


@pytest.mark.parametrize(("runs", "warned"), [(2, True), (3, False)])
def test_a_run_says_it_before_anything_is_started(runs: int, warned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Starting(Exception):
        pass

    def start() -> None:
        raise Starting

    monkeypatch.setattr(experiments, "check", lambda *given: None)
    monkeypatch.setattr("dedup_lab.java.find", start)
    said = io.StringIO()
    console = Console(file=said, width=100)
    with pytest.raises(Starting):
        experiments.run(
            experiment(runs=runs, confidencePercent=95), out=None, resume=False, console=console, command="dedup run"
        )
    assert ("warning the verdict cannot be pass" in said.getvalue()) is warned


@pytest.mark.parametrize(("name", "written"), [("out", "{}"), ("my results", "'{}'")])
def test_what_finishes_an_interrupted_run_can_be_pasted(
    name: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    for function in ("check", "judges_locally"):
        monkeypatch.setattr(experiments, function, lambda *_: True)
    monkeypatch.setattr(experiments, "needs_java", lambda _: False)
    monkeypatch.setattr(experiments, "drive", interrupt)
    said, out = io.StringIO(), tmp_path / name
    with pytest.raises(KeyboardInterrupt):
        experiments.run(
            experiment(), out=out, resume=False, console=Console(file=said, width=100), command="dedup run e.yaml"
        )
    assert f"to finish it: dedup run e.yaml --resume --out {written.format(out)}\n" in said.getvalue()
