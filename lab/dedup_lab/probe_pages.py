"""docs/probes.md: what the seeds claim, against what brokers of today do.

    python -m dedup_lab.probe_pages docs          ask brokers that are started for it, then write the page
    python -m dedup_lab.probe_pages docs --page   write the page alone, from what was seen before

What was seen is in docs/probes/, a file a version, as `dedup probe --format json` prints it; the page is made from
these files and from the records of the rules. `make probes` does both.
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dedup.experiment.systems import Protocol
from dedup.judgement.probes import Probed, reasons, table
from dedup.pages import filled
from dedup_lab.probes import KINDS, probed, probes_of
from dedup_lab.systems import labs
from dedup_lab.systems.running import PRODUCTS

VERSIONS: Final[Mapping[Protocol, tuple[str, ...]]] = {"kafka": ("4.3.1", "3.9.0"), "pulsar": ("4.2.4",)}
"""What is asked, the newest first: versions that this machine can start."""
PAGE: Final = "probes.md"
FOLDER: Final = "probes"


def ask(protocol: Protocol, version: str) -> Probed:
    """Start three brokers of a version, and try each rule on them."""
    with tempfile.TemporaryDirectory() as logs, labs.create(Path(logs) / "logs") as lab:
        endpoints = PRODUCTS[protocol].start(lab, version=version, proxied=False, progress=lambda *_: None)
        return probed(endpoints, f"{protocol}://three-brokers-of-the-lab")


def seen(docs: Path, protocol: Protocol) -> dict[str, Probed]:
    """What was seen of a protocol's versions, by the heading of its column."""
    files = {version: docs / FOLDER / f"{protocol}-{version}.json" for version in VERSIONS[protocol]}
    found = {version: Probed.model_validate_json(file.read_text(encoding="utf-8")) for version, file in files.items()}
    return {f"{each.product} {version}, {each.asked[:10]}": each for version, each in found.items()}


def written(page: str, docs: Path) -> str:
    """The page with its tables, from what `docs` says was seen."""
    tables: dict[str, str] = {}
    for protocol in KINDS:
        rules = [probe.rule for probe in probes_of(protocol)]
        tables[protocol] = f"{table(rules, seen(docs, protocol))}\n\n{reasons(rules)}"
    return filled(page, tables)


def main(docs: Path, *, page_alone: bool) -> int:
    """Ask, unless the page alone is wanted, and write; the worst exit code of `dedup probe`."""
    codes = [0]
    if not page_alone:
        (docs / FOLDER).mkdir(exist_ok=True)
        for protocol, versions in VERSIONS.items():
            for version in versions:
                result = ask(protocol, version)
                text = result.model_dump_json(indent=1)
                (docs / FOLDER / f"{protocol}-{version}.json").write_text(f"{text}\n", encoding="utf-8")
                print(f"{protocol} {version}: {len(result.rows)} rules, {result.seconds} s, exit {result.exit_code}")
                codes.append(result.exit_code)
    page = docs / PAGE
    page.write_text(written(page.read_text(encoding="utf-8"), docs), encoding="utf-8")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), page_alone="--page" in sys.argv[2:]))
