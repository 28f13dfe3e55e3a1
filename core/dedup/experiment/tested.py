"""One messaging system under test: what it is, where it is, and the client that sends to it."""

from typing import Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dedup.experiment.client_choices import OWN_SETTINGS, Client
from dedup.experiment.clients import (
    CLIENTS,
    COMMAND,
    Library,
    Sender,
    chosen,
    libraries,
    reader_of,
    refused,
    refused_version,
    speaking,
)
from dedup.experiment.deployments import STRIMZI, Deploy, Existing
from dedup.experiment.systems import EXISTING, PRODUCTS, Kafka, Product, Protocol, Pulsar
from dedup.experiment.variants import Variant
from dedup.parts import Name, Part, check_one_of
from dedup.quantities import Seconds
from dedup.refusals import refusal, short


class Network(Part):
    """What lies between clients and brokers for the whole of every run."""

    latency_s: Seconds = Field(
        0.0, alias="latency", le=10, description="added to everything that brokers send to clients, at most 10s"
    )


class System(Part):
    """One messaging system under test: exactly one of `kafka` and `pulsar`."""

    name: Name = Field(description="what results call this system; unique among the systems")
    kafka: Kafka | None = Field(None, description="the system is a Kafka; {} for all defaults")
    pulsar: Pulsar | None = Field(None, description="the system is a Pulsar; {} for all defaults")
    client: Client = Field(Client(), description="how messages are sent and read")
    network: Network = Field(Network(), description="the link between clients and brokers")
    deploy: Deploy | None = Field(
        None,
        description="a system that is there already, Strimzi's, or one of the administrator's list; left out: one is "
        "deployed",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        check_one_of(self, {key: getattr(self, key) for key in PRODUCTS}, "a system")
        if (wrong := self._wrong_library("client")) is not None:
            raise wrong
        self._check_existing()
        if self.chart == STRIMZI and STRIMZI not in self.product.charts:
            raise refusal(
                "deploy.chart", STRIMZI, "Strimzi runs Kafka and nothing else", "write kafka, or take deploy out"
            )
        return self

    def _check_existing(self) -> None:
        if self.existing is None:
            return
        given = self.existing.model_dump(by_alias=True, exclude_none=True)
        needed, optional = EXISTING[self.protocol]
        if not {*needed} <= given.keys() <= {*needed, *optional}:
            raise refusal(
                "deploy.existing",
                short(given),
                f"a {self.product.name} that is there already has {' and '.join(needed)}, "
                f"and may have {' and '.join(optional)}",
                "give these keys and no other",
            )

    @property
    def existing(self) -> Existing | None:
        """Where the system is, if it is there already; None: it is deployed for the experiment."""
        return self.deploy.existing if self.deploy is not None else None

    @model_validator(mode="after")
    def _settings_are_allowed(self) -> Self:
        if (wrong := self.wrong_client("client")) is not None:
            raise wrong
        return self

    def wrong_client(self, where: str) -> PydanticCustomError | None:
        """The refusal of its client, which stands at `where` in the file; None if it can be had, with its settings."""
        if self.client.command is not None:
            version = self.client.version  # a variant gave it: beside a command it is refused
            return None if version is None else refusal(f"{where}.version", short(version), OWN_SETTINGS, "take it out")
        return (
            self._wrong_library(where)
            or refused_version(self.library, self.client.version, where)
            or refused(self.library, self.client.properties, where)
        )

    def _wrong_library(self, where: str) -> PydanticCustomError | None:
        if self.client.command is not None or CLIENTS[self.library].protocol == self.protocol:
            return None
        todo = f"write {libraries(self.protocol)}, or take the key out"
        return refusal(f"{where}.library", self.library, f"it does not speak to {self.kind}", todo)

    def of(self, variant: Variant) -> "System":
        """The system as it is in the runs of a variant: with its client."""
        return self.model_copy(update={"client": self.client.but(variant.client)})

    @property
    def kind(self) -> str:
        """The key of its product."""
        return next(key for key in PRODUCTS if getattr(self, key) is not None)

    @property
    def product(self) -> Product:
        return PRODUCTS[self.kind]

    @property
    def protocol(self) -> Protocol:
        return self.product.protocol

    @property
    def chart(self) -> str:
        """The chart by which it is deployed on Kubernetes, unless it is there already."""
        return self.deploy.chart if self.deploy is not None and self.deploy.chart is not None else self.kind

    @property
    def listed(self) -> str | None:
        """The entry of the administrator's list that deploys it on Kubernetes; None: a chart of ours, or nobody."""
        named = self.deploy.chart if self.deploy is not None else None
        return None if named == STRIMZI else named

    @property
    def version(self) -> str:
        return str(getattr(self, self.kind).version)

    @property
    def library(self) -> Sender:
        """The client library that the experiment names, or else its protocol's default; COMMAND: the user's own."""
        if self.client.command is not None:
            return COMMAND
        return self.client.library or speaking(self.protocol)[0].library

    @property
    def sender(self) -> tuple[str, ...]:
        """Which client it is, whatever its settings: the library and its version, or the program's command."""
        return (self.library, self.client_version, *(self.client.command or ()))

    @property
    def reader(self) -> Library:
        """The library that reads what the client has sent."""
        return reader_of(self.library, self.protocol)

    @property
    def client_version(self) -> str:
        """The version of the library that the experiment names, or its default; empty: the one that is installed."""
        return chosen(self.library, self.client.version)
