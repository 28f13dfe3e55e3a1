"""The job's public interface, for callers in this process; the CLI starts the job as a process of its own."""

from dedup_spark.evidence import Problem, Report
from dedup_spark.job import verify

__all__ = ["Problem", "Report", "verify"]
