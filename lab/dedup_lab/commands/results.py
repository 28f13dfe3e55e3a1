"""`dedup results`: of a folder here, or of an experiment or a comparison in a cluster."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dedup_lab.commands.options import Shown, only_of_comparisons
from dedup_lab.terminal.consoles import console

if TYPE_CHECKING:
    from dedup_lab.cluster.access import Cluster


def here(folder: Path, output_format: Shown, open_page: bool) -> int:
    """Show a results folder; the exit code of its verdict."""
    from dedup_lab.reporting import opening
    from dedup_lab.results import Results
    from dedup_lab.terminal import reports

    only_of_comparisons(output_format)
    found = Results(folder)
    code = reports.show_json(found) if output_format is Shown.JSON else reports.show(found, console(stderr=False))
    if open_page:
        opening.show_results(found, console())
    return code


def there(
    cluster: "Cluster",
    name: str,
    output_format: Shown,
    output: Path | None,
    histories: bool,
    follow: bool,
    open_page: bool,
) -> int:
    """Show the result of an experiment or a comparison in a cluster; fetch it; the exit code of its verdict."""
    from dedup_lab.cluster import access as clusters
    from dedup_lab.cluster import comparisons, following, resources
    from dedup_lab.reporting import opening
    from dedup_lab.results import Results

    wait = partial(following.follow, console=console(stderr=output_format is not Shown.TEXT)) if follow else None
    if comparisons.is_comparison(cluster, name):
        if open_page:
            raise typer.BadParameter("a comparison has no page", param_hint="--open")
        wait = wait and partial(wait, find=clusters.comparison_of)
        show = partial(comparisons.results, cluster, name, shown=output_format.value, follow=wait)
        return show(output=output, console=console(stderr=False))
    only_of_comparisons(output_format)
    ask = partial(resources.results, cluster, name, as_json=output_format is Shown.JSON, follow=wait)
    page = partial(opening.show_fetched, console=console()) if open_page and output is None else None
    code = ask(output=output, histories=histories, console=console(stderr=False), page=page)
    if open_page and output is not None:
        opening.show_results(Results(output), console())
    return code
