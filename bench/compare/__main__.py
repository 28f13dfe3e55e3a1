"""Does `dedup compare` find a difference that is there, and claim none that is not?

    python bench/compare [--repetitions N] [--runs N] [--out FOLDER]

Both on real brokers. A difference is made on purpose (purpose.yaml). Then one experiment, half of whose runs break
their promise by the draw of a seed (twins.yaml), is carried out again and again, and each execution is compared with
the one before: what is claimed there is false. It exits with 1 if the difference on purpose is not claimed, or if more
of the others are than the confidence allows. With `--out` an interrupted bench goes on where it was.
What came out: bench/compare/README.md.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from math import comb
from pathlib import Path
from typing import Any, Final

import yaml

HERE: Final = Path(__file__).parent
REPETITIONS: Final = 20
RUNS: Final = 6
CONFIDENCE_PERCENT: Final = 95
LEVELS: Final = (0.05, 0.2, 0.5)
"""Twins reach a p of so little, or less, at most that often. The first is where `dedup compare` claims a difference."""
HARDLY_EVER: Final = 0.01
"""So rarely a right test fails this bench, for each level."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = asked.out or Path(scratch)
        root.mkdir(parents=True, exist_ok=True)
        good = [purpose(root, asked.runs), twins(root, asked.repetitions, asked.runs)]
    return int(not all(good))


def purpose(root: Path, runs: int) -> bool:
    """Whether the difference on purpose is claimed, and called worse; prints the comparison."""
    folder = executed(root, "purpose", "purpose", runs, 1)
    print(dedup("compare", str(folder), "--format", "markdown"), flush=True)
    told = compared(folder)
    return bool(told["contrasts"][0]["different"] and told["worse"])


def twins(root: Path, repetitions: int, runs: int) -> bool:
    """Whether no more differences are claimed between twins than the confidence allows; prints how many were."""
    folders = [executed(root, f"twins-{seed:02}", "twins", runs, seed) for seed in range(1, repetitions + 2)]
    told = [compared(*pair) for pair in itertools.pairwise(folders)]
    failed = [told[0]["rows"][0]["failed"], *(each["rows"][1]["failed"] for each in told)]
    broke, counted = ([each[key] for each in failed] for key in ("runs_with", "runs"))
    print(f"runs that broke the promise: {' '.join(map(str, broke))}; together {sum(broke)} of {sum(counted)}")
    claimed = sum(each["contrasts"][0]["different"] for each in told)
    print(f"{claimed} of {repetitions} comparisons claim a difference at {CONFIDENCE_PERCENT} % confidence")
    p_values = [each["contrasts"][0]["p"] for each in told]
    reached = {level: sum(p <= level for p in p_values) for level in LEVELS}
    for level, number in reached.items():
        print(f"p of {level} or less: {number} of {repetitions}; {most(repetitions, level)} would be allowed")
    print(f"the smallest p: {min(p_values):.3g}", flush=True)
    return claimed == reached[LEVELS[0]] and all(reached[level] <= most(repetitions, level) for level in LEVELS)


def executed(root: Path, name: str, experiment: str, runs: int, seed: int) -> Path:
    """The results folder of an execution, which is begun, or gone on with, if it is not finished."""
    folder, file = root / name, root / f"{name}.yaml"
    if not (folder / "summary.json").exists():
        document = yaml.safe_load((HERE / f"{experiment}.yaml").read_text())
        document["spec"] |= {"runs": runs, "seed": seed}
        file.write_text(yaml.safe_dump(document))
        began = time.monotonic()
        dedup("run", str(file), "--out", str(folder), *(["--resume"] if folder.exists() else []))
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    return folder


def compared(*folders: Path) -> dict[str, Any]:
    """What `dedup compare` says of these results, for programs."""
    said = dedup("compare", *map(str, folders), "--confidence", str(CONFIDENCE_PERCENT), "--format", "json")
    return dict(json.loads(said))


def dedup(*arguments: str) -> str:
    """What the command prints. An experiment that breaks its promise is wanted here."""
    done = subprocess.run([sys.executable, "-m", "dedup_lab.cli", *arguments], capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"dedup {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def most(number: int, level: float) -> int:
    """So many of some tests may reach a level by chance, and hardly ever more do, if each does at most that often."""
    chance, reached = (1 - level) ** number, 0
    while chance < 1 - HARDLY_EVER:
        reached += 1
        chance += comb(number, reached) * level**reached * (1 - level) ** (number - reached)
    return reached


if __name__ == "__main__":
    sys.exit(main())
