"""The door to the job for those who hold paths: the same call in this process or, for the CLI, in one of its own."""

from dedup_spark.evidence import Problem, Report
from dedup_spark.job import verify

__all__ = ["Problem", "Report", "verify"]
