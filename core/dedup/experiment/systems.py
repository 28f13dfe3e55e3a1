"""The messaging systems that can be tested: one record a product, with its protocol.

A product is what is deployed: it has a key in the experiment, a version, and charts. Clients use its protocol, and
several products may share one. So code that deploys is looked up by product, and code that only connects to brokers
(the client library, the tester's admin, the round trip) by protocol.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pydantic import Field

from dedup.experiment.deployments import STRIMZI
from dedup.parts import Part, Version

Protocol = Literal["kafka", "pulsar"]


class Keys(NamedTuple):
    """The keys of `deploy.existing` that a protocol's clients need, and the optional ones."""

    needed: tuple[str, ...]
    optional: tuple[str, ...]


EXISTING: Final[Mapping[Protocol, Keys]] = {
    "kafka": Keys(("bootstrap",), ("tls", "sasl", "podSelector")),
    "pulsar": Keys(("serviceUrl", "adminUrl"), ("tls", "token", "podSelector")),
}


class Kafka(Part):
    """A Kafka to deploy: combined KRaft nodes, replication 3, min ISR 2."""

    version: Version = Field("4.3.1", description="of Kafka, such as 4.3.1")
    brokers: Literal[3] = Field(3, description="nodes, each broker and controller")


class Pulsar(Part):
    """A Pulsar to deploy: ensemble 3, write quorum 3, ack quorum 2."""

    version: Version = Field("4.2.4", description="of Pulsar, such as 4.2.4")
    brokers: Literal[3] = Field(3, description="brokers, which own topics and keep nothing")
    bookies: Literal[3] = Field(3, description="bookies, which store the messages")


class Product(NamedTuple):
    """One messaging system."""

    key: str
    """Its key in an experiment's system, and what histories call it."""
    name: str
    """Its name in sentences."""
    protocol: Protocol
    charts: tuple[str, ...]
    """The charts that deploy it on Kubernetes; the ordinary one has the product's key as its name."""


PRODUCTS: Final[Mapping[str, Product]] = {
    product.key: product
    for product in (
        Product("kafka", "Kafka", "kafka", ("kafka", STRIMZI)),
        Product("pulsar", "Pulsar", "pulsar", ("pulsar",)),
    )
}

if TYPE_CHECKING:
    Chart = str
else:
    Chart = Literal[tuple(sorted(chart for product in PRODUCTS.values() for chart in product.charts))]
"""The name of a chart that deploys one of the products."""
