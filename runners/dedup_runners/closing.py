"""What is used in a `with` block and closed at its end."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Something that is closed when the block ends, however it ends."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything that is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
