"""Witnesses for tests of clients: they only remember what a client said."""


class Seen:
    def __init__(self) -> None:
        self.disturbances: list[tuple[str, str, int | None]] = []
        self.about: list[tuple[str | None, int | None]] = []
        self.lines: list[str] = []

    def disturbed(
        self,
        kind: str,
        detail: str,
        monotonic_ns: int | None = None,
        *,
        broker: str | None = None,
        since_ns: int | None = None,
    ) -> None:
        self.disturbances.append((kind, detail, monotonic_ns))
        self.about.append((broker, since_ns))

    def log(self, line: str) -> None:
        self.lines.append(line)
