"""What a page tells of one run beside its row in the tables: the drawings and their captions, or why there are none.

A history that is missing, damaged or foreign costs its own drawings and nothing else: its section says so in one line.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from dedup.errors import DedupError, EvidenceError, one_line
from dedup.history.attempts import folder_of
from dedup.history.histories import damages, read_manifest
from dedup.history.reports import Look, recall
from dedup.history.stores import Place
from dedup.judgement import tables
from dedup.judgement.summaries import RunRow, histogram
from dedup.wire.manifests import Manifest
from dedup_report import captions, diagrams, drawings, orders
from dedup_report.drawings import Drawing
from dedup_report.latencies import latencies_of
from dedup_report.orders import Jumps
from dedup_report.rates import rates_of

FAULT_COLUMNS: Final = (
    *("name", "kind", "struck", "asked at message", "effect at message", "in flight to it"),
    *("injected to healed", "clients noticed", "result"),
)


class Figure(NamedTuple):
    """A drawing, what it is, and its caption; without a drawing the caption says why."""

    title: str
    drawing: Drawing | None
    caption: tuple[str, ...]


class Section(NamedTuple):
    """A run in full."""

    run: RunRow
    where: str
    """Its folder, below the results folder."""
    manifest: Manifest | None
    problem: str | None
    """Why nothing of its history is drawn."""
    warning: str | None
    """How the drawing and the judges' counts differ."""
    figures: tuple[Figure, ...]


class Small(NamedTuple):
    """A run in small."""

    run: RunRow
    manifest: Manifest | None
    drawing: Drawing | None
    problem: str | None


class Sections:
    """The histories of a results folder, or of an experiment's place in a store, opened as they are needed."""

    def __init__(self, root: Place, runs: tuple[RunRow, ...], look: Look = damages) -> None:
        """`runs` will be drawn in full; their jumps are read from the table of findings at once."""
        self._root, self._look = root, look
        self._jumps = self._listed(runs)

    def full(self, run: RunRow) -> Section:
        """A run with all its drawings."""
        opened = self._open(run)
        where = f"runs/{run.run_id}/attempt-{run.attempt}"
        if isinstance(opened, str):
            return Section(run, where, None, opened, None, tuple(_blocks(run)))
        folder, manifest = opened
        try:
            rates, told = rates_of(folder, manifest), latencies_of(folder, manifest)
            grid = orders.grid_of(folder, manifest, drawings.COLUMNS, drawings.ROWS)
            jumps = self._jumps_of(run, folder)
        except _UNREADABLE as error:
            return Section(run, where, manifest, _words(error), None, tuple(_blocks(run)))
        said = tuple(captions.of_timeline(rates, told, run)) if rates else (captions.NO_TIMES,)
        latencies = None if isinstance(told, str) else told
        figures = (
            Figure(
                "Rates and latency" if latencies else "Rates",
                drawings.timeline(rates, latencies) if rates else None,
                said,
            ),
            Figure("Order", drawings.order(grid, jumps), tuple(captions.of_order(grid, jumps))),
            *_blocks(run),
            *(Figure("The struck frame", *each) for each in diagrams.of_run(folder)),
        )
        warning = None if run.counts is None else orders.differs(grid, jumps, run.counts)
        return Section(run, where, manifest, None, warning, figures)

    def small(self, run: RunRow) -> Small:
        """A run with one small drawing."""
        opened = self._open(run)
        if isinstance(opened, str):
            return Small(run, None, None, opened)
        folder, manifest = opened
        try:
            grid = orders.grid_of(folder, manifest, drawings.SMALL_COLUMNS, drawings.SMALL_ROWS)
            return Small(run, manifest, drawings.small(grid, rates_of(folder, manifest)), None)
        except _UNREADABLE as error:
            return Small(run, manifest, None, _words(error))

    def _open(self, run: RunRow) -> tuple[Place, Manifest] | str:
        if {"", ".", ".."} & set(run.run_id.split("/")) or "/" in run.run_id:
            return "its name is no run's name"
        folder = folder_of(self._root, run.run_id, run.attempt)
        try:
            manifest = read_manifest(folder)
            found = self._look(folder, manifest)
        except _UNREADABLE as error:
            return _words(error)
        if found:
            return f"its history is damaged: {found[0]}" + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")
        return folder, manifest

    def _listed(self, runs: tuple[RunRow, ...]) -> dict[tuple[str, int], Jumps] | None:
        try:
            return orders.jumps_of(self._root, [(run.run_id, run.attempt) for run in runs])
        except _UNREADABLE:
            return None

    def _jumps_of(self, run: RunRow, folder: Place) -> Jumps | None:
        """From the table of findings; where there is none, those that a judge lists."""
        if self._jumps is not None:
            return self._jumps[run.run_id, run.attempt]
        answer = recall(folder, lambda *_: ()).said
        return None if answer is None else orders.jumps_said(answer)


def _blocks(run: RunRow) -> Iterator[Figure]:
    distances = histogram(run.findings.block_distances) if run.findings else ()
    if run.block_lengths:
        blocks = sum(each.blocks for each in run.block_lengths)
        said = (f"{blocks:,} duplicate {'block' if blocks == 1 else 'blocks'} of {run.run_id}.",)
        yield Figure("Duplicate blocks", drawings.blocks(run.block_lengths, distances), said)
    else:
        yield Figure("Duplicate blocks", None, (captions.of_blocks(run),))


_UNREADABLE = (DedupError, OSError, pa.ArrowException, ValueError)


def _words(error: Exception) -> str:
    """An error as a part of a sentence on a page."""
    if isinstance(error, EvidenceError):
        return one_line(f"{error.got}; {error.rule}")
    return one_line(str(error).partition("\n")[0] or type(error).__name__)


def fault_rows(run: RunRow) -> Iterator[tuple[str, ...]]:
    """The cells of FAULT_COLUMNS for each fault of a run."""
    for fault in run.faults:
        whole = fault.requested_message is None and fault.requested_time is None
        noticed = ", ".join(f"{number:,} {kind}" for kind, number in fault.client_witness.items())
        yield (
            fault.name,
            fault.kind,
            fault.target or "-",
            "the whole run" if whole else fault.requested_time or f"{fault.requested_message:,}",
            "-" if whole or fault.actual_message is None else f"{fault.actual_message:,}",
            "-" if whole else "not known" if fault.in_flight is None else f"{fault.in_flight:,}",
            "-" if fault.seconds is None else f"{fault.seconds:.2f} s",
            noticed or "-",
            fault.vacuous or ("it struck and healed" if fault.heal_proven else "its heal is not proven"),
        )


def evidence_lines(run: RunRow) -> Iterator[str]:
    """The findings of a run in sentences: sums first, then the longest ones, witnesses, and forbidden jumps."""
    if run.findings is not None:
        yield from (f"{each.messages:,} {tables.finding(each)}" for each in run.findings.sums)


def examples(run: RunRow) -> Iterator[str]:
    """A few telling findings."""
    if run.findings is not None:
        yield from tables.telling(run.findings)


def witnesses(run: RunRow) -> Iterator[str]:
    """The messages against the expectation, as the judges name them."""
    yield from map(tables.witness, run.witnesses)
    yield from map(tables.backward, run.backward)
