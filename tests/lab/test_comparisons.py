"""`dedup compare` as a user meets it: results that are compared, and one line for those that cannot be."""

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.builders import GOLDEN, parse_golden, write_history
from tests.core.comparing import kafka, summary
from tests.lab.conftest import Command, one_line
from tests.lab.test_resources import KEPT, NAME, FakeCluster, ready
from tests.lab.test_results import plain
from upath import UPath

from dedup.errors import SpecificationError
from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment
from dedup.history import reports
from dedup.history.attempts import folder_of
from dedup.wire.manifests import Deduplication
from dedup_lab import comparisons, results
from dedup_lab.children import Children
from dedup_lab.cluster import access
from dedup_lab.comparisons import Source, named, read, source_of
from dedup_lab.judging import judge
from dedup_operator.statuses import Kept

OLD: Final = kafka("3.9.0")


def finished(root: Path, made: Experiment | None = None, **changes: Any) -> Path:
    """A results folder, as far as comparisons read it."""
    made = made or kafka()
    results.create(root, made)
    (root / "summary.json").write_text(summary(made, **changes).model_dump_json())
    return root


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Kafka 4.3.1, and Kafka 3.9.0 on which the treatment broke its promise in six of ten runs."""
    return finished(tmp_path / "new"), finished(tmp_path / "old", OLD, failed=6, day=2)


def cells(said: str, label: str) -> list[list[str]]:
    """The cells of the rows with this label."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in said.splitlines() if line.startswith("│")]
    return [row[1:] for row in rows if row and row[0] == label]


def test_what_differs_comes_first_and_a_difference_is_claimed_with_its_p(
    dedup: Command, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    said = dedup("compare", *pair)
    assert said.code == 0
    assert said.out.splitlines()[0] == "  - what is compared: version: Kafka 4.3.1 (new); Kafka 3.9.0 (old)"
    assert cells(said.out, "system") == [["Kafka 4.3.1", "Kafka 3.9.0"]]
    assert cells(said.out, "failed")[1] == ["0 of 10 (< 25.9%)", "6 of 10 (30.3% to 85.0%)"]
    assert cells(said.out, "difference")[1] == ["", "different: p = 0.0108, corrected 0.0217"]
    assert cells(said.out, "verdict")[1] == ["pass", "fail"]
    assert "  - worse: old dedup: fail, and pass in new" in said.out


def test_its_innocent_twin_claims_nothing_and_calls_nothing_equal(
    dedup: Command, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    said = dedup("compare", pair[0], finished(tmp_path / "twin", OLD, day=3), "--fail-on", "worse")
    assert said.code == 0
    assert said.out.count("no difference shown: runs") == 2
    assert "equal" not in said.out and "worse: nothing that this comparison can show" in said.out


def test_a_pipeline_fails_if_something_got_worse_and_only_then(dedup: Command, pair: tuple[Path, Path]) -> None:
    new, old = pair
    assert dedup("compare", new, old, "--fail-on", "worse").code == 1
    assert dedup("compare", old, new, "--fail-on", "worse").code == 0
    assert dedup("compare", new, old).code == 0


def test_markdown_has_the_same_cells(dedup: Command, pair: tuple[Path, Path]) -> None:
    said = dedup("compare", f"4.3.1={pair[0]}", f"3.9.0={pair[1]}", "--format", "markdown").out.splitlines()
    assert said[0] == "- what is compared: version: Kafka 4.3.1 (4.3.1); Kafka 3.9.0 (3.9.0)"
    assert said[2:4] == ["|  | 4.3.1 | 3.9.0 |", "| --- | --- | --- |"]
    assert "| failed | 0 of 10 (< 25.9%) | 6 of 10 (30.3% to 85.0%) |" in said


def test_json_is_the_comparison(dedup: Command, pair: tuple[Path, Path]) -> None:
    document = json.loads(dedup("compare", *pair, "--format", "json", "--confidence", "90").out)
    assert (document["schema_version"], document["confidence_percent"]) == (1, 90)
    assert [each["different"] for each in document["contrasts"]] == [False, True]
    assert document["differences"][0]["values"] == {"new": "Kafka 4.3.1", "old": "Kafka 3.9.0"}


def test_two_folders_of_histories_that_were_judged(dedup: Command, tmp_path: Path) -> None:
    """The golden history of a duplicate as a treatment's, and its twin without it: found by the judges themselves."""
    folders = [judged(tmp_path / name, name, copies) for name, copies in (("clean", False), ("broken", True))]
    said = dedup("compare", *folders, "--format", "json", "--fail-on", "worse")
    document = json.loads(said.out)
    assert said.code == 1
    assert document["worse"] == ["broken dedup: fail, and pass in clean"]
    assert [(row["failed"]["runs_with"], row["copies"]) for row in document["rows"]] == [(0, 0), (1, 3)]
    assert [row["longest_pause_s"] for row in document["rows"]] == [3.0, 3.0]


def judged(root: Path, name: str, copies: bool) -> Path:
    """A results folder of one run, whose history the local engine and the oracle have judged."""
    treatment = {"name": "dedup", "deduplication": "Enabled", "expect": "ExactlyOnce"}
    made = kafka(workload={"messages": 6}, variants=[treatment], runs=1, faults=[])
    results.create(root, made)
    (run,) = plan(made)
    history = parse_golden(GOLDEN / "duplicate.yaml").history
    received = history.received if copies else history.received[:6]
    clock = [(0, 6, 0), (1, 5, 3 * 10**9), (1, 6, 4 * 10**9)]
    history = dataclasses.replace(history, received=received, partitions=(0,), clock=clock)
    folder = folder_of(root, run.run_id, 1)
    assert isinstance(folder, Path)
    manifest = write_history(
        folder,
        history,
        experiment=made.name,
        spec_digest=made.digest(),
        run_id=run.run_id,
        seed=run.seed,
        deduplication=Deduplication(asked=True, in_force=True, proof="made by hand"),
        recorded_at=f"2026-11-0{1 + copies}T12:00:00Z",
    )
    producer = manifest.producer.model_copy(update={"last_acknowledgement_ns": 4 * 10**9})
    (folder / "manifest.json").write_text(manifest.model_copy(update={"producer": producer}).model_dump_json())
    children = Children()
    try:
        evidence = judge([folder], children, root / "verification", 60, lambda text: None, by_size=True)
    finally:
        children.close()
    reports.write(made, evidence, root)
    return root


# --- names and places ------------------------------------------------------------------------------------------------


def test_a_result_has_the_name_that_it_is_given_or_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert source_of("a=results/b") == Source("a", Path("results/b"))
    assert source_of("results/a=b") == Source("a=b", Path("results/a=b"))
    assert source_of("s3://bucket/nightly/1").name == "1"
    assert source_of("x=s3://bucket/p=1").name == "x"
    assert source_of(".").name == tmp_path.name
    (tmp_path / "a=b").mkdir()
    assert source_of("a=b") == Source("a=b", Path("a=b"))


def test_results_with_one_name_are_called_after_their_paths() -> None:
    found = named([source_of("a/x"), source_of("b/x"), source_of("c")])
    assert [each.name for each in found] == ["a/x", "b/x", "c"]


@pytest.fixture
def store() -> Iterator[UPath]:
    """A store in memory with two results below a prefix."""
    root = UPath("memory://nightly/kafka")
    yield root
    root.fs.rm(root.path, recursive=True)


def stored(root: UPath, folder: Path) -> UPath:
    for name in ("summary.json", "experiment.json"):
        root.fs.pipe_file((root / name).path, (folder / name).read_bytes())
    return root


def test_a_store_holds_results_as_folders_do(store: UPath, pair: tuple[Path, Path]) -> None:
    where = stored(store / "one", pair[0])
    assert read(Source("one", where)) == read(Source("one", pair[0]))


def test_an_experiment_in_a_cluster_leads_to_its_store(
    store: UPath, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str | None, str | None]] = []

    def connected(kubeconfig: None, context: str | None, namespace: str | None) -> FakeCluster:
        asked.append((context, namespace))
        return FakeCluster(ready(Kept(uri="s3://dedup/lab/e/d-x")))

    where = stored(store / "d-x", pair[0])
    monkeypatch.setattr(access, "connected", connected)
    monkeypatch.setattr(comparisons, "place", {"s3://dedup/lab/e/d-x": where}.__getitem__)
    assert source_of(f"k8s://arn:aws:eks:cluster/blue/lab/{NAME}") == Source("e@blue", where)
    assert source_of(f"cloud=k8s://blue//{NAME}").name == "cloud"
    assert asked == [("arn:aws:eks:cluster/blue", "lab"), ("blue", None)]
    with pytest.raises(SpecificationError, match="k8s://CONTEXT/NAMESPACE/NAME"):
        source_of("k8s://lab/e")
    monkeypatch.setattr(access, "connected", lambda *_: FakeCluster(ready(KEPT)))
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with pytest.raises(Exception, match="AWS_ENDPOINT_URL: got nothing"):
        source_of(f"k8s://blue/lab/{NAME}")


# --- trends ----------------------------------------------------------------------------------------------------------


def test_a_trend_has_a_row_an_execution_by_time_and_names_the_unfinished(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    for name, made, day in (("c", kafka(), 1), ("a", kafka(), 2), ("b", OLD, 3)):
        finished(tmp_path / "nightly" / name, made, day=day)
    results.create(tmp_path / "nightly" / "d", kafka())
    (tmp_path / "nightly" / "a" / "verification").mkdir()
    (tmp_path / "nightly" / "a" / "verification" / "summary.json").write_text("another's")
    said = dedup("compare", "--trend", tmp_path / "nightly")
    assert said.code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in said.out.splitlines() if line[0] == "│"]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("2026-11-01 12:00", "c", ""),
        ("2026-11-02 12:00", "a", ""),
        ("2026-11-03 12:00", "b", "version: Kafka 4.3.1 → Kafka 3.9.0"),
    ]
    assert one_line(said) == f"left out: {tmp_path}/nightly/d is unfinished"
    assert (
        "| 2026-11-03 12:00 | b | Kafka 3.9.0 |"
        in dedup("compare", "--trend", tmp_path / "nightly", "--format", "markdown").out
    )


def test_a_trend_claims_what_differs_from_its_first_execution(dedup: Command, pair: tuple[Path, Path]) -> None:
    said = dedup("compare", "--trend", *pair, "--format", "markdown").out.splitlines()
    assert said[0].split(" | ")[3:7] == ["control: with copies", "dedup: failed", "messages/s", "longest pause"]
    assert said[3].split(" | ")[3:5] == ["10 of 10 (> 74.1%)", "6 of 10 (30.3% to 85.0%), different"]
    assert said[5].startswith("- old dedup: different: runs that failed 6 of 10 (30.3% to 85.0%), 0 of 10 (< 25.9%)")
    assert said[6] == "- no difference from the first execution shown in 1 of 2 tests"


def test_a_trend_follows_one_experiment(dedup: Command, tmp_path: Path) -> None:
    finished(tmp_path / "nightly" / "a")
    other = kafka()
    other = other.model_copy(update={"metadata": other.metadata.model_copy(update={"name": "other"})})
    finished(tmp_path / "nightly" / "b", other, day=2)
    said = dedup("compare", "--trend", tmp_path / "nightly")
    assert (said.code, one_line(said).split(";")[0]) == (4, "error --trend: got results of other, trial")


def test_a_trend_has_no_baseline_to_be_worse_than(dedup: Command, pair: tuple[Path, Path]) -> None:
    said = dedup("compare", "--trend", *pair, "--fail-on", "worse")
    assert said.code == 2 and "a trend has no baseline" in plain(said)


# --- what cannot be compared -----------------------------------------------------------------------------------------


def without(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def holding(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def changed(**keys: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        document = json.loads((folder / "summary.json").read_text())
        (folder / "summary.json").write_text(json.dumps(document | keys))

    return change


def of_another_experiment(folder: Path) -> None:
    document = json.loads((folder / "experiment.json").read_text())
    document["spec"]["seed"] = 5
    (folder / "experiment.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (without("summary.json"), "got an experiment without a summary.json: it is unfinished"),
        (holding("summary.json", "{"), "got text that is not JSON"),
        (holding("summary.json", "[]"), "got a wrong value at document"),
        (holding("summary.json", "{}"), "got nothing at experiment"),
        (changed(schema_version=2), "got schema version 2; this dedup reads version 1"),
        (changed(news=[]), "got the key 'news'; no summary known here has it: a newer dedup wrote it"),
        (changed(experiment=""), "got the summary of single histories"),
        (without("experiment.json"), "experiment.json: got no such file"),
        (holding("experiment.json", "{"), "experiment.json: got text that is not JSON"),
        (holding("experiment.json", "{}"), "experiment.json"),
        (of_another_experiment, "another experiment"),
    ],
)
def test_what_is_no_whole_result_is_told_in_one_line(
    spoil: Callable[[Path], object], said: str, dedup: Command, pair: tuple[Path, Path]
) -> None:
    new, old = pair
    spoil(old)
    answer = dedup("compare", new, old)
    assert answer.code == 4
    assert said in one_line(answer) and str(old) in one_line(answer)
    assert answer.out == ""


@pytest.mark.parametrize("options", [[], ["--trend"]])
def test_an_empty_or_missing_folder_is_no_result(options: list[str], dedup: Command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        said = dedup("compare", *options, tmp_path / name, tmp_path / name)
        assert said.code == 4
        assert f"{tmp_path / name}: got no result of an experiment" in one_line(said)


def test_other_workloads_are_refused(dedup: Command, tmp_path: Path) -> None:
    other = kafka(faults=[{"name": "cut", "at": {"message": 100}, "killTCP": {"duration": "9s"}}])
    finished(tmp_path / "new")
    finished(tmp_path / "other", day=2)
    (tmp_path / "other" / "experiment.json").write_text(reports.document_of(other))
    changed(spec_digest=other.digest())(tmp_path / "other")
    said = dedup("compare", tmp_path / "new", tmp_path / "other")
    assert (said.code, one_line(said).split(";")[0]) == (
        4,
        "error other: got faults[0].killTCP.duration 9s, and 2s in new",
    )


def test_an_older_summary_is_compared_without_what_it_does_not_hold(dedup: Command, pair: tuple[Path, Path]) -> None:
    new, old = pair
    document = json.loads((old / "summary.json").read_text())
    for row in document["runs"]:
        del row["pace"]
    for row in document["systems"]:
        del row["settings"]
    (old / "summary.json").write_text(json.dumps(document))
    said = dedup("compare", new, old, "--format", "markdown")
    assert said.code == 0
    assert "- old: an older dedup made its summary, so its settings in force and its rates are not known" in said.out
    assert "| messages/s | 1,006 | not known |" in said.out


@pytest.mark.parametrize("form", ["table", "markdown", "json"])
def test_text_of_others_does_not_control_the_terminal(form: str, dedup: Command, pair: tuple[Path, Path]) -> None:
    new, old = pair
    versions = {"kafka": {"deployed": "3.9.0\x1b[2J[red]", "confluent-kafka": "2\n3"}}
    changed(versions=versions)(old)
    said = dedup("compare", new, old, "--format", form)
    assert said.code == 0 and "\x1b" not in said.out
    assert os.linesep + "3" not in said.out
