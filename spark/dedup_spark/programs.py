"""The command line that both engines have as programs: run folders in, a report out.

    --output FILE [--keep] [--findings FOLDER] PATH…

A PATH is a run folder, or holds some anywhere below it; it and FILE may lie in a store (s3://bucket/prefix). FILE
becomes {"engine": …, "runs": [Verification…], "problems": [{"path", "error"}…]}. A folder that is no evidence (no valid
manifest, a segment missing or changed, rows that are not what was recorded) becomes a problem and never affects the
others. Exit code 0: the report is written; 4: it is not, and stderr has the reason in one line.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from dedup.errors import EXIT_ERROR, DedupError, one_line
from dedup.history.histories import run_folders
from dedup.history.stores import Place, place, reached
from dedup_spark.evidence import Report, keep, write_report

Verify = Callable[[Sequence[Place], Place | None], Report]
"""Verifies folders; the second argument is a folder for the tables of findings."""


def parser_of(prog: str, description: str) -> argparse.ArgumentParser:
    """The options that both programs have."""
    parser = argparse.ArgumentParser(prog=f"python -m {prog}", description=description)
    parser.add_argument("--output", required=True, help="the report, JSON; written whole or not at all, and last")
    parser.add_argument("--keep", action="store_true", help="write a verification.json beside each history as well")
    parser.add_argument("--findings", help="a folder of their own for the tables of findings")
    parser.add_argument("path", nargs="+", help="a run folder, or what holds some; a path, or s3://bucket/prefix")
    return parser


def carry_out(asked: argparse.Namespace, verify: Verify) -> int:
    """Verify what the command line names, and write it down; the exit code."""
    try:
        histories: list[Place] = []
        others: list[Place] = []
        for root in map(place, asked.path):
            with reached(root):
                found = run_folders(root)
            histories += found
            others += [] if found else [root]
        report = verify([*histories, *others], place(asked.findings) if asked.findings else None)
        if asked.keep:
            keep(report, histories)
        write_report(report, place(asked.output))
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    except Exception as error:  # exit code 1 means "fail": no crash may ever say that
        print(one_line(f"{type(error).__name__}: {error}; no report was written"), file=sys.stderr)
        return EXIT_ERROR
    return 0
