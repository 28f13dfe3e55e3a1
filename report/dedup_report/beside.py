"""The page beside a summary, where no one waits for it: at the end of a report in a cluster.

The pod that writes it also tells the verdict, so no page may cost the verdict. An error becomes one line. A pod that
ends while it draws (for want of memory, or with its node) is replaced, and the next one does not draw: a mark in the
store says that a page was begun.
"""

from typing import Final

from dedup.errors import PlatformError
from dedup.history.histories import omissions
from dedup.history.reports import SUMMARY
from dedup.history.stores import Place, reached, write_whole
from dedup.judgement.summaries import Summary
from dedup_report import PAGE, not_drawn

BEGUN: Final = f"{PAGE}.begun"
"""The mark: it is there while a page is drawn."""


def write(root: Place) -> str | None:
    """Write `report.html` beside the `summary.json` of a place; returns why there is none, in one line, or None.

    Checksums are not computed again: the judges have compared every file with its manifest a moment ago.
    """
    try:
        with reached(root):
            if (root / BEGUN).exists():
                raise PlatformError(
                    where=str(root / PAGE),
                    got="a page that was begun and not finished, by a pod that ended, perhaps for want of memory",
                    rule="a page is begun once, so that it never costs the verdict",
                    todo="fetch the histories, and draw it: dedup report FOLDER",
                )
            write_whole(root / BEGUN, "")
            try:
                write_whole(root / PAGE, _page(root))
            finally:
                (root / BEGUN).unlink(missing_ok=True)
    except Exception as error:
        return not_drawn(error)
    return None


def _page(root: Place) -> str:
    from dedup_report import pages

    summary = Summary.model_validate_json((root / SUMMARY).read_bytes())
    return pages.render(root, summary, look=omissions)
