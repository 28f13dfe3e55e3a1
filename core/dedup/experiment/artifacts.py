"""Where histories and results are kept when an experiment runs in a cluster: in S3, or on a volume.

Below one root everything lies as in the results folder of `dedup run`: runs/RUN/attempt-N/ for each history. The keys
for S3 are never written here; they are in a Secret of the same namespace, which only pods read.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dedup.parts import BUCKET, ENDPOINT, OBJECT, PREFIX, REGION, Part, check_one_of

ObjectName = Annotated[str, Field(pattern=OBJECT, max_length=253)]


class SecretRef(Part):
    """A Secret of the experiment's own namespace that is labelled `dedup.dev/use: "true"`."""

    name: ObjectName = Field(description="of the Secret, which has the label dedup.dev/use with the value true")


class S3(Part):
    """A bucket of S3, or of a store with the same protocol."""

    bucket: Annotated[str, Field(pattern=BUCKET, max_length=63)] = Field(description="which must be there already")
    prefix: Annotated[str, Field(pattern=PREFIX, max_length=512)] | None = Field(
        None, description="what all names begin with; the namespace and the experiment's name follow it"
    )
    endpoint: Annotated[str, Field(pattern=ENDPOINT, max_length=300)] | None = Field(
        None, description="the address of a store that is not Amazon's"
    )
    region: Annotated[str, Field(pattern=REGION, max_length=32)] | None = Field(None, description="the bucket's")
    secret_ref: SecretRef | None = Field(
        None, description="the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; left out where pods have an identity"
    )


class VolumeClaim(Part):
    """A PersistentVolumeClaim of the experiment's own namespace. Every pod of a run and of Spark mounts it."""

    claim_name: ObjectName = Field(description="of the claim; ReadWriteMany, or all pods on one node")


class Artifacts(Part):
    """Exactly one of a bucket and a volume."""

    s3: S3 | None = Field(None, description="a bucket")
    pvc: VolumeClaim | None = Field(None, description="a volume")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        check_one_of(self, {"s3": self.s3, "pvc": self.pvc}, "a place for artifacts")
        return self
