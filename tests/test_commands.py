"""Every command that README.md and docs/ show is run by a test, or a line below says why not.

    dedup          the command's own parser takes each; those that need no broker and no cluster are run here
    make           the target is there, and `make --dry-run` goes through
    python -m      the module is there, and its --help knows the options
    kubectl, helm  the files, charts and values that they name are there; which test runs that word for real is listed
    the first      the blocks of docs/first-verdict.md are run as they stand, and end as the page says

A command that no row covers fails the test, so that a new page cannot show what nobody tries.
"""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import jsonschema
import pytest
import yaml
from tests import commands
from tests.commands import ROOT, Block, Shown
from tests.lab.conftest import Command
from tests.lab.conftest import dedup as dedup  # the fixture
from tests.lab.finished import finish
from typer._click.exceptions import MissingParameter, UsageError
from typer.core import TyperGroup
from typer.main import get_command

from dedup.experiment.spec import load
from dedup.history.reports import SUMMARY
from dedup_lab.cli import app

SHOWN: Final = commands.shown()
SPANS: Final = commands.spans()

OFFLINE: Final = {"verify", "plan", "list", "schema", "report", "results", "compare"}
"""Subcommands that are run here where they are given nothing but files."""

LIVE: Final = {
    "run": "tests/lab/harness.py",
    "check": "tests/lab/test_check_live.py",
    "probe": "tests/lab/test_probe_live.py",
    "explore": "tests/lab/test_explore_live.py",
    "replay": "tests/lab/test_replays_live.py",
    "logs": "tests/kubernetes/test_operator_cluster.py",
    "results": "tests/kubernetes/operated.py",
    "verify": "tests/kubernetes/test_operator_cluster.py",
    "compare": "tests/lab/test_comparisons.py",
}
"""Who runs a subcommand on real brokers, a cluster or a store."""

KUBECTL: Final = {
    "apply": "tests/kubernetes/whole_runs.py",
    "wait": "tests/kubernetes/test_operator_cluster.py",
    "get": "tests/kubernetes/operated.py",
    "patch": "tests/kubernetes/operated.py",
    "logs": "tests/kubernetes/operated.py",
    "delete": "tests/kubernetes/test_operator_cluster.py",
    "cp": "tests/kubernetes/test_operator_cluster.py",
    "create": "tests/kubernetes/test_operator_cluster.py",
    "annotate": "not run: tests make Secrets with their annotations at once (tests/operator/test_existing.py)",
    "label": "not run: tests make Secrets and namespaces with their labels at once (tests/kubernetes/stages.py)",
    "rollout": "not run: tests wait for the Deployment itself, since they read its log if it does not come",
    "explain": "not run: it prints the definition, which tests/kubernetes/test_crd.py gives to an API server",
    "exec": "not run: the same file is written through the API (tests/kubernetes/test_charts_cluster.py)",
    "config": "not run: it edits a file of the reader; the operator reads one in tests/operator/test_remotes.py",
}
HELM: Final = {
    "install": "testbed/cluster/helm.py",
    "upgrade": "testbed/cluster/helm.py",
    "uninstall": "testbed/cluster/helm.py",
    "template": "testbed/cluster/helm.py",
    "test": "testbed/cluster/helm.py",
}
"""That module is how tests/kubernetes/ install, upgrade, test and remove each chart."""

OTHERS: Final = {
    "chaos": "tests/runners/test_chaosdedup.py (discover), tests/lab/test_plain_chaos_live.py (run)",
    "docker": "not run: there is no Docker on these machines; `make images` builds from the same stages",
    "cosign": "not run: it looks at what a release has published, and none was yet",
    "kind": "not run: a cluster of the reader's own",
    "duckdb": "run here, by the library",
    "sed": "run here",
    "mkdir": "run here, with docs/first-verdict.md",
    "printf": "run here, with docs/first-verdict.md",
    ".": "not run: it changes the reader's shell; the folder that it reads is what `make setup` makes",
    "export": "not run: the reader's keys",
    "rm": "not run: it removes what the lines above it made",
    "grep": "not run: the end of a pipe",
    "tail": "not run: the end of a pipe",
    "objects": "not run here: a function of docs/run-by-hand.md around a module that is (see MODULES)",
    "$K": "not run: kubectl config, as above",
}
MODULES: Final = {
    "dedup_lab.systems.lock": "not run: it needs Maven; tests/lab/test_jars.py reads what it wrote",
    "dedup_spark.job": "tests/spark/test_job.py",
    "dedup_spark.report": "tests/spark/test_report.py",
    "dedup_operator.objects": "tests/kubernetes/whole_runs.py",
}


def of(program: str, *found: list[Shown]) -> list[Shown]:
    return [each for some in found for each in some if each.program == program]


def label(shown: Shown) -> str:
    return f"{shown.page}:{shown.line}"


def test_the_pages_show_commands_and_no_program_is_unknown() -> None:
    assert len(SHOWN) > 120 and len(SPANS) > 150
    known = {"dedup", "make", "python", "kubectl", "helm", *OTHERS}
    assert not [each.where for each in SHOWN if each.program not in known]


def test_a_command_and_an_output_are_told_apart() -> None:
    def found(text: str) -> list[tuple[str, ...]]:
        block = Block("page", 1, text)
        return [each.words for each in commands.commands(block)] if commands.shows_commands(block) else []

    assert found("verdict: pass\n  - dedup: clean\n") == []
    assert found("dedup verify a  # again\n") == [("dedup", "verify", "a")]
    assert found("X=1 make demo && dedup plan 'a b' > c | tail -1\n") == [
        ("make", "demo"),
        ("dedup", "plan", "a b"),
        ("tail", "-1"),
    ]
    assert found("R=$(kubectl get dedup)\n") == [("kubectl", "get", "dedup")]
    (applied,) = commands.commands(Block("page", 1, "kubectl apply --filename - <<'END'\nkind: Pod\nEND\n"))
    assert applied.stdin == "kind: Pod"


# --- dedup -----------------------------------------------------------------------------------------------------------


@cache
def parser() -> Any:
    return get_command(app)


def refusal(words: list[str], *, in_a_sentence: bool = False) -> str:
    """Why the command's own parser does not take this; empty if it does."""
    command, rest = parser(), words
    context = None
    try:
        while isinstance(command, TyperGroup):
            if rest[:1] and rest[0].startswith("-"):
                known = {option for parameter in command.params for option in parameter.opts}
                return "" if rest[0] in known else f"no such option: {rest[0]}"
            context = command.make_context("dedup", list(rest), parent=context)
            _, command, rest = command.resolve_command(context, list(rest))
            if in_a_sentence and not rest:
                return "" if command is not None else "no such command"
        assert command is not None
        command.make_context(words[0], list(rest), parent=context)
    except MissingParameter as error:
        return "" if in_a_sentence else error.format_message()
    except UsageError as error:
        said = error.format_message()
        return "" if in_a_sentence and said.endswith("requires an argument.") else said
    return ""


VALUES: Final = {"N": "1", "S": "1", "WHAT": "ExactlyOnce", "MECHANISM": "SCRAM-SHA-512"}
"""Words in capitals that stand for a number or a choice; all others are text."""


def tried(shown: Shown) -> list[list[str]]:
    return [[VALUES.get(word, word) for word in each[1:]] for each in commands.alternatives(shown.words)]


@pytest.mark.parametrize("shown", of("dedup", SHOWN), ids=label)
def test_the_parser_of_dedup_takes_what_a_block_shows(shown: Shown) -> None:
    for words in tried(shown):
        assert not refusal(words), f"{shown.where}\n{refusal(words)}"


def test_the_parser_of_dedup_takes_what_a_sentence_names() -> None:
    refused = {each.where: refusal(words, in_a_sentence=True) for each in of("dedup", SPANS) for words in tried(each)}
    assert not {where: why for where, why in refused.items() if why}


@pytest.mark.parametrize(
    "wrong",
    ["dedup judge FILE", "dedup run FILE --run 3", "dedup list cats", "dedup verify x --engine fast", "dedup run"],
)
def test_what_is_not_there_is_refused(wrong: str) -> None:
    assert refusal(wrong.split()[1:])
    assert not refusal(["run", "FILE", "--runs", "3"])


def test_every_subcommand_is_shown_and_run() -> None:
    command = parser()
    assert isinstance(command, TyperGroup)
    shown = {each.words[1] for each in of("dedup", SHOWN)}
    assert shown == set(command.commands) == OFFLINE | LIVE.keys()
    for name, where in LIVE.items():
        assert re.search(rf"[\"']{name}[\"']", (ROOT / where).read_text()), f"{where} does not run {name}"


def _runs_here(shown: Shown) -> bool:
    words = shown.words
    remote = any("://" in word or word in ("--namespace", "--context", "--follow", "--output") for word in words)
    synopsis = any(word[0] in "[" or "|" in word or "…" in word for word in words)
    named = words[1] == "results" and not any("/" in word for word in words[2:])  # an experiment in a cluster
    return words[1] in OFFLINE and not remote and not synopsis and len(words) > 2 and not named


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder: the examples, a CSV pair as README.md shows it, and results wherever the pages name some."""
    root = tmp_path_factory.mktemp("reader")
    (root / "examples").symlink_to(ROOT / "examples")
    pair = root / "my-history"
    pair.mkdir()
    (pair / "sent.csv").write_text("value,outcome\n1,ok\n2,unknown\n3,ok\n")
    (pair / "received.csv").write_text("partition,position,value\n0,0,1\n0,1,2\n0,2,3\n")
    whole = finish(root / "results" / "whole").root
    for each in SHOWN:
        for word in each.words:
            name = word.rpartition("=")[2]
            if name.startswith("results/") and _runs_here(each):
                place = root / "results" / name.split("/")[1]
                if not place.exists():
                    shutil.copytree(whole, place)
                    summary = place / SUMMARY
                    told = json.loads(summary.read_text())
                    for run in told["runs"]:
                        run["recorded_at"] = f"2026-11-24T12:00:{len(list(place.parent.iterdir())):02}Z"
                    summary.write_text(json.dumps(told))
    return root


@pytest.mark.long
@pytest.mark.parametrize("shown", [each for each in of("dedup", SHOWN) if _runs_here(each)], ids=label)
def test_what_needs_no_broker_and_no_cluster_is_run(
    shown: Shown, reader: Path, dedup: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the verdict: the command did what it is for. 2 is a wrong command line, 4 an error."""
    monkeypatch.chdir(reader)
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    said = dedup(*shown.words[1:])
    assert said.code in (0, 1, 3), f"{shown.where}\n{said.err}"


@pytest.mark.long
def test_the_first_ten_minutes_end_as_the_page_says(tmp_path: Path) -> None:
    """The blocks without a broker, line by line; the verdicts are those of the sentences between them."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "dedup").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dedup_lab.cli "$@"\n')
    (programs / "dedup").chmod(0o755)
    codes = []
    for block in commands.blocks():
        if block.page == "docs/first-verdict.md" and "my-history" in block.text:
            for line in block.text.splitlines():
                done = subprocess.run(
                    ["sh", "-c", line],
                    cwd=tmp_path,
                    env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                if line.startswith("dedup"):
                    codes.append(done.returncode)
                else:
                    assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert codes == [1, 3, 0], "fail, inconclusive, pass"


# --- make and python -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", sorted({each.words[1] for each in of("make", SHOWN, SPANS)}))
def test_a_target_of_make_is_there_and_goes_through_dry(target: str) -> None:
    done = subprocess.run(
        ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_variable_that_is_given_to_make_is_one_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    given = {
        word.strip("[]").partition("=")[0]
        for each in of("make", SHOWN, SPANS)
        for word in each.words[2:]
        if "=" in word
    }
    assert given and not [name for name in given if f"$({name})" not in makefile and f"(if $({name})" not in makefile]


@pytest.mark.long
@pytest.mark.parametrize("shown", of("python", SHOWN), ids=label)
def test_a_module_that_is_started_is_there_and_knows_its_options(shown: Shown) -> None:
    _, flag, module, *rest = shown.words
    assert flag == "-m" and module in MODULES and importlib.util.find_spec(module)
    helped = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert helped.returncode == 0, helped.stderr
    options = [word.strip("[]").partition("=")[0] for word in rest if word.strip("[").startswith("--")]
    assert not [option for option in options if option not in helped.stdout]


# --- kubectl, helm and the rest --------------------------------------------------------------------------------------

WITH_FILES: Final = ("-f", "--filename", "--patch-file")
READERS: Final = {"my.yaml", "ca.crt", "cloud.kubeconfig"}
"""Files of the reader's own."""


def verb(shown: Shown) -> str:
    """The first word that is neither an option nor the value of one."""
    words = iter(shown.words[1:])
    for word in words:
        if not word.startswith("-"):
            return word
        if "=" not in word:
            next(words)
    raise AssertionError(shown.where)


@pytest.mark.parametrize(("program", "table"), [("kubectl", KUBECTL), ("helm", HELM)])
def test_each_word_of_kubectl_and_helm_is_run_somewhere_or_says_why_not(program: str, table: dict[str, str]) -> None:
    verbs = {verb(each): each.where for each in of(program, SHOWN)}
    assert verbs.keys() == table.keys(), verbs
    for name, where in table.items():
        if not where.startswith("not run"):
            text = (ROOT / where).read_text()
            assert re.search(rf"[\"'](--)?{name}[\"']", text), f"{where} does not run {program} {name}"
    for module, where in MODULES.items():
        package, _, name = module.rpartition(".")
        used = rf"^from {package} import .*\b{name}\b|^from {module}\b.* import |\"-m\", \"{module}\""
        assert where.startswith("not run") or re.search(used, (ROOT / where).read_text(), re.MULTILINE), module


def documents(text: str) -> Iterator[Any]:
    """By the library's fast reader: definitions are long."""
    return iter(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def manifests(shown: Shown) -> Iterator[Any]:
    """What a command gives to the API server."""
    words = list(shown.words)
    for place, word in enumerate(words):
        option, _, value = word.partition("=")
        if option in WITH_FILES:
            name = value or words[place + 1]
            if name == "-":
                yield from documents(shown.stdin) if shown.stdin else ()
            elif name not in READERS:
                path = ROOT / name
                for each in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
                    yield from documents(each.read_text())
        if option == "--patch":
            yield yaml.safe_load(value or words[place + 1])


def test_the_files_that_kubectl_is_given_are_there_and_can_be_read() -> None:
    found = 0
    for shown in of("kubectl", SHOWN):
        for document in manifests(shown):
            found += 1
            assert isinstance(document, dict), shown.where
            if "apply" in shown.words:
                assert {"apiVersion", "kind", "metadata"} <= document.keys(), shown.where
    assert found > 8


def test_the_experiments_that_they_apply_are_whole() -> None:
    applied = {
        shown.words[-1] for shown in of("kubectl", SHOWN) if "apply" in shown.words and "examples/" in shown.words[-1]
    }
    assert applied and all(load(ROOT / each).name for each in applied)


def test_the_kinds_that_kubectl_names_are_known() -> None:
    names = set()
    for path in (ROOT / "crds").glob("*.yaml"):
        kinds = next(documents(path.read_text()))["spec"]["names"]
        names |= {kinds["plural"], *kinds.get("shortNames", ())}
    named = {word.partition("/")[0] for each in of("kubectl", SHOWN) for word in each.words if word.startswith("dedup")}
    said = {name for name in named if re.fullmatch(r"dedup[a-z]*", name)}
    assert {"dedup", "dedupcmp"} <= said <= names | {"dedup"}


def test_charts_are_there_and_take_the_values_that_helm_sets() -> None:
    seen = 0
    for shown in of("helm", SHOWN):
        charts = [ROOT / word for word in shown.words if word.startswith("charts/")]
        assert all((chart / "Chart.yaml").is_file() for chart in charts), shown.where
        settings = [shown.words[place + 1] for place, word in enumerate(shown.words) if word == "--set"]
        if settings:
            check_values(charts[0], settings)
            seen += len(settings)
    assert seen > 5


def check_values(chart: Path, settings: list[str]) -> None:
    """Each `a.b=c` as the chart's schema has it; lists are written {…}."""
    values: dict[str, Any] = yaml.safe_load((chart / "values.yaml").read_text())
    for setting in settings:
        key, _, text = setting.partition("=")
        value: Any = text.strip("{}").split(",") if text[:1] == "{" else {"true": True, "false": False}.get(text, text)
        for part in reversed(key.split(".")):
            value = {part: value}
        values = merged(values, value)
    jsonschema.validate(values, json.loads((chart / "values.schema.json").read_text()))


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {key: merged(below[key], above[key]) for key in below.keys() & above.keys() if isinstance(below[key], dict)}
    return {**below, **above, **both}


def test_a_value_that_no_chart_has_is_refused() -> None:
    with pytest.raises(jsonschema.ValidationError):
        check_values(ROOT / "charts" / "dedup-operator", ["metrics.dashbord=true"])


def test_a_stage_that_docker_builds_is_one_of_the_dockerfile() -> None:
    (shown,) = of("docker", SHOWN)
    stage = shown.words[shown.words.index("--target") + 1]
    assert re.search(rf"^FROM .* AS {stage}$", (ROOT / "Dockerfile").read_text(), re.MULTILINE | re.IGNORECASE)


@pytest.mark.long
def test_the_question_to_duckdb_has_an_answer(reader: Path) -> None:
    (shown,) = of("duckdb", SHOWN)
    with contextlib.chdir(reader / "results" / "whole"):
        assert duckdb.sql(shown.words[-1]).fetchall()


def test_what_sed_changes_is_in_the_file() -> None:
    found = of("sed", SHOWN)
    assert found
    for shown in found:
        _, old, new, _ = shown.words[1].split("/")
        text = (ROOT / shown.words[2]).read_text()
        assert old in text and load(ROOT / shown.words[2]).name
        assert (ROOT / "lab/dedup_lab/systems/locks" / f"kafka-{new.rpartition(' ')[2]}.txt").is_file()


def test_every_alert_of_the_chart_is_in_the_operations_guide() -> None:
    rules = yaml.safe_load((ROOT / "charts/dedup-operator/files/rules.yaml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert alerts == set(re.findall(r"^\| `(\w+)`", (ROOT / "docs/operations.md").read_text(), re.MULTILINE))
