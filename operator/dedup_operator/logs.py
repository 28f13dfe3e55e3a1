"""Log lines that can be held against objects: each says of which execution it is.

An execution is called what the label `dedup.dev/execution` of its Jobs and pods says, and its folder in the store. A
line that is of none, such as one about the lease, has a dash there.
"""

import logging
from contextvars import ContextVar
from typing import Final

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(execution)s %(message)s"
NONE: Final = "-"
current: Final = ContextVar("execution", default=NONE)
"""The execution that this thread looks at."""


class Named(logging.Filter):
    """Gives each record the execution that its thread looks at."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.execution = current.get()
        return True


def configure() -> None:
    """For the whole program: lines on stderr, those of libraries too."""
    handler = logging.StreamHandler()
    handler.addFilter(Named())
    logging.basicConfig(level=logging.INFO, format=FORMAT, handlers=[handler])
