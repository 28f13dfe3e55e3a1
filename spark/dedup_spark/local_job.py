"""The verification without Spark, as a program: the local engine on any number of run folders.

    python -m dedup_spark.local_job --output FILE [--keep] [--findings FOLDER] PATH…

It is what an experiment with `verification: {engine: Local}` has in a cluster, and writes what the Spark job writes
(dedup_spark/programs.py), in one process. What it finds of all runs is in memory; when that does not suffice the
process is ended, there is no report, and the verdict is error.
"""

import sys
from collections.abc import Sequence

from dedup.process.orphans import leave_with_parent
from dedup_spark import local
from dedup_spark.programs import carry_out, parser_of


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Exit code 0: the report is written; else 4."""
    asked = parser_of("dedup_spark.local_job", "Verify run folders in one process.").parse_args(arguments)
    leave_with_parent()
    return carry_out(asked, lambda folders, findings: local.verify(folders, findings=findings))


if __name__ == "__main__":
    sys.exit(main())
