"""`dedup compare`: read results from folders, stores and clusters, compare them, and print what came of it.

A result is the `summary.json` of a finished experiment, with the `experiment.json` beside it that says what was run.
Both are small; no history is opened. What the comparison says is decided in `dedup.judgement.comparisons`.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape

from dedup.errors import DedupError, EvidenceError, SpecificationError
from dedup.history.attempts import LOGS, RUNS
from dedup.history.reports import AT_ONCE, EXPERIMENT, SUMMARY
from dedup.history.stores import Place, below, place, reached
from dedup.judgement.comparisons import Comparison, compare
from dedup.judgement.conditions import Result
from dedup.judgement.summaries import Summary
from dedup.judgement.verdicts import Verdict
from dedup_lab.cluster import access as clusters
from dedup_lab.cluster import resources
from dedup_lab.results import STATE, content_of, experiment_of
from dedup_lab.terminal import comparisons as terminal

CLUSTER: Final = "k8s://"
EXIT_WORSE: Final = Verdict.FAIL.exit_code
_NAMED: Final = re.compile(r"(?P<name>[^\s=/:]+)=(?P<path>.+)")
_OTHERS: Final = frozenset({RUNS, LOGS, "verification"})
"""The folders of a result; a summary.json in one of them is another's."""


class Source(NamedTuple):
    """Where a result lies, and what the comparison calls it."""

    name: str
    where: Place


def run(
    arguments: Sequence[str],
    *,
    show: Callable[[Comparison, Console], None],
    confidence_percent: float,
    fail_on_worse: bool,
    trend: bool,
    console: Console,
    log: Console,
) -> int:
    """Compare the results, or follow an experiment over time; prints, and returns the exit code.

    0: they were compared. 1: `fail_on_worse` was asked, and something got worse.
    """
    sources = named([source_of(each) for each in arguments])
    results = executions(sources, log) if trend else _read_all(sources)
    comparison = compare(results, confidence_percent)
    show(comparison, console)
    return EXIT_WORSE if fail_on_worse and comparison.worse else 0


SHOWN: Final[dict[str, Callable[[Comparison, Console], None]]] = {
    "table": terminal.show,
    "markdown": terminal.show_markdown,
    "json": terminal.show_json,
}
TRENDS: Final[dict[str, Callable[[Comparison, Console], None]]] = SHOWN | {
    "table": terminal.show_trend,
    "markdown": terminal.show_trend_markdown,
}


def source_of(argument: str) -> Source:
    """What an argument names: `PATH`, `NAME=PATH`; a path is a folder, `s3://…` or `k8s://CONTEXT/NAMESPACE/NAME`."""
    match = None if Path(argument).exists() else _NAMED.fullmatch(argument)
    name, path = (match["name"], match["path"]) if match else ("", argument)
    if path.startswith(CLUSTER):
        return _in_cluster(name, path)
    where = place(path)
    tail = where.resolve().name if isinstance(where, Path) else where.name
    return Source(name or re.sub(r"\s", "_", tail) or path, where)


def named(sources: Sequence[Source]) -> list[Source]:
    """The sources with different names: of those with the same one, each is called after its whole path."""
    often = Counter(source.name for source in sources)
    return [each if often[each.name] == 1 else each._replace(name=str(each.where)) for each in sources]


def read(source: Source) -> Result:
    """The result at a place. EvidenceError, in one line, if there is none, or one that no comparison can use."""
    with reached(source.where):
        content = content_of(source.where / SUMMARY)
        if content is None:
            raise _no_summary(source.where)
        try:
            summary = Summary.model_validate_json(content)
        except ValidationError as error:
            raise _unusable(source.where / SUMMARY, error) from None
        if not summary.experiment:
            raise EvidenceError(
                where=str(source.where / SUMMARY),
                got="the summary of single histories, without an experiment",
                rule="a comparison needs the result of an experiment: runs that were planned",
                todo="give the folder that dedup run wrote",
            )
        experiment = experiment_of(source.where, summary.spec_digest, "comparison", "the summary beside it")
        return Result(source.name, experiment, summary)


def executions(sources: Sequence[Source], log: Console) -> list[Result]:
    """Every finished execution at or below the places, by the time of its first run; unfinished ones are named.

    SpecificationError if they are of several experiments.
    """
    found: list[Source] = []
    for source in sources:
        with reached(source.where):
            complete, unfinished = _executions_below(source.where)
        for name in unfinished:
            log.print(f"left out: {escape(str(source.where / name))} is unfinished", soft_wrap=True)
        own = [(PurePosixPath(name).name, source.where / name) for name in complete]
        found += [Source(name, where) if name else source for name, where in own]
    if not found:
        raise _no_summary(sources[0].where)
    results = sorted(_read_all(named(found)), key=_begun)
    names = sorted({each.summary.experiment for each in results})
    if len(names) > 1:
        raise SpecificationError(
            where="--trend",
            got=f"results of {', '.join(names)}",
            rule="a trend follows one experiment",
            todo="name its folders, or a folder or prefix that holds its results only",
        )
    return results


def _read_all(sources: Sequence[Source]) -> list[Result]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(read, sources))


def _executions_below(root: Place) -> tuple[list[str], list[str]]:
    """The folders of results below a place, relative to it: those with a summary, and those without one yet."""
    with_file: dict[str, set[str]] = {SUMMARY: set(), EXPERIMENT: set(), STATE: set()}
    for name in below(root):
        path = PurePosixPath(name)
        if path.name in with_file and not _OTHERS & set(path.parts):
            with_file[path.name].add(str(path.parent))
    complete = with_file[SUMMARY]
    return sorted(complete), sorted((with_file[EXPERIMENT] | with_file[STATE]) - complete)


def _begun(result: Result) -> str:
    if result.summary.first_recorded_at is None:
        raise EvidenceError(
            where=result.name,
            got="a summary that does not say when its runs were recorded",
            rule="a trend is ordered by time, and older summaries do not tell it",
            todo="leave this result out",
        )
    return result.summary.first_recorded_at


def _in_cluster(name: str, uri: str) -> Source:
    """The result of a DedupExperiment; its store is reached with the keys and the address in the environment."""
    context, _, rest = uri.removeprefix(CLUSTER).rpartition("/")[0].rpartition("/")
    experiment = uri.rpartition("/")[2]
    if not context or not experiment:
        raise SpecificationError(
            where=uri,
            got="no context or no name",
            rule="an experiment in a cluster is k8s://CONTEXT/NAMESPACE/NAME",
            todo="`kubectl config get-contexts` lists the contexts; k8s://CONTEXT//NAME is in the context's namespace",
        )
    made = clusters.experiment_of(clusters.connected(None, context, rest or None), experiment)
    found = resources.result_of(made)
    where = place(resources.uri_of(found))
    return Source(name or f"{experiment}@{context.rpartition('/')[2]}", where)


def _no_summary(where: Place) -> DedupError:
    names = {PurePosixPath(name).parts[0] for name in below(where)}
    is_unfinished = bool(names & {EXPERIMENT, STATE, RUNS})
    return EvidenceError(
        where=str(where),
        got="an experiment without a summary.json: it is unfinished" if is_unfinished else "no result of an experiment",
        rule="summary.json is written when all runs of an experiment are judged",
        todo="wait for its end, or finish it: dedup run … --resume"
        if is_unfinished
        else "give the folder or prefix that holds summary.json; --trend also takes one that holds several results",
    )


def _unusable(path: Place, error: ValidationError) -> EvidenceError:
    problems = error.errors(include_url=False)
    version = next((each for each in problems if each["loc"] == ("schema_version",)), None)
    got, rule = _what_is_wrong(problems[0]["type"], [str(part) for part in problems[0]["loc"]])
    if version is not None:
        got, rule = f"schema version {version['input']!r:.20}", "this dedup reads version 1"
    return EvidenceError(
        where=str(path), got=got, rule=rule, todo="compare it with the dedup that wrote it, or restore the file"
    )


def _what_is_wrong(kind: str, where: Sequence[str]) -> tuple[str, str]:
    key = ".".join(where) or "document"
    match kind:
        case "json_invalid":
            return "text that is not JSON", "a summary is one JSON document, so this one is damaged"
        case "extra_forbidden":
            return f"the key {key[:60]!r}", "no summary known here has it: a newer dedup wrote it, or another program"
        case "missing":
            return f"nothing at {key[:60]}", "each summary has it, so this is none, or a damaged one"
        case _:
            return f"a wrong value at {key[:60]}", "no summary has it, so this is none, or a damaged one"
