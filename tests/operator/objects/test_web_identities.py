"""Pods that prove who they are by a token of their account, for which the store's STS lends them keys."""

from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import ValidationError
from tests.operator.objects.test_objects import EXAMPLES, OWNER, SETTINGS, containers, first, job, mounted, walk

from dedup.errors import SpecificationError
from dedup.experiment.spec import Experiment, load, parse
from dedup_operator.objects import settings as settings_files
from dedup_operator.objects.pods import IDENTITY_MOUNT, TOKEN_LIVES_S, Object
from dedup_operator.objects.reports import report
from dedup_operator.objects.runs import run_objects
from dedup_operator.objects.settings import S3, Artifacts, Defaults, Settings, WebIdentity
from dedup_operator.objects.verifications import verification

ROLE: Final = "arn:minio:iam:::role/reeFDUnitwBRPBk337yQUrnJxO0"
IDENTITY: Final = WebIdentity(audience="minio.minio", role=ROLE)
STORE: Final = S3(bucket="b", endpoint="http://store:9000", web_identity=IDENTITY)
VARIABLES: Final = {"AWS_WEB_IDENTITY_TOKEN_FILE": f"{IDENTITY_MOUNT}/token", "AWS_ROLE_ARN": ROLE}
TOKEN: Final = {"path": "token", "audience": "minio.minio", "expirationSeconds": TOKEN_LIVES_S}
VOLUME: Final = {"name": "identity", "projected": {"defaultMode": 0o440, "sources": [{"serviceAccountToken": TOKEN}]}}


def known_by(identity: WebIdentity | None) -> Settings:
    store = STORE.model_copy(update={"web_identity": identity})
    return SETTINGS.model_copy(update={"artifacts": Artifacts(s3=store)})


IDENTIFIED: Final = known_by(IDENTITY)


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return load(EXAMPLES / "kafka-vs-pulsar.yaml")


def local(experiment: Experiment) -> Experiment:
    document = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["spec"]["verification"] = {"engine": "Local"}
    return parse(document, source="test")


def environment(container: Object) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in container.get("env", [])}


def pods(experiment: Experiment, settings: Settings) -> list[Object]:
    """The specs of the Jobs' pods."""
    jobs = [
        job(experiment, settings=settings),
        report(OWNER, settings),
        verification(OWNER, local(experiment), settings),
    ]
    return [each["spec"]["template"]["spec"] for each in jobs]


def test_each_container_that_reaches_the_store_has_the_token_and_no_other_has(experiment: Experiment) -> None:
    having = set()
    for spec in pods(experiment, IDENTIFIED):
        assert VOLUME in spec["volumes"]
        for each in [*spec.get("initContainers", []), *spec["containers"]]:
            told = environment(each)
            assert ("identity" in mounted(each)) == ("AWS_ROLE_ARN" in told) == ("AWS_REGION" in told)
            if "identity" in mounted(each):
                assert {name: told.get(name) for name in VARIABLES} == VARIABLES
                assert {"name": "identity", "mountPath": IDENTITY_MOUNT} in each["volumeMounts"]
                having.add(each["name"])
    assert having == {"conductor", "courier", "report", "verification"}


def test_so_have_the_driver_and_the_executors_of_spark(experiment: Experiment) -> None:
    spec = verification(OWNER, experiment, IDENTIFIED)["spec"]
    assert VOLUME in spec["volumes"]
    for part in (spec["driver"], spec["executor"]):
        assert {"name": "identity", "mountPath": IDENTITY_MOUNT} in part["volumeMounts"]
        assert environment(part).items() >= VARIABLES.items()


def test_no_key_is_asked_for(experiment: Experiment) -> None:
    made = [*run_objects(OWNER, experiment, first(experiment, "kafka"), 1, IDENTIFIED), report(OWNER, IDENTIFIED)]
    made += [verification(OWNER, each, IDENTIFIED) for each in (experiment, local(experiment))]
    names = {each["name"] for each in walk(made) if "name" in each}
    assert "AWS_ROLE_ARN" in names
    assert not names & {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}


def test_without_an_identity_there_is_no_token(experiment: Experiment) -> None:
    for spec in pods(experiment, known_by(None)):
        assert "identity" not in {each["name"] for each in spec["volumes"]}
        every = [*spec.get("initContainers", []), *spec["containers"]]  # the courier is a sidecar, an init container
        assert not any("identity" in mounted(each) or "AWS_ROLE_ARN" in environment(each) for each in every)


def test_an_sts_that_is_not_at_the_stores_address_is_told_apart(experiment: Experiment) -> None:
    apart = IDENTITY.model_copy(update={"sts_endpoint": "https://sts.store:4223/sts/tenant"})
    name = "AWS_ENDPOINT_URL_STS"
    assert environment(containers(job(experiment, settings=known_by(apart)))["courier"])[name] == apart.sts_endpoint
    assert name not in environment(containers(job(experiment, settings=IDENTIFIED))["courier"])


def test_an_experiments_own_store_is_never_shown_the_token(experiment: Experiment) -> None:
    """Its author names the address: he could have a token sent there that opens the administrator's store."""
    defaults = Defaults(artifacts=IDENTIFIED.artifacts)
    document = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    there = settings_files.for_experiment(defaults, parse(document, source="test"), "lab")
    assert there.artifacts == IDENTIFIED.artifacts
    document["spec"]["artifacts"] = {"s3": {"bucket": "own", "endpoint": "http://store:9000"}}
    own = settings_files.for_experiment(defaults, parse(document, source="test"), "lab")
    assert own.artifacts.s3 is not None and own.artifacts.s3.web_identity is None
    assert own.artifacts.s3.endpoint == STORE.endpoint
    document["spec"]["artifacts"]["s3"]["webIdentity"] = {"audience": "minio.minio", "role": ROLE}
    with pytest.raises(SpecificationError, match="webIdentity"):
        parse(document, source="test")


def test_a_store_has_keys_or_an_identity(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    said = f"bucket: b, webIdentity: {{audience: minio.minio, role: '{ROLE}'}}"
    path.write_text(f"artifacts: {{s3: {{{said}}}}}")
    told = settings_files.load_defaults(path).artifacts
    assert told is not None and told.s3 is not None and told.s3.web_identity == IDENTITY
    path.write_text(f"artifacts: {{s3: {{{said}, secret: keys}}}}")
    with pytest.raises(SpecificationError, match=r"by a secret or by a webIdentity; leave one of them out"):
        settings_files.load_defaults(path)


@pytest.mark.parametrize("role", ["", "dedup", "arn:short", "arn:minio:iam:::role/a b c"])
def test_a_role_is_an_arn(role: str) -> None:
    with pytest.raises(ValidationError):
        WebIdentity(audience="minio.minio", role=role)
