"""What stands beside the brokers for a service: PostgreSQL, and Debezium, which emits what is in its outbox."""

from collections.abc import Collection

from dedup.experiment.endpoints import Endpoints
from dedup.workloads.services import Pattern
from dedup_lab.caches import Progress
from dedup_lab.systems import packages, postgres
from dedup_lab.systems.debezium import Capture
from dedup_lab.systems.labs import Lab
from dedup_runners.configs import Beside
from dedup_runners.services.databases import Database


def start(lab: Lab, endpoints: Endpoints, served: Collection[Pattern], progress: Progress) -> Beside:
    """Start what these patterns need in the lab of the brokers. DedupError if it does not come up."""
    database = postgres.start(lab)
    if any(pattern.has_outbox for pattern in served):
        Capture(lab, endpoints, database, progress)
    return of(database)


def of(database: Database) -> Beside:
    """As a runner is told of it."""
    return Beside(database=database.url, psql=database.psql, driver=packages.folder())
