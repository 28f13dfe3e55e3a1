"""What an experiment does not say and its objects need: images, the store of histories, sizes of pods.

An experiment is written by whoever asks the question, and it is the same in every cluster. What is here differs from
cluster to cluster and is said once by whoever runs it; the operator will have it from its chart, a person gives a file
(docs/run-by-hand.md).
"""

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from dedup import documents
from dedup.errors import SpecificationError
from dedup.experiment.spec import Experiment
from dedup.experiment.systems import Chart
from dedup.parts import Name, Part
from dedup_operator.objects.listed import ListedSystem
from dedup_operator.statuses import Kept

STORE_MOUNT: Final = "/store"
STORE_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
SESSION_KEY: Final = "AWS_SESSION_TOKEN"
"""What keys that are lent for a while have besides; others have none."""
_LINE: Final = r"^[^\s]+$"
_TAG: Final = r"^[A-Za-z0-9_.-]{1,128}(@sha256:[0-9a-f]{64})?$"
Text = Annotated[str, Field(pattern=_LINE, max_length=253)]
ChaosRight = Literal["DeleteBrokerPods"]
"""What an account of a run may do besides, for a user's own experiment of Chaos Toolkit."""
_Kind = TypeVar("_Kind", bound=Part)
Memory = Annotated[str, Field(pattern=r"^[1-9][0-9]*(Mi|Gi)$")]
Cpu = Annotated[str, Field(pattern=r"^([1-9][0-9]*m|[1-9][0-9]*|[0-9]+\.[0-9]+)$", max_length=16)]


def bytes_of(memory: Memory) -> int:
    """How many bytes that is."""
    return int(memory[:-2]) << (30 if memory.endswith("Gi") else 20)


class Image(Part):
    """An image, and when a node asks its registry for it. A tag may have a digest behind it, which then decides."""

    repository: Text
    tag: Annotated[str, Field(pattern=_TAG)]
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"

    @property
    def reference(self) -> str:
        return f"{self.repository}:{self.tag}"


class WebIdentity(Part):
    """An identity of pods that needs no key: a token of the pod's account, for which the store's STS lends keys.

    The administrator's only: who names the store could else have tokens for another one sent to himself.
    """

    audience: Text = Field(description="whom the token is for, as the store knows itself")
    role: Annotated[str, Field(pattern=r"^arn:[^\s]+$", min_length=20, max_length=2048)] = Field(
        description="the ARN of the role that the store gives for it"
    )
    sts_endpoint: Annotated[str, Field(pattern=_LINE, max_length=300)] | None = Field(
        None, description="where the STS is; left out: at the store's own endpoint, or Amazon's"
    )


class S3(Part):
    """A bucket; its keys are in a Secret, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN)."""

    bucket: Text
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]*$", max_length=512)] = ""
    endpoint: Annotated[str, Field(pattern=_LINE, max_length=300)] | None = Field(
        None, description="such as http://minio.minio:9000; left out: Amazon's own"
    )
    region: Text = "us-east-1"
    secret: Text | None = Field(None, description="a Secret of the experiment's namespace; none: pods have an identity")
    web_identity: WebIdentity | None = Field(None, description="the identity, where no webhook of a cloud gives it")

    @model_validator(mode="after")
    def _keys_or_identity(self) -> Self:
        if self.secret is not None and self.web_identity is not None:
            raise ValueError("a store knows pods by a secret or by a webIdentity; leave one of them out")
        return self


class Volume(Part):
    """A PersistentVolumeClaim that every pod of the experiment can mount."""

    claim: Text
    folder: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=63)] = "dedup"


class Artifacts(Part):
    """Where histories and judgements go: exactly one of the two."""

    s3: S3 | None = None
    volume: Volume | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.s3 is None) == (self.volume is None):
            raise ValueError("artifacts are exactly one of s3 and volume")
        return self

    def root(self, folder: str) -> str:
        """The folder of one experiment (`Owner.folder`) in the store, as every pod of it names it."""
        if self.s3 is not None:
            return "/".join(part for part in (f"s3://{self.s3.bucket}", self.s3.prefix.strip("/"), folder) if part)
        assert self.volume is not None
        return f"{STORE_MOUNT}/{self.volume.folder}/{folder}"

    def kept(self, folder: str) -> Kept:
        """The same for people, who have no pod of it."""
        if self.s3 is not None:
            return Kept(uri=self.root(folder), endpoint=self.s3.endpoint, region=self.s3.region)
        assert self.volume is not None
        return Kept(claim_name=self.volume.claim, folder=f"{self.volume.folder}/{folder}")


class Runner(Part):
    """The pods of runs. A history that is not in the store yet is kept in the pod."""

    memory: Memory = Field("1Gi", description="what a producer or consumer may use at most")
    history: Memory = Field("4Gi", description="what a history may take of the node's disk at most")


class Spark(Part):
    """The verification: how many executors, and how large each is."""

    version: Text = "4.3.0"
    executors: int = Field(1, ge=1, le=1000)
    cores: int = Field(1, ge=1, le=64, description="tasks that an executor does at a time")
    cpu: Annotated[str, Field(pattern=r"^[0-9]+m?$")] = Field("100m", description="what the driver and each ask for")
    memory_mi: int = Field(1024, alias="memoryMi", ge=512, description="Java's heap of the driver and of each")
    python_mi: int = Field(1024, alias="pythonMi", ge=256, description="what Python workers have beside it")


class Verifier(Part):
    """The pod that verifies without Spark (`verification: {engine: Local}`)."""

    memory: Memory = Field("2Gi", description="what it may use at most: what it finds of all runs is there")


class PullSecret(Part):
    """A Secret with which a node asks a registry, in the namespace of each experiment."""

    name: Text


class Toleration(Part):
    """A taint of nodes that our pods bear, as Kubernetes has it."""

    key: Text | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: Annotated[str, Field(max_length=63)] | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = Field(None, ge=0)


class Affinity(Part):
    """Which nodes, and the neighbourhood of which pods, ours are drawn to: each part as Kubernetes has it."""

    node_affinity: dict[str, Any] | None = None
    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


class PodTemplate(Part):
    """Where our pods may run and how their images are had. Pods of systems have what their charts are told."""

    image_pull_secrets: list[PullSecret] = Field(default_factory=list)
    node_selector: dict[Text, Annotated[str, Field(max_length=63)]] = Field(default_factory=dict)
    tolerations: list[Toleration] = Field(default_factory=list)
    affinity: Affinity | None = None
    priority_class_name: Text | None = None
    annotations: dict[Text, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict, description="of our pods; those that we write ourselves win"
    )


class Requests(Part):
    """What each container of our pods asks for. One that may not use so much memory asks for what it may use."""

    cpu: Cpu = "20m"
    memory: Memory = "64Mi"


class Limits(Part):
    """What each may use at most, beside its memory, which has settings of its own."""

    cpu: Cpu | None = Field(None, description="none: what the node has; a run that is throttled is a slow one")


class Resources(Part):
    """Of every container of our pods; of Spark's, the limit only (`spark.cpu` is what they ask for)."""

    requests: Requests = Requests()
    limits: Limits = Limits()


class ChaosImage(Part):
    """Where users' own experiments of Chaos Toolkit may run, and with which rights: each is code of its author."""

    name: Name
    image: Image | None = Field(None, description="made from the runners' image, with extensions; none: that itself")
    rights: list[ChaosRight] = Field(
        default_factory=list, description="to the pods of the brokers that the same experiment has deployed"
    )
    sha256: list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = Field(
        min_length=1, description="of the texts that may run, each of which the administrator has read: they are code"
    )


class Defaults(Part):
    """What the administrator says once for all experiments. Without artifacts there, each names its own."""

    artifacts: Artifacts | None = None
    runner_image: Image = Image(repository="localhost/dedup-runner", tag="dev")
    spark_image: Image = Image(repository="localhost/dedup-spark", tag="dev")
    clients_image: Image = Field(
        Image(repository="localhost/dedup-clients", tag="dev"),
        description="of producers whose client is a program: kafka-java, franz-go, pulsar-java, or one with a version",
    )
    runner: Runner = Runner()
    spark: Spark = Spark()
    verifier: Verifier = Verifier()
    pod_template: PodTemplate = Field(
        PodTemplate(), description="of the pods of runs, of Spark, and of all other pods of ours but the systems'"
    )
    resources: Resources = Field(Resources(), description="of each container of those pods")
    account_annotations: dict[Text, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict,
        description="of the accounts whose pods reach the store: by them clouds give pods an identity",
    )
    concurrent_experiments: int = Field(
        4, ge=1, le=1000, description="how many run at a time; each has its systems' pods, and the others wait"
    )
    allow_privileged_faults: bool = Field(
        False, description="whether experiments may add containers with NET_ADMIN to brokers' pods"
    )
    allow_logins_to_any_host: bool = Field(
        False, description="whether a Secret with a log-in needs no annotation that says where it may be shown"
    )
    allow_faults_on_pods_of_others: bool = Field(
        False,
        description="a preview: whether experiments may strike pods of systems that are there already, whose owner "
        "allows it; every experiment on such a system then takes its lock, and removes what it has made there",
    )
    chaos_images: list[ChaosImage] = Field(
        default_factory=list, description="where users' own experiments of Chaos Toolkit may run; none: nowhere"
    )
    systems: list[ListedSystem] = Field(
        default_factory=list, description="charts of others that experiments may have as their system; none: no such"
    )
    charts: dict[Chart, dict[str, Any]] = Field(
        default_factory=dict, description="further values for the charts of systems, such as {kafka: {image: …}}"
    )

    @model_validator(mode="after")
    def _one_entry_of_a_name(self) -> Self:
        names = [each.name for each in self.systems]
        if twice := next((each for each in names if names.count(each) > 1), None):
            raise ValueError(f"two entries of systems are called {twice}; rename one of them")
        return self


class Settings(Defaults):
    """Everything that objects need besides the experiment."""

    namespace: Text
    artifacts: Artifacts


def for_experiment(defaults: Defaults, experiment: Experiment, namespace: str) -> Settings:
    """The settings of an experiment of that namespace, which may name an artifact store of its own."""
    own, artifacts = experiment.spec.artifacts, defaults.artifacts
    if own is not None and own.s3 is not None:
        said = own.s3.model_dump(exclude={"secret_ref"}, exclude_none=True)
        artifacts = Artifacts(s3=S3(**said, secret=own.s3.secret_ref.name if own.s3.secret_ref else None))
    elif own is not None and own.pvc is not None:
        artifacts = Artifacts(volume=Volume(claim=own.pvc.claim_name))
    if artifacts is None:
        raise SpecificationError(
            where="spec.artifacts",
            got="nothing",
            rule="histories are kept somewhere, and the operator's chart names no store for all",
            todo="name a bucket or a claim",
        )
    common = {name: getattr(defaults, name) for name in Defaults.model_fields if name != "artifacts"}
    return Settings(**common, namespace=namespace, artifacts=artifacts)


def load(path: Path) -> Settings:
    """Read the settings of one namespace from a YAML file; SpecificationError in one line if they are wrong."""
    return _load(Settings, path)


def load_defaults(path: Path) -> Defaults:
    """Read the administrator's settings from a YAML file; SpecificationError in one line if they are wrong."""
    return _load(Defaults, path)


def _load(model: type[_Kind], path: Path) -> _Kind:
    try:
        return model.model_validate(documents.check(documents.read(path), str(path)), by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors()[0]
        raise SpecificationError(
            where=f"{path}: {'.'.join(map(str, first['loc'])) or 'document'}",
            got=repr(first.get("input"))[:80],
            rule=first["msg"],
            todo="write it as docs/run-by-hand.md does",
        ) from None
