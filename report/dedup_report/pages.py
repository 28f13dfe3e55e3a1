"""`report.html`: one page that convinces a colleague who was not there.

It is one file with everything in it: no script, no font and no image from elsewhere, so that it opens from a disk and
prints (docs/decisions/058). Its words and numbers are those of `dedup.judgement.tables`, as on the terminal. Drawings
are made of the histories below the results folder; where a history is missing, its numbers are still those of the
summary. The page is written after the summary and never changes a verdict.
"""

import json
from collections.abc import Iterable
from importlib import resources
from typing import Any, Final

import yaml
from jinja2 import Environment, StrictUndefined

from dedup.errors import DedupError
from dedup.experiment.spec import parse
from dedup.history.histories import damages
from dedup.history.reports import EXPERIMENT, Look
from dedup.history.stores import Place
from dedup.judgement import tables
from dedup.judgement.summaries import GroupRow, Summary
from dedup.wire.manifests import Manifest
from dedup_report import drawings, sections
from dedup_report.choices import chosen
from dedup_report.configurations import clients
from dedup_report.sections import Sections

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


def render(root: Place, summary: Summary, look: Look = damages) -> str:
    """The page as text; `root` is the results folder, or an experiment's place in a store.

    `look` lists the damages of a run's folder: what is damaged is not drawn.
    """
    choice = chosen(summary.runs)
    drawn = Sections(root, choice.full, look)
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
        experiment=_experiment(root),
        dedup=_testers(manifests.values()),
        not_recorded=NOT_RECORDED,
    )


def _blocks(group: GroupRow) -> drawings.Drawing | None:
    if not group.block_lengths:
        return None
    return drawings.blocks(group.block_lengths, group.block_distances)


def _experiment(root: Place) -> dict[str, Any] | None:
    """The experiment as it was run, as `dedup run` takes it; None if the folder has none that can be read."""
    try:
        found = parse(json.loads((root / EXPERIMENT).read_text()), source=str(root / EXPERIMENT))
    except (DedupError, OSError, ValueError, RecursionError):
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
    return resources.files("dedup_report").joinpath(name).read_text(encoding="utf-8")
