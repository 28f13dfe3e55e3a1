"""The report of verified runs: what speaks is told, and what is missing is never a pass.

The smallest experiment that can pass: two runs each of a control that duplicates and of a treatment that does not. What
Spark would say of them the local engine says here, which is the same method.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import TypeAdapter
from tests.builders import History, write_history
from tests.core.evidences import experiment
from tests.lab.pages import Page
from tests.runners import minio

from dedup.errors import PlatformError
from dedup.experiment.plans import Run, deduplicates, plan
from dedup.experiment.spec import Experiment
from dedup.history.histories import MANIFEST, VERIFICATION, run_folders
from dedup.history.stores import Place, place
from dedup.judgement.abridgements import Sealed, abridged, opened
from dedup.judgement.anomalies import Engine
from dedup.judgement.summaries import RunRow, Summary
from dedup.judgement.verdicts import Code, Reason, Verdict
from dedup.wire.manifests import Deduplication
from dedup_operator import sights
from dedup_operator.statuses import Judgement, Sums, SystemStatus
from dedup_report import beside, pages
from dedup_spark import evidence, homes, local, local_job, report
from dedup_spark.evidence import Report

MESSAGES: Final = 6
EXPERIMENT: Final = experiment(workload={"messages": MESSAGES}, faults=[])
SENT: Final = [(0, value) for value in range(1, MESSAGES + 1)]
ACKNOWLEDGED: Final = [(0, value, 0, 0, 0, value - 1, 0) for value in range(1, MESSAGES + 1)]


def reading(*values: int) -> History:
    """All was sent and acknowledged, and this was read."""
    return History(SENT, ACKNOWLEDGED, [(entry, 0, 0, entry, 0, 0, value) for entry, value in enumerate(values)])


CLEAN: Final = reading(*range(1, MESSAGES + 1))
DUPLICATED: Final = reading(*range(1, MESSAGES + 1), 5, 6)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The place of the experiment, all of its runs done and verified."""
    made = tmp_path / "root"
    for run in plan(EXPERIMENT):
        record(made, run, DUPLICATED if run.variant == "control" else CLEAN)
    verify(made)
    return made


def record(root: Path, run: Run, history: History, attempt: int = 1, digest: str = EXPERIMENT.digest()) -> Path:
    on = next(deduplicates(each) for each in EXPERIMENT.spec.variants if each.name == run.variant)
    folder = root / "runs" / run.run_id / f"attempt-{attempt}"
    write_history(
        folder,
        history,
        attempt=attempt,
        experiment=EXPERIMENT.name,
        spec_digest=digest,
        run_id=run.run_id,
        system=run.system,
        variant=run.variant,
        run=run.number,
        seed=run.seed,
        deduplication=Deduplication(asked=on, in_force=on, proof="made by hand"),
    )
    return folder


def verify(root: Place) -> None:
    """What `dedup_spark.job --keep ROOT` leaves."""
    folders = run_folders(root)
    said = local.verify(folders)
    evidence.keep(Report(engine=Engine.SPARK, runs=said.runs, problems=said.problems), folders)


def first(root: Path, variant: str) -> Path:
    return root / "runs" / f"kafka-{variant}-001" / "attempt-1"


def change_verification(folder: Path, **changes: Any) -> None:
    said = json.loads((folder / VERIFICATION).read_text())
    (folder / VERIFICATION).write_text(json.dumps(said | changes))


def test_runs_that_were_verified_by_both_judges_pass(root: Path) -> None:
    told = report.report(EXPERIMENT, root)
    assert (told["verdict"], told["exitCode"], told["experiment"]) == ("Pass", 0, "trial")
    assert told["specDigest"] == EXPERIMENT.digest()
    assert json.loads((root / "summary.json").read_text())["verdict"] == "pass"
    assert len((root / "trial_dedup_output.txt").read_text().splitlines()) == 5
    assert (root / "trial_order_output.txt").read_text().count("DUPLICATE BLOCK - JUMP BACKWARDS") == 2


LOCALLY: Final = experiment(workload={"messages": MESSAGES}, faults=[], verification={"engine": "Local"})


def verified_locally(root: Path) -> Path:
    """The same runs as `root` has them, of the experiment that asks for the local engine, and verified by it."""
    for run in plan(LOCALLY):
        history = DUPLICATED if run.variant == "control" else CLEAN
        record(root, run, history, digest=LOCALLY.digest())
    assert local_job.main(["--output", str(root / "all.json"), "--keep", "--findings", str(root / "f"), str(root)]) == 0
    return root


def test_runs_that_were_verified_by_the_local_engine_and_the_oracle_pass_if_that_was_asked(tmp_path: Path) -> None:
    root = verified_locally(tmp_path / "local")
    told = report.report(LOCALLY, root)
    assert told["verdict"] == "Pass"
    summary = Summary.model_validate_json((root / "summary.json").read_text())
    assert {row.judges for row in summary.runs} == {(Engine.LOCAL, Engine.ORACLE)}
    again = report.report(LOCALLY, root)
    assert again == told, "answers are kept"


def test_answers_on_another_run_are_no_answers(root: Path) -> None:
    """All numbers in them are those of this run's manifest, too; but here a message was lost, and one stored twice."""
    report.report(EXPERIMENT, root)
    folder, other = (root / "runs" / f"kafka-dedup-{number}" / "attempt-1" for number in ("001", "002"))
    shutil.rmtree(folder)
    record(root, next(run for run in plan(EXPERIMENT) if run.run_id == "kafka-dedup-001"), reading(1, 2, 3, 4, 5, 5))
    shutil.copy(other / VERIFICATION, folder)
    assert "Spark did not verify this history; it has to judge every history" in unverified(EXPERIMENT, root)


def test_answers_on_a_run_that_was_moved_are_answers(root: Path, tmp_path: Path) -> None:
    report.report(EXPERIMENT, root)
    moved = root.rename(tmp_path / "moved")
    assert report.report(EXPERIMENT, moved)["verdict"] == "Pass"


def test_another_engine_than_the_one_that_was_asked_does_not_count(root: Path, tmp_path: Path) -> None:
    """Neither way, however sound its answer is."""
    local_root = verified_locally(tmp_path / "local")
    for run in plan(LOCALLY):
        folder = local_root / "runs" / run.run_id / "attempt-1"
        said = json.loads((folder / VERIFICATION).read_text())
        change_verification(folder, local=None, spark={**said["local"], "engine": "spark"})
    silent = "did not verify this history; it has to judge every history"
    assert unverified(LOCALLY, local_root) == {f"the local engine {silent}"}
    for run in plan(EXPERIMENT):
        folder = root / "runs" / run.run_id / "attempt-1"
        said = json.loads((folder / VERIFICATION).read_text())
        change_verification(folder, spark=None, local={**said["spark"], "engine": "local"})
    assert unverified(EXPERIMENT, root) == {f"Spark {silent}"}


def unverified(experiment: Experiment, root: Path) -> set[str]:
    """Why, in the words of its runs; the verdict is error."""
    assert report.report(experiment, root)["verdict"] == "Error"
    summary = Summary.model_validate_json((root / "summary.json").read_text())
    return {each.text for run in summary.runs for each in run.reasons}


def test_the_bulletin_is_in_the_words_of_the_resources_status(root: Path) -> None:
    told = report.report(EXPERIMENT, root)
    (kafka,) = TypeAdapter(list[SystemStatus]).validate_json(json.dumps(told["systems"]))
    control, treatment = kafka.variants
    assert (control.name, control.runs, control.finished_runs, control.effective_runs) == ("control", 2, 2, 2)
    assert (control.runs_with_copies, treatment.runs_with_copies) == (2, 0)
    assert control.counts and control.counts.values_with_duplicates == 4
    assert treatment.verdict is Judgement(told["verdict"]) is Judgement.PASS
    assert set(report.COUNTED) == set(Sums.model_fields)
    assert told["uri"] == str(root / "summary.json")
    heard, _ = sights.told(json.dumps(told), EXPERIMENT.digest())
    assert heard is not None
    assert (heard.verdict, heard.spec_digest, heard.systems) == (Judgement.PASS, EXPERIMENT.digest(), [kafka])
    assert heard.message.endswith(f"see {root / 'summary.json'}")
    assert heard.sealed is not None
    compared = opened(Sealed(packed=heard.sealed.packed, digest=heard.sealed.digest), "e")
    whole = Summary.model_validate_json((root / "summary.json").read_bytes())
    assert compared == abridged(whole)


def fault_told(told: dict[str, Any]) -> dict[str, Any]:
    """As the operator hears it, which is all of it."""
    heard, _ = sights.told(json.dumps(told), told["specDigest"])
    assert heard is not None and heard.faults is not None
    assert heard.faults.model_dump(by_alias=True) == told["faults"]
    return dict(told["faults"])


def test_no_planned_fault_is_no_missed_fault(root: Path) -> None:
    assert fault_told(report.report(EXPERIMENT, root)) == {"planned": 0, "runs": 4, "struck": 4, "missed": ""}


def summary(*runs: tuple[str, bool, Code | None]) -> Summary:
    """Runs, whether each is void, and what speaks against it."""
    return Summary(
        experiment="e",
        spec_digest="0" * 64,
        verdict=Verdict.PASS,
        exit_code=0,
        reasons=(),
        versions={},
        systems=(),
        runs=tuple(
            RunRow(
                run_id=name,
                attempt=1,
                system="kafka",
                variant="dedup",
                run=1,
                verdict=Verdict.PASS,
                reasons=(Reason(verdict=Verdict.ERROR, code=code, text="said\nso " * 200),) if code else (),
                effective=True,
                void=void,
                counts=None,
            )
            for name, void, code in runs
        ),
    )


@pytest.mark.parametrize(
    ("runs", "struck", "first"),
    [
        ([("a", False, None), ("b", False, Code.HEAL_UNPROVEN)], 2, ""),
        ([("a", False, None), ("b", False, Code.FAULT_VACUOUS)], 1, "b: said so"),
        ([("a", False, Code.FAULT_MISSING), ("b", False, Code.FAULT_BROKEN)], 0, "a: said so"),
        ([("a", False, None), ("b", False, None), ("c", True, Code.FAULT_MISSING)], 2, ""),
    ],
)
def test_a_fault_that_missed_in_a_run_that_counts_is_told(
    runs: list[tuple[str, bool, Code | None]], struck: int, first: str, tmp_path: Path
) -> None:
    (tmp_path / "summary.json").write_text("{}")
    told = fault_told(report.bulletin(summary(*runs), set(), tmp_path, 1))
    assert (told["planned"], told["runs"], told["struck"]) == (1, 2, struck)
    assert told["missed"].startswith(first) and bool(told["missed"]) == bool(first)
    assert len(told["missed"]) <= report.LONGEST_REASON and "\n" not in told["missed"]


def test_a_run_that_spark_did_not_verify_is_an_error(root: Path) -> None:
    (first(root, "dedup") / VERIFICATION).unlink()
    told = report.report(EXPERIMENT, root)
    assert (told["verdict"], told["exitCode"]) == ("Error", 4)
    assert "kafka-dedup-001: Spark did not verify this history" in told["reasons"][0]
    verify(root)
    assert report.report(EXPERIMENT, root)["verdict"] == "Pass"


def test_a_verification_that_cannot_be_read_was_not_made(root: Path) -> None:
    (first(root, "dedup") / VERIFICATION).write_text("{")
    assert report.report(EXPERIMENT, root)["verdict"] == "Error"


def test_a_history_that_spark_could_not_judge_is_an_error(root: Path) -> None:
    change_verification(first(root, "dedup"), spark=None, problem="sent/00000.parquet: its bytes changed")
    told = report.report(EXPERIMENT, root)
    assert told["verdict"] == "Error"
    assert "its bytes changed" in told["reasons"][0]


def test_judges_who_disagree_are_an_error(root: Path) -> None:
    said = json.loads((first(root, "dedup") / VERIFICATION).read_text())["spark"]
    change_verification(first(root, "dedup"), spark=said | {"counts": said["counts"] | {"jump_forward": 1}})
    told = report.report(EXPERIMENT, root)
    assert told["verdict"] == "Error"
    assert "Spark and the oracle disagree" in told["reasons"][0]


def test_a_duplicate_in_the_treatment_is_a_fail_and_there_is_a_report_of_it(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = first(root, "dedup")
    folder.rename(tmp_path / "replaced")
    record(root, next(run for run in plan(EXPERIMENT) if run.run_id == "kafka-dedup-001"), DUPLICATED)
    verify(root)
    assert report.main(command(tmp_path, root)) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["verdict"], told["exitCode"]) == ("Fail", 1)
    assert told["systems"][0]["variants"][1]["counts"]["valuesWithDuplicates"] == 2


def test_a_run_without_a_history_is_an_error_that_says_why(root: Path) -> None:
    folder = first(root, "dedup")
    (folder / MANIFEST).unlink()
    (folder / "failure.json").write_text(json.dumps({"stage": "Produce", "reason": "the producer died"}))
    told = report.report(EXPERIMENT, root)
    assert told["verdict"] == "Error"
    assert "kafka-dedup-001 has no history: the producer died" in told["reasons"][0]
    assert told["systems"][0]["variants"][1]["finishedRuns"] == 1


def test_a_run_that_was_interrupted_and_done_again_is_told_of_beside_a_pass(root: Path) -> None:
    folder = first(root, "dedup")
    folder.rename(folder.with_name("attempt-2"))
    manifest = json.loads((folder.with_name("attempt-2") / MANIFEST).read_text())
    (folder.with_name("attempt-2") / MANIFEST).write_text(json.dumps(manifest | {"attempt": 2}))
    folder.mkdir()
    (folder / "claim.json").write_text("{}")
    verify(root)
    told = report.report(EXPERIMENT, root, {"kafka-dedup-001": "ended by a suspension"})
    assert told["verdict"] == "Pass"
    assert told["reasons"][-1] == (
        "attempts that are not their runs' results: 1 (repetitions), such as "
        "kafka-dedup-001: attempt 1 was interrupted from outside: ended by a suspension"
    )
    (folder / "failure.json").write_text(json.dumps({"stage": "Settle", "reason": "not whole", "kind": "failed"}))
    (folder / "sent").mkdir()
    (folder / "sent" / "00000.parquet").touch()
    assert report.report(EXPERIMENT, root)["verdict"] == "Error"


def test_where_nothing_was_run_the_system_tells_why(tmp_path: Path) -> None:
    told = report.report(EXPERIMENT, tmp_path / "nothing", {"kafka": "its chart could not be installed"})
    assert told["verdict"] == "Error"
    assert "its chart could not be installed" in told["reasons"][0]
    assert report.report(EXPERIMENT, tmp_path / "silent")["verdict"] == "Error"


def test_a_run_without_anything_is_told_of_by_its_own_failure_before_its_systems(root: Path, tmp_path: Path) -> None:
    first(root, "dedup").rename(tmp_path / "lost")
    told = report.report(EXPERIMENT, root, {"kafka-dedup-001": "its pod never began", "kafka": "another one failed"})
    assert "kafka-dedup-001 has no history: its pod never began" in told["reasons"][0]
    assert not any("another one failed" in reason for reason in told["reasons"])


def test_a_second_finished_attempt_is_an_error(root: Path) -> None:
    run = next(run for run in plan(EXPERIMENT) if run.run_id == "kafka-dedup-001")
    record(root, run, CLEAN, attempt=2)
    verify(root)
    told = report.report(EXPERIMENT, root)
    assert told["verdict"] == "Error"
    assert "attempts 1, 2 are all finished" in told["reasons"][0]


def test_a_report_made_again_says_the_same_and_does_not_ask_the_oracle_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = report.report(EXPERIMENT, root)
    monkeypatch.setattr(report, "second_opinion", None)
    assert report.report(EXPERIMENT, root) == told


def test_above_its_limit_the_oracle_is_not_asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dedup_spark.opinions.ORACLE_LIMIT", MESSAGES - 1)
    told = report.report(EXPERIMENT, root)
    assert told["verdict"] == "Error"  # dedup.judgement.verdicts still wants it
    assert "the oracle did not judge this history" in told["reasons"][0]


def test_reasons_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "LONGEST_REASON", 20)
    monkeypatch.setattr(report, "MOST_REASONS", 1)
    (reason,) = report.report(EXPERIMENT, root)["reasons"]
    assert len(reason) == 20


def test_without_an_experiment_there_is_no_report(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main(["--experiment", str(tmp_path / "none.yaml"), str(root)]) == 4
    assert report.main(["--failures", str(tmp_path / "none.json"), *command(tmp_path, root)]) == 4
    (root / "summary.json").mkdir()
    assert report.main(command(tmp_path, root)) == 4
    out, error = capsys.readouterr()
    assert out == ""
    assert [line.partition(":")[0] for line in error.splitlines()] == [
        str(tmp_path / "none.yaml"),
        str(tmp_path / "none.json"),
        "IsADirectoryError",
    ]


def test_in_a_cluster_the_bulletin_is_left_in_its_home(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where it cannot be left there is no report: nobody would read it."""
    kept: list[tuple[str, object]] = []
    monkeypatch.setattr(homes, "keep", lambda name, told: kept.append((name, told)))
    assert report.main(["--result", "d-home", *command(tmp_path, root)]) == 0
    assert kept == [("d-home", json.loads(capsys.readouterr().out.splitlines()[-1]))]

    def refuse(name: str, told: object) -> None:
        raise PlatformError(where=name, got="403", rule="r", todo="t")

    monkeypatch.setattr(homes, "keep", refuse)
    assert report.main(["--result", "d-home", *command(tmp_path, root)]) == 4
    assert capsys.readouterr().out == ""


@pytest.mark.long
def test_the_page_lies_beside_the_summary_and_without_it_the_verdict_stands(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main(command(tmp_path, root)) == 0
    with_page = json.loads(capsys.readouterr().out)
    assert Page((root / "report.html").read_text()).table("effective runs")["received"] == ["16", "12"]
    (root / "report.html").unlink()
    (root / beside.BEGUN).touch()
    assert report.main(command(tmp_path, root)) == 0
    out, error = capsys.readouterr()
    told = json.loads(out)
    (*reasons, last) = told.pop("reasons")
    assert last == error.strip() and last.startswith("no report was drawn, and the verdict stands: ")
    assert reasons == with_page.pop("reasons") and told == with_page and told["verdict"] == "Pass"
    assert not (root / "report.html").exists()


def command(folder: Path, root: Place) -> list[str]:
    document = folder / "experiment.json"
    document.write_text(json.dumps(EXPERIMENT.model_dump(mode="json", by_alias=True, exclude_none=True)))
    return ["--experiment", str(document), str(root)]


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[str]:
    with minio.served(tmp_path / "data"):
        yield f"s3://{minio.BUCKET}"


@pytest.mark.live
def test_in_a_store_it_says_the_same(root: Path, bucket: str) -> None:
    there = place(f"{bucket}/team/trial")
    assert not isinstance(there, Path)
    there.fs.put(f"{root}/", f"{there.path}/", recursive=True)
    verify(there)
    told, here = report.report(EXPERIMENT, there), report.report(EXPERIMENT, root)
    assert told["verdict"] == "Pass"
    assert told["systems"] == here["systems"]
    assert told["uri"] == f"{bucket}/team/trial/summary.json"
    assert report.report(EXPERIMENT, there) == told
    assert beside.write(there) is None and not (there / beside.BEGUN).exists()
    summary = Summary.model_validate_json((there / "summary.json").read_bytes())
    assert (there / "report.html").read_text(encoding="utf-8") == pages.render(root, summary)
    (there / "runs/kafka-dedup-001/attempt-1" / VERIFICATION).unlink()
    assert report.report(EXPERIMENT, there)["verdict"] == "Error"
    assert report.report(EXPERIMENT, place(f"{bucket}/nothing"))["verdict"] == "Error"
