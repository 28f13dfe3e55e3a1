"""Small files by which one process tells others one thing."""

from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict

METRICS: Final = "{}.metrics.json"
"""Where a runner of that role says at which port its metrics are."""


class Listening(BaseModel):
    """At which port of this host a program listens: an armed fault for its producer, a runner for Prometheus.

    `bootstrap`: where the producer finds its brokers, if the fault stands between them.
    """

    port: int
    bootstrap: str | None = None


class Failure(BaseModel):
    """Why an attempt has no history, or a system could not be had; `kind` is one of `dedup.judgement.endings.Kind`."""

    FILE: ClassVar = "failure.json"
    model_config = ConfigDict(frozen=True, extra="ignore")

    stage: str = ""
    reason: str
    kind: str | None = None
    sent: bool = False
