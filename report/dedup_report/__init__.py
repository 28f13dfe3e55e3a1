"""`report.html`: the page of an experiment's results, on one machine and in a cluster.

It is made from the summary, after it, and judges nothing. This room stands above the domain and below those who write
the page: the lab (`dedup run`, `dedup report`) and the report's pod (dedup_spark/report.py). What a page needs beside
the domain (matplotlib, jinja2) is imported by `dedup_report.pages`, which is imported only when a page is drawn.
"""

from typing import Final

from dedup.errors import DedupError, one_line

PAGE: Final = "report.html"


def not_drawn(error: Exception) -> str:
    """Why there is no page, in one line; `error` is what came instead of it."""
    why = str(error) if isinstance(error, DedupError) else f"{type(error).__name__}: {error}"
    return one_line(f"no report was drawn, and the verdict stands: {why}")
