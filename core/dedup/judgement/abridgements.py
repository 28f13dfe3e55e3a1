"""A summary, abridged to what a comparison reads, and sealed: what one cluster tells another of an experiment.

It is a summary like any other, and what compares results needs no word about it. Left out is what only people read:
reasons, witnesses, faults, blocks, findings, the sums, and the counts that no comparison shows. The subjects of all
kinds of workloads are among what is read. The seal is the digest of the text, by which damage and edits by hand are
noticed; who can write both can forge both.
"""

import base64
import binascii
import gzip
import hashlib
import zlib
from typing import Final

from pydantic import Field, ValidationError

from dedup.errors import EvidenceError
from dedup.judgement.counts import COPIES, LOSS, Counts
from dedup.judgement.latencies import Latency
from dedup.judgement.selfchecks import BACKWARD
from dedup.judgement.summaries import GroupRow, RunRow, Summary
from dedup.wire.manifests import Record
from dedup.workloads.registry import KINDS

MOST_CHARACTERS: Final = 24 << 10
"""Of the packed text: it has to fit into a status of Kubernetes."""
_MOST_BYTES: Final = 4 << 20
"""Unpacked: what is larger is not unpacked."""
_SUMMED: Final = ("extra_copies", LOSS, *BACKWARD)
"""The counts that a comparison adds up."""
_ASKED: Final = tuple(dict.fromkeys((COPIES, *(kind.subject.count for kind in KINDS))))
"""The counts of which a comparison asks only whether a run shows any: 1 stands for any number, so that they fit."""


class Sealed(Record):
    """An abridged summary as it travels."""

    packed: str = Field(max_length=MOST_CHARACTERS, description="the JSON, compressed by gzip, in base64")
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$", description="of the JSON")


def sealed(summary: Summary) -> Sealed | None:
    """The summary, abridged; None if there are too many runs."""
    text = abridged(summary).model_dump_json(exclude_defaults=True).encode()
    packed = base64.b64encode(gzip.compress(text, 9, mtime=0)).decode()
    return Sealed(packed=packed, digest=_digest(text)) if len(packed) <= MOST_CHARACTERS else None


def opened(sealed: Sealed, where: str) -> Summary:
    """The summary; EvidenceError in one line, of that place, if the seal is broken."""
    try:
        unpacking = zlib.decompressobj(wbits=31)
        text = unpacking.decompress(base64.b64decode(sealed.packed, validate=True), _MOST_BYTES)
        if not unpacking.eof:
            raise ValueError("it is cut short, or too large")
        if _digest(text) != sealed.digest:
            raise ValueError(f"its digest is {_digest(text)[:19]}, and {sealed.digest[:19]} was told")
        return Summary.model_validate_json(text)
    except ValidationError as error:
        wrong = f"no summary that this dedup knows: {error.errors()[0]['msg']}"
    except (ValueError, binascii.Error, zlib.error) as error:
        wrong = f"a summary that is damaged: {error}"
    raise EvidenceError(
        where=where,
        got=wrong,
        rule="only a summary as its report has sealed it is compared",
        todo="fetch the results and use dedup compare",
    )


def abridged(summary: Summary) -> Summary:
    """The same to a comparison."""
    return summary.model_copy(
        update={
            "reasons": (),
            "systems": tuple(map(_group, summary.systems)),
            "runs": tuple(map(_run, summary.runs)),
            "repetitions": tuple(each.model_copy(update={"reason": ""}) for each in summary.repetitions),
        }
    )


def _group(row: GroupRow) -> GroupRow:
    less: dict[str, object] = {"reasons": (), "block_lengths": (), "block_distances": (), "findings": ()}
    return row.model_copy(update=less | {"strength": None, "sums": Counts()})


def _run(row: RunRow) -> RunRow:
    return RunRow(
        run_id=row.run_id,
        attempt=row.attempt,
        system=row.system,
        variant=row.variant,
        run=row.run,
        recorded_at=row.recorded_at,
        verdict=row.verdict,
        reasons=(),
        effective=row.effective,
        void=row.void,
        counts=None if row.counts is None else _counts(row.counts),
        pace=row.pace,
        latency=row.latency and Latency(p50_ms=row.latency.p50_ms, p99_ms=row.latency.p99_ms),
    )


def _counts(counts: Counts) -> Counts:
    summed = {name: getattr(counts, name) for name in _SUMMED}
    return Counts(**summed, **{name: min(getattr(counts, name), 1) for name in _ASKED})


def _digest(text: bytes) -> str:
    return f"sha256:{hashlib.sha256(text).hexdigest()}"
