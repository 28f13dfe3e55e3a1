"""What examples say of themselves, and the catalogue of known bugs: complete, and each file in order."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
import yaml
from tests.lab.conftest import Command, one_line
from tests.lab.test_known_bugs_live import RUNS
from typer.testing import CliRunner

from dedup.errors import SpecificationError
from dedup.experiment.spec import Switch, load, parse
from dedup.judgement.verdict_kinds import Verdict
from dedup_lab import scenarios
from dedup_lab.cli import app

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "examples"
BUGS: Final = sorted((EXAMPLES / "bugs").glob("*.yaml"))
HEAD: Final = "# Two systems: one has a bug. And more.\n#\n# Expect: copies in one,\n# none in the other.\n#\n# More.\n"


def document(annotations: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / "clients.yaml").read_text())
    found["spec"]["systems"] = found["spec"]["systems"][:2]
    found["metadata"]["annotations"] = annotations
    return found


def bug(annotations: dict[str, str]) -> scenarios.Bug | None:
    return scenarios.bug_of(parse(document(annotations), source="e.yaml"))


def test_an_example_says_what_it_shows_and_what_comes_out(tmp_path: Path) -> None:
    told = {scenarios.EXPECT: "librdkafka=fail java-4=pass", scenarios.ISSUE: "https://i/1", scenarios.SIGN: "fatal .*"}
    path = tmp_path / "e.yaml"
    path.write_text(HEAD + yaml.safe_dump(document(told)))
    found = scenarios.read(path)
    assert (found.shows, found.outcome) == ("Two systems: one has a bug", "copies in one, none in the other.")
    assert found.bug is not None and found.bug.issue == "https://i/1"
    assert found.bug.expected == {"librdkafka": Verdict.FAIL, "java-4": Verdict.PASS}
    assert found.bug.sign is not None and found.bug.sign.search("a fatal error")


def test_an_example_without_annotations_finds_no_known_bug() -> None:
    assert bug({}) is None
    assert bug({"another": "annotation"}) is None


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({scenarios.EXPECT: "librdkafka=fail"}, "expect: got librdkafka=fail; it says nothing of java-4/"),
        ({scenarios.EXPECT: "librdkafka=fail java=pass"}, "got java=pass; the systems are librdkafka, java-4; write"),
        ({scenarios.EXPECT: "librdkafka=wrong"}, "got librdkafka=wrong; a verdict is pass, fail, inconclusive, error"),
        ({scenarios.EXPECT: "librdkafka=fail java-4=pass", scenarios.SIGN: "("}, "got (; it is no regular expression"),
    ],
)
def test_what_is_wrong_with_an_annotation_is_said(annotations: dict[str, str], words: str) -> None:
    with pytest.raises(SpecificationError) as refused:
        bug(annotations)
    assert words in str(refused.value)


def test_all_examples_are_listed_and_a_folder_without_any_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["list", "scenarios", str(EXAMPLES)], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    experiments = [path for path in EXAMPLES.rglob("*.yaml") if "kind: DedupExperiment" in path.read_text()]
    assert all(path.name in result.output for path in experiments)
    assert all(each.bug.issue in result.output for each in scenarios.found(EXAMPLES) if each.bug)
    with pytest.raises(SpecificationError, match="no file with kind: DedupExperiment"):
        scenarios.found(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"kind: DedupExperiment\nmetadata: {name: \xff}\n", "b.yaml"),
        (yaml.safe_dump(document({scenarios.EXPECT: "x"})).encode(), "b.yaml: metadata.annotations.dedup.dev/expect"),
    ],
)
def test_a_file_that_is_wrong_is_named_in_one_line(tmp_path: Path, dedup: Command, text: bytes, words: str) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(document({})))
    (tmp_path / "b.yaml").write_bytes(text)
    (tmp_path / "not-ours.yaml").write_bytes(b"\xff")
    said = dedup("list", "scenarios", tmp_path)
    assert said.code == 4 and words in one_line(said) and "defect of dedup" not in said.err
    (tmp_path / "b.yaml").unlink()
    assert dedup("list", "scenarios", tmp_path).code == 0, "a file of another kind is passed over"


def test_every_example_says_what_it_shows_and_what_to_expect() -> None:
    assert not [each.path for each in scenarios.found(EXAMPLES) if not (each.shows and each.outcome)]


def test_they_are_listed_for_programs_and_pages_with_their_seeds_and_faults(dedup: Command) -> None:
    rows = {row["file"]: row for row in json.loads(dedup("list", "scenarios", "--format", "json").out)}
    assert len(rows) == len(scenarios.found(EXAMPLES))
    kill = rows["kafka-kill-leader.yaml"]
    assert (kill["seeds"], kill["systems"], kill["faults"], kill["issue"]) == (["S0"], ["kafka"], ["kill"], None)
    from_seeds = {"kafka-kill-leader", "kafka-kill-tcp", "pulsar-kill-tcp", "pulsar-kill-topic-owner"}
    said = {file: row["seeds"] for file, row in rows.items() if row["seeds"]}
    assert said == {f"{name}.yaml": ["S0"] for name in from_seeds}, "a comment about S3, the store, is no seed"
    page = dedup("list", "scenarios", EXAMPLES / "explore", "--format", "markdown").out.splitlines()
    assert page[0].startswith("| file | seeds |") and len(page) == 10


@pytest.mark.parametrize("path", BUGS, ids=lambda path: path.stem)
def test_a_file_of_the_catalogue_has_a_version_with_the_bug_and_one_without(path: Path) -> None:
    found = scenarios.read(path)
    assert found.name == path.stem and found.shows and found.outcome
    assert found.bug is not None and found.bug.issue.startswith("https://")
    assert Verdict.PASS in found.bug.expected.values()
    assert {Verdict.FAIL, Verdict.INCONCLUSIVE} & {*found.bug.expected.values()}
    if Verdict.FAIL not in found.bug.expected.values():
        assert found.bug.sign is not None, "an inconclusive verdict alone does not say that it was this bug"
    spec = load(path).spec
    assert all(variant.deduplication is Switch.ENABLED for variant in spec.variants) or "19012" in path.stem


def test_the_page_has_every_bug_of_the_catalogue() -> None:
    page = (ROOT / "docs" / "known-bugs.md").read_text()
    assert all(f"examples/bugs/{path.name}" in page for path in BUGS)


def test_each_file_of_the_catalogue_is_run() -> None:
    elsewhere = {"kafka-17754"}  # tests/lab/test_transactions_live.py
    elsewhere |= {"franz-go-1217"}  # by hand: a run of the version without the bug may be inconclusive (known-bugs.md)
    elsewhere |= {"kafka-15591"}  # by hand: 6 of 10, and not run yet with the file's settings of today (known-bugs.md)
    assert {path.stem for path in BUGS} == RUNS.keys() | elsewhere


def test_a_verdict_may_be_expected_of_each_variant(tmp_path: Path) -> None:
    told = "librdkafka/control=fail librdkafka/dedup=pass java-4=pass"
    found = bug({scenarios.EXPECT: told})
    assert found is not None and found.expected["librdkafka/control"] is Verdict.FAIL
    with pytest.raises(SpecificationError, match="it says nothing of librdkafka/dedup; add SYSTEM=VERDICT"):
        bug({scenarios.EXPECT: "librdkafka/control=fail java-4=pass"})
    rows = [
        ("librdkafka", "control", Verdict.FAIL),
        ("librdkafka", "dedup", Verdict.FAIL),
        ("java-4", "dedup", Verdict.PASS),
    ]
    groups = [SimpleNamespace(system=system, variant=variant, verdict=verdict) for system, variant, verdict in rows]
    said = scenarios.unlike(found, cast(Any, SimpleNamespace(systems=groups, runs=[])), tmp_path)
    assert said == ["librdkafka/dedup: the verdict is fail, and pass was expected"]
