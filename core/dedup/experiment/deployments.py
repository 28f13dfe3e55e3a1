"""Where a system under test comes from, if it is not deployed in the default way.

A Kafka may be Strimzi's: a chart asks Strimzi's operator for it. A system may be made by a chart of somebody else's,
which the administrator has put on a list. Or a system exists already and has another owner. The tester connects to it
as its clients do, with TLS and authentication if it requires them; it installs, restarts and removes nothing there.
Keys and passwords are in Secrets of the experiment's own namespace, which the experiment names; in pods they are files
at paths that the operator chooses.
"""

import re
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from dedup.experiment.artifacts import SecretRef
from dedup.parts import ADDRESSES, ENDPOINT, SERVICE_URL, Name, Part, check_one_of
from dedup.refusals import refusal, short

SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
"""As Kafka calls them."""
TLS_SCHEMES: Final = ("pulsar+ssl://", "https://")
PLAIN_RULE: Final = "PLAIN sends the password in clear text, which needs TLS"
TOKEN_RULE: Final = "a token is sent in clear text to both addresses, which need TLS"
LABELS_RULE: Final = "labels are letters, digits, dots, dashes and underlines, in the key maybe after a domain and /"
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY: Final = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
STRIMZI: Final = "strimzi-kafka"
"""The chart whose brokers are Strimzi's."""


class Secret(NamedTuple):
    """A Secret that an existing system's part of the file names: at which key, and which of its own keys are used."""

    at: str
    name: str
    keys: tuple[str, ...]
    login: bool
    """Whether it says who we are: its owner decides to whom that is shown."""


class Tls(Part):
    """TLS; each broker's certificate must contain its name."""

    secret_ref: SecretRef = Field(description="its key ca.crt: the authorities that sign the brokers' certificates")
    client_secret_ref: SecretRef | None = Field(
        None, description="its keys tls.crt and tls.key: our own certificate, where brokers ask for one (mutual TLS)"
    )


class Sasl(Part):
    """Kafka's authentication."""

    mechanism: SaslMechanism = Field(description="PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, as the listener has it")
    secret_ref: SecretRef = Field(description="its keys username and password")


class Token(Part):
    """Pulsar's authentication, for clients and the admin interface."""

    secret_ref: SecretRef = Field(description="its key token: a JSON web token, say")


class PodSelector(Part):
    """The brokers' pods, in the experiment's namespace; their owner labels each dedup.dev/faults=allowed."""

    match_labels: Annotated[
        dict[Annotated[str, Field(max_length=317)], Annotated[str, Field(max_length=63)]],
        Field(min_length=1, max_length=16),
    ] = Field(description="labels that all of these pods have, and no other pod")

    @model_validator(mode="after")
    def _labels_of_pods(self) -> Self:
        for key, value in self.match_labels.items():
            if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
                got, todo = f"{key}: {value}", "write them as kubectl get pods --show-labels shows them"
                raise refusal("matchLabels", short(got), LABELS_RULE, todo)
        return self

    @property
    def written(self) -> str:
        """As kubectl takes it: key=value, with commas between them."""
        return ",".join(f"{key}={value}" for key, value in sorted(self.match_labels.items()))


class Existing(Part):
    """A system that is there already: `bootstrap` for a Kafka, `serviceUrl` and `adminUrl` for a Pulsar."""

    bootstrap: Annotated[str, Field(pattern=ADDRESSES, max_length=1024)] | None = Field(
        None, description="Kafka: host:port of brokers, with commas between them; the others are found from there"
    )
    service_url: Annotated[str, Field(pattern=SERVICE_URL, max_length=1024)] | None = Field(
        None, description="Pulsar: what its clients are given, pulsar://host:port or pulsar+ssl://host:port"
    )
    admin_url: Annotated[str, Field(pattern=ENDPOINT, max_length=300)] | None = Field(
        None, description="Pulsar: its REST interface, http://host:port or https://host:port"
    )
    tls: Tls | None = Field(None, description="use TLS; left out: nothing is encrypted")
    sasl: Sasl | None = Field(None, description="Kafka: authenticate; left out: no authentication")
    token: Token | None = Field(None, description="Pulsar: authenticate; left out: no authentication")
    pod_selector: PodSelector | None = Field(
        None, description="in a cluster: the brokers' pods, for faults that their owner allows"
    )

    @model_validator(mode="after")
    def _tls_where_it_is_spoken(self) -> Self:
        urls = [url for url in (self.service_url, self.admin_url) if url is not None]
        if urls and any(url.startswith(TLS_SCHEMES) for url in urls) != (self.tls is not None):
            raise refusal(
                "tls",
                "nothing" if self.tls is None else "one",
                "a Pulsar speaks TLS where its URLs say so, and tls names who signed its certificates",
                "write tls, or pulsar:// and http://"
                if self.tls is None
                else "write pulsar+ssl:// or https://, or take tls out",
            )
        return self

    @model_validator(mode="after")
    def _nothing_secret_in_the_open(self) -> Self:
        urls = [url for url in (self.service_url, self.admin_url) if url is not None]
        if self.sasl is not None and self.sasl.mechanism == "PLAIN" and self.tls is None:
            raise refusal("sasl.mechanism", "PLAIN without tls", PLAIN_RULE, "write tls, or a SCRAM mechanism")
        if self.token is not None and not all(url.startswith(TLS_SCHEMES) for url in urls):
            raise refusal("token", "one without TLS", TOKEN_RULE, "write pulsar+ssl:// and https://, or take token out")
        return self

    @property
    def secrets(self) -> dict[str, Secret]:
        """Every Secret that it names, by what it is for."""
        own = None if self.tls is None else self.tls.client_secret_ref
        found = {}
        if self.tls is not None:
            found["tls"] = Secret("tls.secretRef", self.tls.secret_ref.name, ("ca.crt",), False)
        if own is not None:
            found["client"] = Secret("tls.clientSecretRef", own.name, ("tls.crt", "tls.key"), True)
        if self.sasl is not None:
            found["sasl"] = Secret("sasl.secretRef", self.sasl.secret_ref.name, ("username", "password"), True)
        if self.token is not None:
            found["token"] = Secret("token.secretRef", self.token.secret_ref.name, ("token",), True)
        return found


class Deploy(Part):
    """How a system is deployed. Without it, the chart named like its kind deploys one for the experiment."""

    existing: Existing | None = Field(
        None, description="it is there already: nothing is started, and what is made on it is removed"
    )
    chart: Name | None = Field(
        None,
        description="strimzi-kafka, for a Kafka that Strimzi's operator runs, or the name of an entry in the "
        "administrator's list (`dedup run` starts processes all the same)",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        check_one_of(self, {"existing": self.existing, "chart": self.chart}, "a deployment")
        return self
