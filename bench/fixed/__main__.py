"""How long a run takes beside its work: everything but producing, fault and heal, and reading back.

    python bench/fixed [--runs N] [--system kafka|pulsar]

It runs an example with few messages and a short fault, by `dedup run`, and reads `fixed_seconds` from its summary.
Exits with 1 if a median misses its target.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from dedup.experiment.spec import load
from dedup.history.reports import SUMMARY

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
TARGETS_S: Final = {"kafka": 1.5, "pulsar": 2.5}
"""Seconds a run, at most."""
MESSAGES: Final = 60_000
STAGES: Final = ("prepare", "start and end the producer", "settle")


def rows(system: str, runs: int, folder: Path) -> list[dict[str, float]]:
    """What each run took: `fixed_seconds` as `fixed`, and its stages."""
    document = load(EXAMPLES / f"{system}-kill-tcp.yaml").model_dump(mode="json", by_alias=True, exclude_none=True)
    spec = document["spec"]
    spec.pop("confidencePercent", None)
    spec |= {"runs": runs, "verification": {"engine": "Local"}}
    spec["workload"]["messages"] = MESSAGES
    spec["faults"][0]["killTCP"]["duration"] = "1s"
    document["metadata"] = {"name": f"fixed-{system}"}
    file, out = folder / f"{system}.json", folder / system
    file.write_text(json.dumps(document))
    command = [sys.executable, "-m", "dedup_lab.cli", "run", str(file), "--out", str(out)]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = json.loads((out / SUMMARY).read_bytes())["runs"]
    return [
        {"fixed": run["fixed_seconds"], **run["stage_seconds"]} for run in found if run["fixed_seconds"] is not None
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/fixed", description="the time of a run beside its work")
    parser.add_argument("--runs", type=int, default=5, help="of each variant; default: %(default)s")
    parser.add_argument("--system", choices=sorted(TARGETS_S), action="append")
    asked = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        for system in asked.system or TARGETS_S:
            found = rows(system, asked.runs, Path(folder))
            if not found:
                raise SystemExit(
                    f"{system}: no run has a result; run examples/{system}-kill-tcp.yaml, and read its words"
                )
            took_s = median(row["fixed"] for row in found)
            parts = ", ".join(f"{stage} {median(row[stage] for row in found):.2f}" for stage in STAGES)
            least, most = min(row["fixed"] for row in found), max(row["fixed"] for row in found)
            word = "" if took_s <= TARGETS_S[system] else ", MISSED"
            print(
                f"{system}: {took_s:.2f} s a run (target at most {TARGETS_S[system]} s{word}), median of {len(found)}"
            )
            print(f"  {least:.2f} to {most:.2f} s; medians: {parts}")
            missed |= bool(word)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
