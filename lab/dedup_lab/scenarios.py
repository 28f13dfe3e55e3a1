"""Examples as scenarios: what each shows, which outcome is expected of it, and which published bug it finds again.

An example says it itself. Its opening comment tells people: the first sentence is what it shows, the line `# Expect:`
what comes out. For programs there are annotations: the seed documents that an example comes from, and of one that finds
a known bug the rest:

    dedup.dev/seed      the seed documents: "S0", or several
    dedup.dev/issue     the page of the bug, or several
    dedup.dev/expect    the verdict of each system: "kafka-2-4=inconclusive kafka-2-5=pass"; or of each of its variants,
                        if these differ in it: "pulsar/new=fail pulsar/old=pass"
    dedup.dev/sign      a regular expression: a line of it is in the log of each run that does not pass, in no other's

A bug need not break a promise. A client that gives up has lost nothing that was acknowledged: then the verdict is
*inconclusive*, and the sign says that it was this bug.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from dedup.errors import SpecificationError
from dedup.experiment.spec import Experiment, load
from dedup.judgement.summaries import RunRow, Summary
from dedup.judgement.verdict_kinds import Verdict, worst
from dedup.process import machines

ISSUE: Final = "dedup.dev/issue"
EXPECT: Final = "dedup.dev/expect"
SIGN: Final = "dedup.dev/sign"
SEED: Final = "dedup.dev/seed"
LOG: Final = "producer.log"
"""Where a client's own words are, in the folder of an attempt."""
_KIND: Final = re.compile(r"^kind: DedupExperiment$", re.MULTILINE)


class Bug(NamedTuple):
    """A published bug that an example finds again."""

    issue: str
    expected: Mapping[str, Verdict]
    """The verdict of each system or SYSTEM/VARIANT: those with the bug, and those without."""
    sign: re.Pattern[str] | None
    """What a run with the bug has in its log; None: the verdict alone tells."""


class Scenario(NamedTuple):
    """One example."""

    path: Path
    name: str
    systems: tuple[str, ...]
    faults: tuple[str, ...]
    """Their kinds, in order."""
    seeds: tuple[str, ...]
    """The seed documents that its annotation names: S0, S1, …"""
    shows: str
    """The first sentence of its comment."""
    outcome: str
    """What comes out, in its own words."""
    bug: Bug | None


def here() -> Path:
    """The examples of this clone; else those below the working folder."""
    beside = Path(__file__).parents[2] / "examples"
    return beside if beside.is_dir() else Path("examples")


def read(path: Path) -> Scenario:
    """The scenario of one file; SpecificationError if it is no experiment, or its annotations are wrong."""
    experiment, opening = load(path), _opening(path.read_text(encoding="utf-8"))
    try:
        bug = bug_of(experiment)
    except SpecificationError as error:
        raise SpecificationError(
            where=f"{path}: {error.where}", got=error.got, rule=error.rule, todo=error.todo
        ) from None
    shows, _, rest = opening.partition("Expect: ")
    return Scenario(
        path=path,
        name=experiment.name,
        systems=tuple(system.name for system in experiment.spec.systems),
        faults=tuple(dict.fromkeys(fault.kind for fault in experiment.spec.all_faults)),
        seeds=tuple(experiment.metadata.annotations.get(SEED, "").split()),
        shows=re.split(r"\.\s", shows, maxsplit=1)[0].rstrip("."),
        outcome=rest.partition("  ")[0],
        bug=bug,
    )


def bug_of(experiment: Experiment) -> Bug | None:
    """The bug that an experiment's annotations name; None if they name none, SpecificationError if they are wrong."""
    told = experiment.metadata.annotations
    if EXPECT not in told:
        return None
    expected = dict(_expected(experiment, word) for word in told[EXPECT].split())
    missing = [cell for cell in _cells(experiment) if not {cell, cell.partition("/")[0]} & expected.keys()]
    if missing:
        raise _wrong(
            EXPECT,
            told[EXPECT],
            f"it says nothing of {missing[0]}",
            "add SYSTEM=VERDICT, or SYSTEM/VARIANT=VERDICT for each of its variants",
        )
    try:
        sign = re.compile(told[SIGN]) if SIGN in told else None
    except re.error as error:
        raise _wrong(SIGN, told[SIGN], f"it is no regular expression: {error}", "correct it") from None
    return Bug(told.get(ISSUE, ""), expected, sign)


def found(folder: Path) -> list[Scenario]:
    """All experiments below a folder, by path; SpecificationError if there is none, or one is wrong."""
    with machines.at(f"folder {folder}"):
        paths = [path for path in sorted(folder.rglob("*.yaml")) if _KIND.search(_text(path))]
    if not paths:
        raise SpecificationError(
            where=str(folder),
            got="no file with kind: DedupExperiment",
            rule="scenarios are the experiments below a folder",
            todo="name the folder examples of a clone of this repository, or your own",
        )
    return [read(path) for path in paths]


def unlike(bug: Bug, summary: Summary, root: Path) -> list[str]:
    """What is not as the bug's example says, in words, of an experiment that has been run into the folder `root`."""
    said = []
    for name, expected in bug.expected.items():
        verdict = worst(row.verdict for row in summary.systems if name in (row.system, f"{row.system}/{row.variant}"))
        if verdict is not expected:
            said.append(f"{name}: the verdict is {verdict}, and {expected} was expected")
        for run in summary.runs if bug.sign is not None else ():
            of = (run.system, f"{run.system}/{run.variant}")
            if name in of and shows(bug, root, run) != (run.verdict is not Verdict.PASS):
                said.append(
                    f"{run.run_id}: {'a' if run.verdict is Verdict.PASS else 'no'} line of its log has the sign"
                )
    return said


def shows(bug: Bug, root: Path, run: RunRow) -> bool:
    """Whether a run below the folder `root` shows the bug: its log has the sign; where there is none, it failed."""
    if bug.sign is None:
        return run.verdict is Verdict.FAIL
    log = root / (run.path or "") / LOG
    with machines.at(f"log {log}"):
        return bug.sign.search(log.read_text(errors="replace")) is not None


def _text(path: Path) -> str:
    """To search in; what is no UTF-8 in it is said when it is loaded."""
    return path.read_text(encoding="utf-8", errors="replace")


def _opening(text: str) -> str:
    """The comment at the head of a file, its lines joined; two spaces between paragraphs."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip() or " ")
    return " ".join(lines).strip()


def _expected(experiment: Experiment, word: str) -> tuple[str, Verdict]:
    name, _, verdict = word.partition("=")
    systems = [system.name for system in experiment.spec.systems]
    if name not in (*systems, *_cells(experiment)):
        raise _wrong(EXPECT, word, f"the systems are {', '.join(systems)}", "write SYSTEM=VERDICT for each of them")
    try:
        return name, Verdict(verdict)
    except ValueError:
        raise _wrong(EXPECT, word, f"a verdict is {', '.join(Verdict)}", "write one of them") from None


def _cells(experiment: Experiment) -> list[str]:
    return [
        f"{system.name}/{variant.name}" for system in experiment.spec.systems for variant in experiment.spec.variants
    ]


def _wrong(annotation: str, got: str, rule: str, todo: str) -> SpecificationError:
    return SpecificationError(where=f"metadata.annotations.{annotation}", got=got, rule=rule, todo=todo)
