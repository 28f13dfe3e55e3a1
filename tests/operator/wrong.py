"""A wrong spec: the smallest change to a right one, and what is said of it at either door."""

from typing import Any, NamedTuple

from testbed.specs import changed


class Wrong(NamedTuple):
    """`words` are said at both doors; where each has words of its own, the API server's are `at_apply`."""

    name: str
    changes: tuple[tuple[str, object], ...]
    words: str
    at_apply: str = ""

    @property
    def document(self) -> dict[str, Any]:
        return changed(*self.changes)
