"""Kafka's requests. Errors by their numbers in Kafka's protocol guide."""

from typing import Final

from dedup.experiment.dialects.dialect import Dialect

_TIMER: Final = "the client sends it by a timer"
_TOO: Final = "the client asks for it by a timer, too"

KAFKA: Final = Dialect(
    carrier="Produce",
    opening="ApiVersions",
    logins=frozenset({"SaslHandshake", "SaslAuthenticate"}),
    by_timers={
        "Metadata": _TOO,
        "Heartbeat": _TIMER,
        "GetTelemetrySubscriptions": _TIMER,
        "PushTelemetry": _TIMER,
    },
    later={"FindCoordinator": _TOO},
    in_transactions=("Produce", "AddPartitionsToTxn", "EndTxn"),
    ends_transaction="EndTxn",
    joins_transaction=frozenset({"AddPartitionsToTxn", "AddOffsetsToTxn"}),
    bare=-1,
    already=46,  # DUPLICATE_SEQUENCE_NUMBER
    put_off=51,  # CONCURRENT_TRANSACTIONS
)
