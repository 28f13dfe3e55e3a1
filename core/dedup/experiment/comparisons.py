"""What a DedupComparison asks: one experiment, carried out in several clusters, and a table of what came of it.

The clusters are named; the first is the baseline. One without a `kubeConfig` is the cluster that the comparison itself
lies in, its *hub*. Each gets an ordinary DedupExperiment, whose spec is the template's and whose name follows from the
comparison and the cluster, so that asking twice changes nothing. A comparison asks once: its spec cannot be edited.
"""

import hashlib
import json
from functools import cache
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from dedup import documents
from dedup.experiment.artifacts import SecretRef
from dedup.experiment.spec import Experiment, FileSchema, Metadata, Spec
from dedup.parts import PATTERNS, Name, Part
from dedup.quantities import Seconds
from dedup.refusals import readable, refusal

MAX_DEADLINE_S: Final = 30 * 86400.0
MOST_RUNS: Final = 320
"""So many runs, of all systems and variants together, fit into what one cluster tells another, whatever came of them
(`dedup.judgement.abridgements`; a test packs them)."""
SELDOM: Final = "a comparison decides itself when its experiments begin"
TOO_MANY: Final = f"a cluster tells another of at most {MOST_RUNS} runs, over all systems and variants"
TOO_MANY_TODO: Final = "ask for fewer, or run the experiments by themselves and use dedup compare"
_NAME_CHARACTERS: Final = 28
_DIGITS: Final = 10


class KubeConfig(Part):
    """How another cluster is reached."""

    secret_ref: SecretRef = Field(description="whose key kubeconfig is the file, with a token in it")


class Compared(Part):
    """One cluster."""

    name: Name = Field(description="of the cluster, as the table has it")
    kube_config: KubeConfig | None = Field(None, description="of another cluster; left out: the comparison's own")


class Template(Part):
    """The experiment that each cluster carries out."""

    spec: Spec = Field(description="as in a DedupExperiment, without runToken and suspend")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.spec.run_token is not None or self.spec.suspend:
            key = "spec.runToken" if self.spec.run_token is not None else "spec.suspend"
            raise refusal(key, "one", SELDOM, "take it out")
        runs = len(self.spec.systems) * len(self.spec.variants) * self.spec.runs
        if runs > MOST_RUNS:
            raise refusal("spec.runs", f"{runs} runs", TOO_MANY, TOO_MANY_TODO)
        return self


class ComparisonSpec(Part):
    """What is compared. It cannot be edited: another comparison asks another question."""

    clusters: Annotated[list[Compared], Field(min_length=2, max_length=8)] = Field(
        description="which clusters; the first is the baseline, with which the others are compared"
    )
    template: Template = Field(description="what each of them is to do")
    deadline_s: Seconds = Field(
        86400.0,
        alias="deadline",
        gt=0,
        le=MAX_DEADLINE_S,
        description="how long all of them may take, from the comparison's creation; then it is inconclusive",
    )
    confidence_percent: float = Field(95.0, ge=50, lt=100, description="at which a difference is claimed")

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [each.name for each in self.clusters]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise refusal(f"clusters[{index}].name", name, "each cluster has a name of its own", "rename one")
        return self


class Comparison(Part):
    """A `DedupComparison` resource."""

    api_version: Literal["dedup.dev/v1alpha1"] = Field(description="the version of this format")
    kind: Literal["DedupComparison"] = Field(description="what this document is")
    metadata: Metadata = Field(description="its name")
    spec: ComparisonSpec = Field(description="what is compared")

    def digest(self) -> str:
        """A sha256 of what is asked: equal digests mean the same question."""
        asked = self.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def token(self, uid: str) -> str:
        """The runToken of its experiments. Another one in a cluster shows that a user began another execution there."""
        return hashlib.sha256(f"{uid}/{self.digest()}".encode()).hexdigest()[:_DIGITS]

    def experiment(self, uid: str, cluster: str) -> Experiment:
        """What one cluster is asked. Its name follows from the comparison's UID and spec, and from the cluster."""
        whose = hashlib.sha256(f"{uid}/{self.digest()}/{cluster}".encode()).hexdigest()[:_DIGITS]
        name = f"{self.metadata.name[:_NAME_CHARACTERS].rstrip('-')}-{whose}"
        spec = self.spec.template.spec.model_copy(update={"run_token": self.token(uid)})
        return Experiment(
            api_version="dedup.dev/v1alpha1", kind="DedupExperiment", metadata=Metadata(name=name), spec=spec
        )


def parse(document: object, *, source: str) -> Comparison:
    """Check a document that was read from `source`; SpecificationError in one line."""
    mapping = documents.check(document, source)
    try:
        return Comparison.model_validate_json(json.dumps(mapping, default=str), by_alias=True, by_name=False)
    except ValidationError as error:
        raise readable(error, source=source, document=mapping, schema=_known_schema(), patterns=PATTERNS) from None


def json_schema() -> dict[str, Any]:
    """The JSON schema of the resource."""
    return Comparison.model_json_schema(by_alias=True, schema_generator=FileSchema)


@cache
def _known_schema() -> dict[str, Any]:
    return json_schema()
