"""`report.html`: one page that convinces a colleague who was not there.

It is one file with everything in it: no script, no font and no image from elsewhere, so that it opens from a disk and
prints (docs/decisions/058). Its words and numbers are those of `dedup.judgement.tables`, as on the terminal. Drawings
are made of the histories below the results folder; where a history is missing, its numbers are still those of the
summary. The page is written after the summary and never changes a verdict.
"""

from collections.abc import Iterable
from importlib import resources
from typing import Any, Final

import yaml
from jinja2 import Environment, StrictUndefined

from dedup.errors import DedupError
from dedup.judgement import tables
from dedup.judgement.summaries import GroupRow, Summary
from dedup.wire.manifests import Manifest
from dedup_lab.reporting import drawings, sections
from dedup_lab.reporting.choices import chosen
from dedup_lab.reporting.configurations import clients
from dedup_lab.reporting.sections import Sections
from dedup_lab.results import EXPERIMENT, Results

SIGNS: Final = {"pass": "✓", "fail": "✗", "inconclusive": "?", "error": "!"}
NOT_RECORDED: Final = (
    "The time at which a single message was sent or acknowledged. Latencies are counted by second and bucket, too long "
    "by at most the time between two looks at the sender and at the outcomes (docs/history.md); runs of an older "
    "dedup, of clients that are programs, and of producers that send messages again have none.",
    "The time at which a message was read: reading begins after all faults have healed. So there is no curve of "
    "reading, only an average.",
    "What brokers and clients said to each other (but for runs in which one frame was struck), and the times at which "
    "brokers appended.",
)


def render(results: Results, summary: Summary) -> str:
    """The page as text."""
    choice = chosen(summary.runs)
    drawn = Sections(results, choice.full)
    full = [drawn.full(run) for run in choice.full]
    small = [drawn.small(run) for run in choice.small]
    opened = [(each.run, each.manifest) for each in full] + [(each.run, each.manifest) for each in small]
    manifests = {run.run_id: manifest for run, manifest in opened if manifest is not None}
    template = _environment().from_string(_file("report.html.j2"))
    return template.render(
        summary=summary,
        style=_file("report.css"),
        signs=SIGNS,
        say=tables,
        tell=sections,
        sums=tables.sums(summary.systems),
        merits=list(tables.merits(summary)),
        blocks={tables.name_of(group): _blocks(group) for group in summary.systems},
        choice=choice,
        full=full,
        small=small,
        manifests=manifests,
        clients=list(clients(manifests.values())),
        experiment=_experiment(results),
        dedup=_testers(manifests.values()),
        not_recorded=NOT_RECORDED,
    )


def _blocks(group: GroupRow) -> drawings.Drawing | None:
    if not group.block_lengths:
        return None
    return drawings.blocks(group.block_lengths, group.block_distances)


def _experiment(results: Results) -> dict[str, Any] | None:
    """The experiment as it was run, as `dedup run` takes it; None if the folder has none that can be read."""
    try:
        found = results.experiment()
    except (DedupError, OSError, ValueError):
        return None
    document = found.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "name": EXPERIMENT,
        "text": yaml.safe_dump(document, sort_keys=False, allow_unicode=True),
        "digest": found.digest(),
        "seed": found.spec.seed,
    }


def _testers(manifests: Iterable[Manifest]) -> list[str]:
    return sorted({each.versions["dedup"] for each in manifests if "dedup" in each.versions})


def _environment() -> Environment:
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def _file(name: str) -> str:
    return resources.files("dedup_lab.reporting").joinpath(name).read_text(encoding="utf-8")
