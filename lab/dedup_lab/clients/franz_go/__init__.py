"""franz-go as a program, the example of docs/write-a-client.md: main.go, its modules pinned by go.sum.

Another version than that of go.mod has a `go-VERSION.mod` and `.sum` of its own, made by `go get` and `go mod tidy`.
"""

import shutil
from pathlib import Path
from typing import Final

from dedup_lab import golang
from dedup_lab.caches import Progress
from dedup_lab.clients.builds import built, compiled
from dedup_runners.configs import Program

NAME: Final = "franz-go"
FOLDER: Final = Path(__file__).parent
PROGRAM: Final = FOLDER / "main.go"


def sources(version: str) -> tuple[Path, ...]:
    """What that version is built from: the program, its modules, and their checksums."""
    modules = FOLDER / f"go-{version}.mod"
    if not modules.exists():
        modules = FOLDER / "go.mod"
    return PROGRAM, modules, modules.with_suffix(".sum")


def program(version: str, progress: Progress) -> Program:
    """The command, built if need be; EnvironmentError_ without Go or when the build fails."""

    def build(folder: Path) -> None:
        progress(f"build {NAME} {version}", 0, 1)
        for source, name in zip(sources(version), ("main.go", "go.mod", "go.sum"), strict=True):
            shutil.copy(source, folder / name)
        command = [
            golang.find("franz-go is a client that is built with Go"),
            "build",
            "-mod=readonly",
            "-trimpath",
            f"-ldflags=-X main.version=v{version}",
            "-o",
            NAME,
            ".",
        ]
        compiled(f"{NAME} {version}", command, folder)

    return Program(argv=(str(built(f"{NAME}-{version}", sources(version), [], build) / NAME),))
