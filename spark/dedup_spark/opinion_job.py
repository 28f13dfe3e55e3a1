"""The oracle on one history, as a program: `python -m dedup_spark.opinion_job --output FILE [--alone] PATH`.

So that several histories are judged at once, each in a process of its own. FILE becomes {"oracle": Verification}, or
{"problem": text} for a history that the oracle cannot read, or {} for one that it need not judge. `--alone`: no other
judge is asked, so it judges runs of any size. Exit code 0: FILE is written; 4: it is not.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter

from dedup.errors import EXIT_ERROR, DedupError, one_line
from dedup.history.reports import open_folder
from dedup.history.stores import place
from dedup.judgement.anomalies import Engine
from dedup.process.orphans import leave_with_parent
from dedup_spark.opinions import Answers, second_opinion

ANSWERS = TypeAdapter(Answers)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dedup_spark.opinion_job", description="Ask the oracle.")
    parser.add_argument("--output", required=True, type=Path, help="what it says, JSON; written last")
    parser.add_argument("--alone", action="store_true", help="no other judge is asked")
    parser.add_argument("path", help="a run folder; a path, or s3://bucket/prefix")
    asked = parser.parse_args(arguments)
    leave_with_parent()
    try:
        folder = place(asked.path)
        evidence = open_folder(folder).model_copy(update={"alone": Engine.ORACLE if asked.alone else None})
        asked.output.write_bytes(ANSWERS.dump_json(second_opinion(folder, evidence)))
    except DedupError as error:
        print(error, file=sys.stderr)
        return EXIT_ERROR
    except Exception as error:  # exit code 1 means "fail": no crash may ever say that
        print(one_line(f"{type(error).__name__}: {error}; nothing was written"), file=sys.stderr)
        return EXIT_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main())
