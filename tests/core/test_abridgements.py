"""An abridged summary compares like the whole one; a broken seal is noticed; the largest that is allowed fits."""

import base64
import gzip
import random
from typing import Final

import pytest
from tests.core.comparing import kafka, result

from dedup.errors import EvidenceError
from dedup.experiment.comparisons import MOST_RUNS
from dedup.judgement import conditions
from dedup.judgement.abridgements import MOST_CHARACTERS, Sealed, abridged, opened, sealed
from dedup.judgement.comparisons import compare
from dedup.judgement.conditions import Result
from dedup.judgement.counts import COPIES, Counts
from dedup.judgement.latencies import Latency
from dedup.judgement.paces import Pace
from dedup.judgement.summaries import Summary
from dedup.workloads.kinds import WorkloadKind
from dedup.workloads.registry import KINDS

SUBJECTS: Final = frozenset((COPIES, *(kind.subject.count for kind in KINDS)))


def test_a_comparison_reads_nothing_that_is_left_out() -> None:
    first, second = (
        result("a", kafka(), failed=1),
        result("b", kafka("3.9.0"), failed=4, with_copies=5, day=2, rate=700),
    )
    unpacked = [each._replace(summary=opened(travelled(each.summary), each.name)) for each in (first, second)]
    assert compare(unpacked) == compare([first, second])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("there", "different"), [(3, True), (10, False)])
def test_the_subject_of_every_kind_of_workload_travels(
    kind: type[WorkloadKind], there: int, different: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows in all ten runs of a control here; in three of ten runs there, or in all of them."""
    monkeypatch.setattr(conditions, "subject_of", lambda given: kind.subject)
    whole = [showing(result("a"), kind, 10), showing(result("b", day=2), kind, there)]
    found = compare([each._replace(summary=opened(travelled(each.summary), each.name)) for each in whole])
    row = found.row("b", "control")
    assert row is not None and (row.with_subject or row.with_copies).runs_with == there
    assert found.contrasts[0].different is different
    assert found == compare(whole)


def showing(made: Result, kind: type[WorkloadKind], most: int) -> Result:
    """The result, whose controls show what the kind is about in so many runs, and nothing else."""
    runs = tuple(
        run.model_copy(update={"counts": Counts(**{kind.subject.count: 7 if run.run <= most else 0})})
        if run.variant == "control"
        else run
        for run in made.summary.runs
    )
    return made._replace(summary=made.summary.model_copy(update={"runs": runs}))


def travelled(summary: Summary) -> Sealed:
    found = sealed(summary)
    assert found is not None
    return Sealed.model_validate_json(found.model_dump_json())


def test_what_only_people_read_is_left_out() -> None:
    small = abridged(result("a", kafka(), failed=1).summary)
    assert not any(run.witnesses or run.reasons or run.faults for run in small.runs)


def test_the_most_runs_fit_whatever_came_of_them() -> None:
    """Numbers that nothing compresses, in every run."""
    chance = random.Random(1)
    whole = result("a", kafka(runs=MOST_RUNS // 2)).summary
    runs = tuple(
        run.model_copy(
            update={
                "counts": Counts(
                    **{name: chance.randrange(2 if name in SUBJECTS else 10**6) for name in Counts.model_fields}
                ),
                "pace": Pace(
                    acknowledged_per_second=round(chance.random() * 1e5, 1), longest_pause_s=round(chance.random(), 3)
                ),
                "latency": Latency(messages=chance.randrange(10**6), **_random_percentiles(chance)),
                "recorded_at": f"2026-11-25T12:{chance.randrange(60):02}:{chance.randrange(60):02}Z",
            }
        )
        for run in whole.runs
    )
    found = sealed(whole.model_copy(update={"runs": runs}))
    assert found is not None
    assert MOST_CHARACTERS // 2 < len(found.packed) <= MOST_CHARACTERS


def _random_percentiles(chance: random.Random) -> dict[str, float]:
    return {name: float(f"{chance.random() * 1e4:.4g}") for name in ("p50_ms", "p99_ms", "max_ms")}


def test_what_does_not_fit_is_not_sealed() -> None:
    summary = result("a", kafka()).summary
    many = tuple(
        run.model_copy(update={"run_id": f"{hash((run.run_id, n))}"}) for n in range(200) for run in summary.runs
    )
    assert sealed(summary.model_copy(update={"runs": many})) is None


GOOD = sealed(result("a", kafka(runs=1)).summary)
assert GOOD is not None
TEXT = gzip.decompress(base64.b64decode(GOOD.packed))


def packed(text: bytes) -> str:
    return base64.b64encode(gzip.compress(text)).decode()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"packed": packed(TEXT.replace(b'"pass"', b'"fail"'))}, "its digest is sha256:"),
        ({"digest": f"sha256:{'0' * 64}"}, "and sha256:000000000000 was told"),
        ({"packed": GOOD.packed[:-40]}, "damaged"),
        ({"packed": "%%%"}, "damaged"),
        ({"packed": packed(b"0" * (5 << 20))}, "cut short, or too large"),
    ],
)
def test_a_broken_seal_is_one_clear_line(changes: dict[str, str], words: str) -> None:
    assert GOOD is not None
    with pytest.raises(EvidenceError) as caught:
        opened(GOOD.model_copy(update=changes), "cluster there")
    assert words in str(caught.value)
    assert str(caught.value).startswith("cluster there: got ")


def test_its_innocent_twin_opens() -> None:
    assert GOOD is not None
    assert opened(GOOD, "cluster there").runs
