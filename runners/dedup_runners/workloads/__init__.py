"""What a producer does beyond sending each message once: one module a kind (`dedup.workloads` declares them)."""

from typing import Final

from dedup_runners.configs import ProducerConfig
from dedup_runners.production import Production
from dedup_runners.workloads.elsewhere import ReadElsewhere
from dedup_runners.workloads.producers import SideBySide
from dedup_runners.workloads.resend import Resending
from dedup_runners.workloads.restart import Restarting
from dedup_runners.workloads.transactions import Transacting

PRODUCTIONS: Final[dict[str, type[Production]]] = {
    "restart": Restarting,
    "resend": Resending,
    "producers": SideBySide,
    "transactions": Transacting,
    "replication": ReadElsewhere,
}


def production_of(config: ProducerConfig) -> type[Production]:
    """What does the sending that a config asks for."""
    return next((kind for key, kind in PRODUCTIONS.items() if getattr(config, key) is not None), Production)
