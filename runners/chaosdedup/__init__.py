"""The faults of dedup as an extension of Chaos Toolkit, for anybody's experiment against any Kafka or Pulsar.

Activities take plain arguments, such as a bootstrap address, Toxiproxy's URL or a process id. They know of no run and
of no folder of ours. `actions` inject a fault and heal it, `probes` ask a system, for steady-state hypotheses with
tolerances, and the control `stamps` waits for traffic before a method and writes into the journal what the system
showed before and after each action. `chaos discover --no-install chaostoolkit-dedup` lists them with their arguments.

In an experiment of dedup's own these things are done closer to the producer: it is triggered at a message, stamps its
counters, and the verdict rests on more witnesses (docs/faults.md).
"""

from typing import Any, Final

from dedup import __version__

DISTRIBUTION: Final = "chaostoolkit-dedup"


def discover(discover_system: bool = True) -> dict[str, Any]:
    """What this extension can do, as `chaos discover` writes it down. It looks at no system."""
    from chaoslib.discovery.discover import discover_actions, discover_probes, initialize_discovery_result

    found: dict[str, Any] = initialize_discovery_result(DISTRIBUTION, __version__, "kafka and pulsar")
    found["activities"] += [*discover_actions("chaosdedup.actions"), *discover_probes("chaosdedup.probes")]
    return found
