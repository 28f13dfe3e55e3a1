"""franz-go as a program, the example of docs/write-a-client.md: main.go, its modules pinned by go.sum."""

import shutil
from pathlib import Path
from typing import Final

from dedup_lab import golang
from dedup_lab.caches import Progress
from dedup_lab.clients.builds import built, compiled
from dedup_runners.configs import Program

NAME: Final = "franz-go"
SOURCES: Final = tuple(Path(__file__).with_name(name) for name in ("main.go", "go.mod", "go.sum"))


def program(version: str, progress: Progress) -> Program:
    """The command, built if need be; EnvironmentError_ without Go or when the build fails."""

    def build(folder: Path) -> None:
        progress(f"build {NAME} {version}", 0, 1)
        for source in SOURCES:
            shutil.copy(source, folder)
        command = [
            golang.find("franz-go is a client that is built with Go"),
            "build",
            "-mod=readonly",
            "-trimpath",
            "-o",
            NAME,
            ".",
        ]
        compiled(f"{NAME} {version}", command, folder)

    return Program(argv=(str(built(f"{NAME}-{version}", SOURCES, [], build) / NAME),))
