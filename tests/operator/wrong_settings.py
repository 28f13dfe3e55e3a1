"""Wrong specs of clients' settings and of how much there is in all, beside tests/operator/wrong_specs.py."""

from typing import Final

from tests.operator.wrong import Wrong

SETTINGS: Final = (
    Wrong(
        "more runs in all than anybody waits for",
        (
            *(("spec/runs", 1000), ("spec/systems/-", {"name": "k", "kafka": {}})),
            *(("spec/variants/-", {"name": f"v{n}", "deduplication": "Enabled", "expect": "None"}) for n in (1, 2)),
        ),
        "at most 10,000 make an experiment",
    ),
    Wrong(
        "a property of the other system's client",
        (("spec/systems/1/client", {"properties": {"linger.ms": "0"}}),),
        "an experiment sets only how messages are sent",
    ),
    Wrong(
        "a misspelt property",
        (("spec/systems/0/client", {"properties": {"linger.mss": "0"}}),),
        'did you mean "linger.ms"?',
        "an experiment sets only how messages are sent",
    ),
)
