"""The errors that a user sees: one line each, which says what went wrong and what to do next.

DedupError
├── SpecificationError   the experiment file, or what it asks for, is wrong: nothing was run
├── EnvironmentError_    this machine lacks something (Java, a port, disk space): nothing is wrong with the experiment
├── EvidenceError        a history is missing, damaged or contradicts itself: no verdict can rest on it
└── PlatformError        a broker, a client or a tool failed while the experiment ran

All four end a command with exit code 4 (docs/design.md §7); none of them is ever shown with a traceback.
"""

import re
from typing import Final

EXIT_ERROR: Final = 4


def one_line(text: str) -> str:
    """The text on one line, safe to print: line breaks become spaces, other control characters are escaped."""
    return shown(re.sub(r"\s*[\r\n]+\s*", " ", text.strip()))


def shown(text: str) -> str:
    """The text with its control characters escaped: untrusted text must not control a terminal."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class DedupError(Exception):
    """`where: got X; rule; what to do`: the only shape in which an error reaches a user."""

    def __init__(self, *, where: str, got: str, rule: str, todo: str) -> None:
        self.where, self.got, self.rule, self.todo = where, got, rule, todo
        super().__init__(one_line(f"{where}: got {got}; {rule}; {todo}"))


class SpecificationError(DedupError):
    """The experiment cannot be run as it is written."""


class EnvironmentError_(DedupError):
    """This machine lacks what the experiment needs."""


class EvidenceError(DedupError):
    """A history is missing, damaged or contradicts itself."""


class PlatformError(DedupError):
    """A broker, a client or a tool failed while the experiment ran."""
