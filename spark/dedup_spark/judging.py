"""The steps of a verification, with workers in this process (local.py) or on Spark (job.py).

    files of all runs ─── inspect ─> damages, groups       the files are compared with their manifests
    chunks of all runs ── reduce ──> islands, notes        where the rows lie
    notes ─────────────── carry ───> what crosses borders  a few numbers a chunk, here
    suspects ──────────── clean ──> their islands, notes   only runs whose positions do not rise
    islands ───────────── judge ───> findings, tables      by ranges of values, then by blocks and ranges
    torn ──────────────── tails ───> gaps                  only runs with a batch that may be read in part
    findings, gaps ───────────────> one answer a run

Rows and islands stay with the workers. They return two things. Notes grow with a history, but are much smaller: a few
numbers for each lane and span of a chunk, and for every 4096 entries of a run that was cleaned. Findings hardly grow
(events and witnesses have a limit, and block lengths are counted), and a task returns those of a run only once. Lists
without a limit go from the workers directly to files (dedup_spark/engine/tables.py).

docs/design.md §6 leaves some rules open. The engine and the oracle decide them as follows:

- A *lane* is one (partition, stream). Its first message is compared with one below the lowest value that was sent in
  its stream; 0 if none was. Re-reads (all but the first arrival of identical rows) are dropped before all else.
- A value is an `ack_mismatch` if any of its ok outcomes names a position at which it was not read, though it was
  read.
- A value is `misplaced` if any copy of it was read in another partition than the manifest names for its stream, or for
  what the application sends again of it. If it names none, no value of the stream is misplaced.
- `position_falls` counts the rows, re-reads dropped, whose position lies below that of the row before it in its
  partition: by ledger, entry, batch index.
- An acknowledged position exists. So if an entry below the end was read in part, the batch indexes above the highest
  one read, up to the highest one acknowledged, are a gap.
- `position_conflicts` counts positions; its witnesses are the messages read there. `received` is without re-reads.
- A witness names its first MAX_WITNESSES copies, by partition. The lowest MAX_WITNESSES gaps are named, then how many
  more there are.
- `ok` of a value that was never sent counts as positive_ack (and as outcomes_unsent); `unknown` counts sent values
  only.
- Of two ends of one ledger, the higher one counts.
- Outcomes of one value: ok if any is ok; fail if all are fail and each of its sends has one; else unknown.
- A *send* is a (session, attempt) of a value; in schema 1 a value has one. Copies of one send are copied by retry;
  copies of several attempts of one session by resend; copies of several sessions by session.
- A value was processed as often as it has rows in `processed`, in whatever lives and at whatever positions. Copies of a
  value in the log are not told apart: that each was processed once is no `processed_twice`.
- A transaction is a (session, number); a value is in at most one. Nothing of it is to be read if its abort was
  confirmed or its commit never asked for; all of it, if its commit was confirmed; else all or nothing. It is torn if
  some value of it was read, in whatever stream, and others were not; those that provably never left the client do not
  count.
- What an application has committed of a partition is its last confirmed commit. One in doubt that came after that
  permits to begin there, too. A session is held against what was committed when it began; before the first confirmed
  commit against nothing. Copies of a value in the log are not told apart: one is enough.
- A transaction hangs in a partition if the manifest names it as open there, and the audit saw it for longer than its
  coordinator needs to end it: for 0 s, if no coordinator knows it. The lowest MAX_WITNESSES are named, as gaps are.
- An entry that the manifest names as a hole holds no message, and is no gap.
- A copy of a value that was sent, of a send that was not, is `unsent_copies`, the tester's error. An outcome of a send
  that was not is `outcomes_unsent`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

from dedup.history.histories import WITH_SESSIONS
from dedup.history.stores import Place
from dedup.judgement.anomalies import Verification
from dedup.judgement.counts import JUMP_COUNTS
from dedup.judgement.findings import RANGES, windows_of
from dedup.wire.manifests import Application, Manifest, Transactions
from dedup_spark.engine import commits, transactions
from dedup_spark.engine.borders import Carry, carry, falls, gaps, sends, suspects
from dedup_spark.engine.chunks import CHUNK_ROWS, KINDS, Chunk, Note, chunks_of, ends_of
from dedup_spark.engine.clocks import borders_of
from dedup_spark.engine.commits import Zone
from dedup_spark.engine.files import File, Inspected, files_of
from dedup_spark.engine.findings import Findings
from dedup_spark.engine.islands import READ, TRANSACTION
from dedup_spark.engine.positions import Ends
from dedup_spark.engine.tables import Tables, close, tables_in
from dedup_spark.engine.transactions import Known, Seen, seen_of
from dedup_spark.evidence import Problem, damaged

OF_MESSAGES: Final = tuple(kind for kind in KINDS.values() if kind != TRANSACTION)
"""The kinds of rows of which each is one message: a row of `transactions` has many."""


class Workers(Protocol):
    """The workers, which hold the islands."""

    name: str

    def inspect(self, files: Sequence[File]) -> list[Inspected]:
        """Compare files with their manifests, in any order."""

    def reduce(self, chunks: Sequence[Chunk], ends: Mapping[int, Ends], known: Mapping[int, Known]) -> list[Note]:
        """Reduce chunks to islands and keep the islands; return a note for each chunk.

        `known`: the transactions of each run that has some.
        """

    def clean(self, chunks: Sequence[Chunk], ends: Mapping[int, Ends]) -> list[Note]:
        """Replace the islands of chunks of messages read by those of their rows without re-reads.

        Notes with spans describe positions (and re-reads and disputes); notes with lanes describe chunks.
        """

    def judge(self, carry: Carry, without: AbstractSet[int], tables: Tables) -> Iterable[tuple[int, Findings]]:
        """The findings of all runs except those `without`: any number a run; their rows go to `tables`."""

    def tails(self, runs: AbstractSet[int], ends: Mapping[int, Ends]) -> Iterable[tuple[int, Findings]]:
        """The gaps at the end of batches of those runs: any number of findings a run."""


def verify(
    folders: Sequence[tuple[Place, Manifest]],
    workers: Workers,
    chunk_rows: int = CHUNK_ROWS,
    findings_folder: Place | None = None,
) -> tuple[list[Verification], list[Problem]]:
    """Verify folders; a folder whose files differ from its manifest becomes a problem.

    With a `findings_folder` every finding is written there, too (dedup_spark/engine/tables.py).
    """
    inspected = workers.inspect(list(files_of(folders)))
    wrong = _damages(inspected)
    windows = [windows_of(manifest) for _, manifest in folders]
    whole = [(run, folder, windows[run]) for run, (folder, _) in enumerate(folders) if run not in wrong]
    borders, unread = borders_of(whole)
    known, strange = transactions.known_of([run for run in _transactional(folders) if run[0] not in wrong])
    zones, odd = commits.zones_of([run for run in _committing(folders) if run[0] not in wrong])
    wrong |= unread | strange | odd
    tables = tables_in(findings_folder, folders, windows)
    chunks = chunks_of([each for each in inspected if each.file.run not in wrong], chunk_rows, borders)
    ends = {run: ends_of(manifest) for run, (_, manifest) in enumerate(folders)}
    notes = workers.reduce(chunks, ends, known)
    listed = _by_run(notes, len(folders))
    faulty = {run: _faults(manifest, listed[run]) for run, (_, manifest) in enumerate(folders)}
    wrong |= {run: found for run, found in faulty.items() if run not in wrong and found}
    notes = [note for note in notes if note.run not in wrong]
    unclear = suspects(notes)
    if unclear:
        repeated = [chunk for chunk in chunks if chunk.kind == READ and chunk.run in unclear]
        notes = [note for note in notes if not (note.kind == READ and note.run in unclear)]
        notes += workers.clean(repeated, ends)
    findings = {run: _begun(manifest) for run, (_, manifest) in enumerate(folders)}
    for note in notes:
        findings[note.run].numbers.update({"re_reads": note.re_reads, "position_conflicts": note.disputes})
        findings[note.run].rows[READ] += note.re_reads
    seen = seen_of(known, {run: [note.seen for note in listed[run]] for run in known})
    for run, part in workers.judge(_carry(notes, [each for _, each in folders], seen, zones), wrong.keys(), tables):
        findings[run].add(part)
    for run, number in falls(notes).items():
        findings[run].numbers["position_falls"] += number
    for (run, stream), bounds in sends(notes).items():
        findings[run].sent[stream] = bounds
    for run, missing in gaps(notes, ends).items():
        findings[run].add(Findings(gaps=missing))
    if torn := {run for run in findings if findings[run].torn}:
        for run, part in workers.tails(torn, ends):
            findings[run].add(part)
    # A chunk that had to be reduced again may have become unreadable: then its islands are missing here.
    wrong |= {
        run: lost
        for run, (_, manifest) in enumerate(folders)
        if run not in wrong and (lost := _lost(findings[run].rows, manifest, known.get(run)))
    }
    wrong |= {run: lost for run in findings.keys() - wrong.keys() if (lost := _unlisted(findings[run]))}
    sound = [(run, str(folder)) for run, (folder, _) in enumerate(folders) if run not in wrong]
    verifications = [findings[run].verification(path, workers.name, windows[run]) for run, path in sound]
    close(tables, verifications)
    return verifications, [_problem(folders[run][0], wrong[run]) for run in sorted(wrong)]


def _begun(manifest: Manifest) -> Findings:
    """What the manifest alone says."""
    hanging = transactions.hanging_of(manifest)
    found = Findings(hanging=hanging)
    found.numbers["hanging_transaction"] = len(hanging)
    return found


def _damages(files: Sequence[Inspected]) -> dict[int, list[str]]:
    """The damages of each damaged run, in the order of the files' names."""
    wrong: dict[int, list[str]] = {}
    for file, damages, _ in sorted(files):
        if damages:
            wrong.setdefault(file.run, []).extend(damages)
    return wrong


def _problem(folder: Place, found: Sequence[str]) -> Problem:
    return Problem(path=str(folder), error=str(damaged(folder, found)))


def _transactional(folders: Sequence[tuple[Place, Manifest]]) -> list[tuple[int, Place, Transactions]]:
    """The runs whose producer sent in transactions, by number, with what it said of them."""
    told = ((run, folder, it.producer.transactions) for run, (folder, it) in enumerate(folders))
    return [(run, folder, said) for run, folder, said in told if said is not None]


def _committing(folders: Sequence[tuple[Place, Manifest]]) -> list[tuple[int, Place, Application]]:
    """The runs whose application's commits are there, by number, with what is said of it."""
    told = ((run, folder, it.consumer.application) for run, (folder, it) in enumerate(folders))
    return [(run, folder, said) for run, folder, said in told if said is not None and said.commits is not None]


def _by_run(notes: Sequence[Note], runs: int) -> list[list[Note]]:
    listed: list[list[Note]] = [[] for _ in range(runs)]
    for note in notes:
        listed[note.run].append(note)
    return listed


def _carry(
    notes: Iterable[Note],
    manifests: Sequence[Manifest],
    seen: Mapping[int, Seen],
    zones: Mapping[int, Sequence[Zone]],
) -> Carry:
    """What crosses the borders of chunks, with what the manifests say of each run."""
    runs = list(enumerate(manifests))
    return carry(
        notes,
        homes={run: each.stream_partitions or () for run, each in runs},
        recorded=tuple(run for run, each in runs if each.schema_version >= WITH_SESSIONS),
        resent={run: each.resent_partitions or () for run, each in runs},
        processed=tuple(run for run, each in runs if each.consumer.application is not None),
        seen=seen,
        zones=zones,
    )


def _faults(manifest: Manifest, notes: Sequence[Note]) -> list[str]:
    """How the rows of a run differ from its manifest."""
    if problems := [note.problem for note in notes if note.problem is not None]:
        return problems
    read: Counter[int] = Counter()
    for note in notes:
        read[note.kind] += note.rows
    named, found = len(manifest.producer.sessions), max((note.sessions for note in notes), default=0)
    if manifest.schema_version >= WITH_SESSIONS and found > named:
        return [f"session {found - 1} has rows, and the manifest names {named} sessions"]
    return _differences(read, manifest, "rows")


def _unlisted(found: Findings) -> list[str]:
    """Where findings and counts differ; both are made from the same islands, in different ways."""
    return [
        f"{kind}: {messages} messages in the findings, {found.numbers[kind]} counted"
        for kind in (*JUMP_COUNTS, *RANGES)
        if (messages := found.sums[kind, "messages"]) != found.numbers[kind]
    ]


def _lost(rows: Counter[int], manifest: Manifest, known: Known | None) -> list[str]:
    """How many rows were judged, where it is another number than there are; of transactions, how many values."""
    values = 0 if known is None else int((known.last - known.first + 1).sum())
    found = _differences(rows, manifest, "rows judged", OF_MESSAGES)
    if rows[TRANSACTION] != values:
        found.append(f"transactions: {rows[TRANSACTION]} values judged, {values} in the table")
    return found


def _differences(
    rows: Counter[int], manifest: Manifest, what: str, rows_of: Collection[int] = tuple(KINDS.values())
) -> list[str]:
    """Where numbers of rows differ from the manifest's; `rows`: by kind; `rows_of`: the kinds that are compared."""
    return [
        f"{table}: {rows[kind]} {what}, {manifest.rows(table)} in the manifest"
        for table, kind in KINDS.items()
        if kind in rows_of and rows[kind] != manifest.rows(table)
    ]
