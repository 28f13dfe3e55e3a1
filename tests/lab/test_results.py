"""`dedup results FOLDER`: an experiment that was run here is shown again, from what its last stage wrote."""

import json
import re
from pathlib import Path

import pytest
from tests.core.evidences import all_evidence, experiment
from tests.lab.conftest import Command, Said, one_line
from typer.testing import CliRunner

from dedup.history import reports
from dedup_lab import cli, results


def finished(root: Path) -> Path:
    """A results folder whose experiment passed."""
    made = experiment()
    results.create(root, made)
    reports.write(made, all_evidence(made), root)
    return root


def plain(said: Said) -> str:
    """What a usage error says, without rich's frames."""
    return re.sub(r"\x1b\[[0-9;]*m|[│\s]+", " ", said.err)


def test_a_folder_is_shown_as_the_run_showed_it(dedup: Command, tmp_path: Path) -> None:
    said = dedup("results", finished(tmp_path / "mine"))
    assert said.code == 0
    assert "sums over runs" in said.out and "verdict: pass" in said.out


@pytest.mark.parametrize(
    ("root", "name"), [("mine", "one"), ("mine [old]", "one"), ("mine", "a[/one]"), ("mine", "a\x1b[2Jone")]
)
def test_a_summary_is_shown_letter_by_letter(root: str, name: str, dedup: Command, tmp_path: Path) -> None:
    """None of its text is taken for colours, or for commands to the terminal. The first one is the twin."""
    folder = finished(tmp_path / root)
    document = json.loads((folder / "summary.json").read_text())
    document["runs"][0]["run_id"] = document["systems"][0]["variant"] = document["reasons"][0]["text"] = name
    (folder / "summary.json").write_text(json.dumps(document))
    said = dedup("results", folder)
    assert (said.code, said.err) == (0, "")
    assert said.out.count(name.replace("\x1b", "\\x1b")) >= 3 and "\x1b" not in said.out
    assert f"all results are in {folder} " in said.out


def test_its_json_is_summary_json(dedup: Command, tmp_path: Path) -> None:
    said = dedup("results", finished(tmp_path / "mine"), "--format", "json")
    assert (said.code, json.loads(said.out)) == (0, json.loads((tmp_path / "mine" / "summary.json").read_text()))


def test_a_plain_name_is_a_folders_if_it_holds_results(
    dedup: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    (tmp_path / "other").mkdir()
    finished(tmp_path / "mine")
    assert "verdict: pass" in dedup("results", "mine").out
    assert "kubeconfig" in one_line(dedup("results", "other"))  # it is looked for in a cluster


@pytest.mark.parametrize("text", [None, "{", "{}"], ids=["none", "damaged", "another file"])
def test_without_a_summary_it_says_how_to_get_one(text: str | None, dedup: Command, tmp_path: Path) -> None:
    folder = finished(tmp_path / "mine")
    (folder / "summary.json").unlink()
    if text is not None:
        (folder / "summary.json").write_text(text)
    said = dedup("results", folder)
    assert said.code == 4
    assert f"{folder}/summary.json: got " in one_line(said) and f"dedup verify {folder}" in one_line(said)


def test_what_is_for_clusters_is_refused_beside_a_folder(dedup: Command, tmp_path: Path) -> None:
    folder = finished(tmp_path / "mine")
    for option, *value in (("--namespace", "lab"), ("--histories",)):
        said = dedup("results", folder, option, *value)
        assert said.code == 2
        assert f"{option}: is for clusters" in plain(said)


def test_the_shell_completes_commands() -> None:
    """Called by its name, as the shell does: the name of the variable is made of it."""
    asked = {"_DEDUP_COMPLETE": "complete_bash", "COMP_WORDS": "dedup ver", "COMP_CWORD": "1"}
    said = CliRunner().invoke(cli.app, [], prog_name="dedup", env=asked)
    assert (said.exit_code, said.output.split()) == (0, ["verify"])
