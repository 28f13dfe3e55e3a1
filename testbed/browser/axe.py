"""axe-core: what keeps people who cannot see well, or use no mouse, from reading a page.

Its version and the hash of its package are locked in package-lock.json; npm fetches it once into the user's cache and
checks the hash.
"""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from dedup.errors import EnvironmentError_
from dedup_lab.caches import root
from testbed.browser.chromium import Page

LOCKED: Final = tuple(Path(__file__).with_name(name) for name in ("package.json", "package-lock.json"))
FETCH_TIMEOUT_S: Final = 300.0
RUN: Final = "axe.run(document, {resultTypes: ['violations']}).then(found => found.violations)"


def check_machine() -> None:
    """EnvironmentError_ without axe-core in the cache, and without npm to fetch it."""
    if not _kept().exists() and shutil.which("npm") is None:
        raise EnvironmentError_(
            where="axe-core",
            got="no npm",
            rule="npm fetches it, by package-lock.json",
            todo="install Node.js with npm",
        )


def violations(page: Page) -> list[str]:
    """What axe-core finds in an open page, worst first: its impact, rule and words, and three places each."""
    page.ask(script().read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = page.ask(RUN)
    impacts = ("critical", "serious", "moderate", "minor")
    found.sort(key=lambda each: impacts.index(each["impact"]))
    return [f"{each['impact']} {each['id']}: {each['help']}: {_places(each['nodes'])}" for each in found]


def _places(nodes: list[dict[str, Any]]) -> str:
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    return ", ".join(" ".join(map(str, node["target"])) for node in nodes[:3]) + more


def script() -> Path:
    """The library, fetched first if need be. EnvironmentError_ if that fails, or what came is not what is locked."""
    kept = _kept()
    if not kept.exists():
        check_machine()
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".new-") as folder:
            for file in LOCKED:
                shutil.copy(file, folder)
            _fetch(folder)
            Path(folder, "node_modules/axe-core/axe.min.js").rename(kept)
    return kept


def _fetch(folder: str) -> None:
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=FETCH_TIMEOUT_S)
    if done.returncode != 0:
        raise EnvironmentError_(
            where=" ".join(command),
            got=(done.stderr.strip() or f"exit code {done.returncode}").splitlines()[0][:300],
            rule="axe-core comes from npm, with the hash that package-lock.json has",
            todo="check the network and npm's registry, then run again",
        )


def _kept() -> Path:
    state = hashlib.sha256(b"".join(file.read_bytes() for file in LOCKED)).hexdigest()[:8]
    return root() / "browser" / f"axe-{state}.min.js"
