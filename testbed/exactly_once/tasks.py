"""What one life of the service is told: shared with its tester, which has no driver of the database."""

from pydantic import BaseModel, ConfigDict

from testbed.exactly_once.patterns import Step


class Task(BaseModel):
    """What one life does; `at`: the order and the step after which it waits to be killed; None: it lives to the end."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pattern: str
    run: str
    life: int
    orders: int
    bootstrap: str
    database: str
    payments: str
    at: tuple[int, Step] | None = None
    timeout_s: float

    @property
    def taken(self) -> str:
        """The topic of orders."""
        return f"{self.run}-orders"

    @property
    def emitted(self) -> str:
        """The topic of events."""
        return f"{self.run}-events"
