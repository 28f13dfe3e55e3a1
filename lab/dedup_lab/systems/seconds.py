"""A second, small cluster of Pulsar, to which the first one replicates: a ZooKeeper, a bookie and a broker.

It is a lab of its own, and shares nothing with the first. What the first cluster's brokers say to it goes the way of
its clients, through a proxy of its own: that is the link. It is asked what it has on a way without a proxy.
"""

from pathlib import Path
from typing import Final

from dedup_lab.caches import Progress
from dedup_lab.systems import labs, pulsar
from dedup_lab.systems.labs import Lab
from dedup_runners.configs import Second

CLUSTER: Final = "second"


def start(version: str, logs: Path, progress: Progress) -> tuple[Lab, Second]:
    """Start it; its logs are in a folder of their own. DedupError if it does not come up."""
    (own := logs / CLUSTER).mkdir(parents=True, exist_ok=True)
    lab = labs.create(own)
    try:
        endpoints = pulsar.start(
            lab, version=version, proxied=True, brokers=1, bookies=1, cluster=CLUSTER, progress=progress
        )
    except BaseException:
        lab.close()
        raise
    return lab, Second(cluster=CLUSTER, first=pulsar.CLUSTER, endpoints=endpoints)
