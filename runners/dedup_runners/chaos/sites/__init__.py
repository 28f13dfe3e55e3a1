"""Where brokers run, seen by a fault: a protocol, and its implementations: a machine, a cluster, from outside."""

from dedup.experiment.endpoints import Endpoints
from dedup_runners.chaos.sites.protocol import Site


def connect(endpoints: Endpoints) -> Site:
    """The site of these brokers. The cluster's client library is imported only when there are pods."""
    if all(broker.status_file for broker in endpoints.brokers):
        from dedup_runners.chaos.sites.processes import Processes

        return Processes(endpoints)
    if all(broker.pod for broker in endpoints.brokers):
        from dedup_runners.chaos.sites.pods import Pods

        return Pods.of_this_cluster(endpoints)
    if any(broker.door for broker in endpoints.brokers):
        from dedup_runners.chaos.sites.interposed import Interposed

        return Interposed(endpoints)
    from dedup_runners.chaos.sites.outside import Outside

    return Outside(endpoints)
