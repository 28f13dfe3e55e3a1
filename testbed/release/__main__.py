"""A release's files, and whether all is ready for it: `python -m testbed.release` (CONTRIBUTING.md, docs/images.md).

`check` says whether every file agrees about the version, and, given a tag, whether all is ready to be released by it.
`set` writes a new version everywhere. `make` writes the charts' packages and the images' bills of materials, with their
checksums. The images themselves are pushed by .github/workflows/release.yaml.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from dedup.errors import DedupError
from testbed.cluster.images import PUBLISHED
from testbed.cluster.processes import CHECKOUT
from testbed.release import charts, sboms, versions

SUMS: Final = "SHA256SUMS"


def committed(root: Path) -> int:
    """When the newest commit was made, in seconds since 1970: the time of all that is released. 0 outside of Git."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=root, capture_output=True, text=True, check=False, timeout=60
    )
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else 0


def write(root: Path, folder: Path, *, registry: str, digests: dict[str, str], time: int) -> list[Path]:
    """Write a release's files into a folder, which is emptied first. Raises DedupError."""
    version = versions.current(root)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    written = [
        charts.package(root / "charts" / name, folder, registry=registry, version=version, digests=digests, time=time)
        for name in charts.CHARTS
    ]
    for image in PUBLISHED:
        path = folder / f"{image.name}-{version}.cdx.json"
        path.write_text(sboms.bill(image, root, version, time), encoding="utf-8")
        written.append(path)
    sums = (f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in written)
    (folder / SUMS).write_text("".join(sums), encoding="utf-8")
    return [*written, folder / SUMS]


def main(arguments: list[str] | None = None) -> int:
    """The exit code is 0; 1 if something speaks against a release; 4, with one line, if something could not be read."""
    asked = _parser().parse_args(arguments)
    try:
        if asked.task == "set":
            versions.set_to(CHECKOUT, asked.version)
            print(f"{versions.FIRST.file} and {len(versions.DERIVED)} more lines say {asked.version}")
            return 0
        found = versions.obstacles(CHECKOUT, asked.tag) if asked.tag else versions.disagreements(CHECKOUT)
        if complaints := list(found):
            print("\n".join(complaints), file=sys.stderr)
            return 1
        if asked.task == "make":
            digests = dict(each.split("=", 1) for each in asked.digest)
            for path in write(CHECKOUT, asked.out, registry=asked.registry, digests=digests, time=committed(CHECKOUT)):
                print(path)
        else:
            print(f"every file says {versions.current(CHECKOUT)}")
    except DedupError as error:
        print(error, file=sys.stderr)
        return 4
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m testbed.release", description=main.__doc__)
    tasks = parser.add_subparsers(dest="task", required=True)
    check = tasks.add_parser("check", help="whether every file agrees about the version")
    make = tasks.add_parser("make", help="write the charts' packages and the images' bills of materials")
    for each in (check, make):
        each.add_argument("--tag", help="also: whether all is ready to be released by this tag, such as v0.2.0")
    make.add_argument("--registry", required=True, help="where the images are, such as registry.example/dedup")
    make.add_argument("--out", type=Path, default=CHECKOUT / "dist", help="a folder of its own, emptied first (dist)")
    make.add_argument("--digest", action="append", default=[], metavar="NAME=sha256:…", help="an image's digest")
    tasks.add_parser("set", help="write a new version everywhere").add_argument("version", metavar="VERSION")
    return parser


if __name__ == "__main__":
    sys.exit(main())
