"""Damaged evidence: whatever happened to a file of a history, its verdict is *error*, with the file and the reason.

The corruptions are those of `make fuzz` (tests/fuzz/histories.py). Here each is done a few times, and it is checked
that the words name what happened.
"""

import random
from pathlib import Path
from typing import Final

import pytest
from tests.fuzz.histories import (
    AFTER,
    BEFORE,
    MANIFESTS,
    Corruption,
    a_row_short,
    another_ones,
    another_type,
    beyond_what_is_sent,
    bit_flipped,
    corrupted,
    cut_off_and_recorded,
    foreign,
    gone,
    half_written,
    longer,
    manifest_garbled,
    manifest_newer,
    manifest_that_forgets_a_file,
    manifest_truncated,
    manifest_with_less,
    manifest_with_more,
    newer,
    one_too_many,
    out_of_order,
    truncated,
    verdicts,
    with_a_hole,
    write_clean,
)

from dedup.judgement.anomalies import Engine
from dedup.judgement.verdicts import Verdict

pytestmark = pytest.mark.long

EACH: Final = 24

CHANGED: Final = ("in the manifest", "its bytes changed")
NO_PARQUET: Final = ("not a Parquet file",)
NO_COLUMNS: Final = ("another program wrote it, or a newer dedup",)
REASONS: Final[dict[Corruption, tuple[str, ...]]] = {
    truncated: CHANGED,
    bit_flipped: CHANGED,
    longer: CHANGED,
    gone: ("missing",),
    half_written: ("missing", "never closed"),
    another_ones: CHANGED,
    one_too_many: ("not named by the manifest",),
    cut_off_and_recorded: NO_PARQUET,
    foreign: NO_PARQUET,
    newer: NO_COLUMNS,
    another_type: NO_COLUMNS,
    a_row_short: ("rows, ", "do not rise by one"),
    with_a_hole: ("holds nulls",),
    beyond_what_is_sent: ("values",),
    out_of_order: ("do not rise by one",),
    manifest_truncated: ("JSON",),
    manifest_garbled: ("JSON",),
    manifest_newer: ("schema",),
    manifest_with_more: ("key",),
    manifest_with_less: ("this key is required",),
    manifest_that_forgets_a_file: ("not named by the manifest",),
}
"""Of the words that say what is wrong, those that must be among them: one of these."""


def test_the_clean_history_passes(tmp_path: Path) -> None:
    write_clean(tmp_path / "run")
    (verdict,) = verdicts([tmp_path / "run"], tmp_path)
    assert verdict.verdict is Verdict.PASS


@pytest.mark.parametrize("corrupt", [*AFTER, *BEFORE, *MANIFESTS], ids=lambda corrupt: corrupt.__name__)
def test_a_corruption_is_an_error_that_names_the_file_and_the_reason(corrupt: Corruption, tmp_path: Path) -> None:
    write_clean(tmp_path / "clean")
    folders = [tmp_path / f"run-{seed}" for seed in range(EACH)]
    files = [corrupted(random.Random(seed), corrupt, tmp_path / "clean", folder) for seed, folder in enumerate(folders)]
    by_oracle = verdicts(folders, tmp_path / "work", Engine.ORACLE)
    assert {each.verdict for each in by_oracle} == {Verdict.ERROR}
    for folder, file, verdict in zip(folders, files, verdicts(folders, tmp_path / "work"), strict=True):
        said = " ".join(reason.text for reason in verdict.reasons)
        assert verdict.verdict is Verdict.ERROR, (folder.name, said)
        assert named(corrupt, folder, file) in said, said
        assert any(reason in said for reason in REASONS[corrupt]), said


def named(corrupt: Corruption, folder: Path, file: Path) -> str:
    """What must be named as damaged."""
    if corrupt in MANIFESTS:
        return "manifest"
    if corrupt in (a_row_short, out_of_order):  # a row is missed in the whole table
        return "received" if corrupt is out_of_order else file.parent.name
    return file.with_name("99999.parquet").name if corrupt is one_too_many else file.relative_to(folder).as_posix()
