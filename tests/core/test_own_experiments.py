"""A Chaos Toolkit experiment that an experiment file names becomes a part of it; what is no such file is one line."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.core.evidences import experiment

from dedup.errors import SpecificationError
from dedup.experiment.spec import load, parse
from dedup.faults.chaos import MOST_BYTES, Chaos
from dedup.history.reports import document_of

OWN = {"title": "own", "description": "own", "method": []}


def written(folder: Path, *, name: str = "own.json", drawn: bool = False, **given: Any) -> Path:
    """An experiment file that names another beside it."""
    made = json.loads(document_of(experiment()))
    chaos = {"chaos": {"experiment": name, "deadline": "5s", **given}}
    made["spec"]["faults"] = [] if drawn else [{"name": "own", "at": {"message": 100}, **chaos}]
    if drawn:
        operations = [{"name": "own", "every": "1s", **chaos}]
        made["spec"]["random"] = {"duration": "60s", "operations": operations}
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(made))
    return path


def given_in(path: Path) -> Chaos:
    found = load(path).spec.all_faults[0].given
    assert isinstance(found, Chaos)
    return found


@pytest.mark.parametrize(("name", "drawn"), [("own.json", False), ("own.yaml", False), ("own.json", True)])
def test_the_text_of_an_experiment_is_read_with_the_file_that_names_it(name: str, drawn: bool, tmp_path: Path) -> None:
    text = json.dumps(OWN) if name.endswith("json") else yaml.safe_dump(OWN)
    (tmp_path / name).write_text(text)
    found = given_in(written(tmp_path, name=name, drawn=drawn))
    assert (found.document, found.brings, found.experiment) == (text, text, name)
    assert "document" not in found.settings, "a manifest has its hash"


def test_another_text_is_another_experiment_and_the_same_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text(json.dumps(OWN))
    first = load(written(tmp_path))
    assert load(written(tmp_path)).digest() == first.digest()
    (tmp_path / "own.json").write_text(json.dumps({**OWN, "title": "another"}))
    second = load(written(tmp_path))
    assert second.digest() != first.digest()
    assert second.spec.faults[0].given.settings["sha256"] != first.spec.faults[0].given.settings["sha256"]


def test_results_need_no_file_for_they_have_the_text(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text(json.dumps(OWN))
    made = load(written(tmp_path))
    (tmp_path / "own.json").unlink()
    (tmp_path / "results.yaml").write_text(document_of(made))
    again = parse(json.loads(document_of(made)), source="results")
    assert load(tmp_path / "results.yaml").spec == made.spec == again.spec


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("- a list", "got no method"),
        ('{"title": "without"}', "got no method"),
        ("a: b: c", "YAML that cannot be read"),
        (json.dumps({**OWN, "title": "x" * MOST_BYTES}), "more than 128 KiB"),
    ],
)
def test_what_is_no_experiment_of_chaos_toolkit_is_one_line(text: str | None, words: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "own.json").write_text(text)
    with pytest.raises(SpecificationError, match=words) as refused:
        load(written(tmp_path))
    assert "own.json" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_without_such_a_fault_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "experiment.yaml"
    path.write_text(document_of(experiment()))
    assert load(path).spec == experiment().spec
