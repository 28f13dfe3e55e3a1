"""What an experiment with a service makes besides: its database, where it is and its password; nothing without one."""

from pathlib import Path
from typing import Any, Final

import pytest

from dedup.experiment.assignments import Assignment
from dedup.experiment.plans import plan
from dedup.experiment.spec import Experiment, load
from dedup_operator.objects.names import Owner
from dedup_operator.objects.runs import run_objects
from dedup_operator.objects.settings import Settings
from dedup_operator.objects.systems import release_of, values

EXAMPLES: Final = Path(__file__).parents[3] / "examples"
OWNER: Final = Owner("lab", "kafka-services", "6f1c")
SETTINGS: Final = Settings.model_validate(
    {
        "namespace": "lab",
        "artifacts": {"s3": {"bucket": "b"}},
        "charts": {"kafka": {"postgres": {"image": {"repository": "mirror.example/postgres"}}}},
    }
)


@pytest.fixture(scope="module")
def served() -> Experiment:
    return load(EXAMPLES / "workloads" / "kafka-services.yaml")


@pytest.fixture(scope="module")
def plain() -> Experiment:
    return load(EXAMPLES / "workloads" / "kafka-consumer-restart.yaml")


def told(experiment: Experiment) -> dict[str, Any]:
    (system,) = experiment.spec.systems
    return values(system, SETTINGS, OWNER, experiment.spec)


def containers(experiment: Experiment) -> dict[str, dict[str, Any]]:
    job = run_objects(OWNER, experiment, plan(experiment)[0], 1, SETTINGS)[-1]
    return {each["name"]: each for each in job["spec"]["template"]["spec"]["containers"]}


def assigned(experiment: Experiment) -> Assignment:
    config, *_ = run_objects(OWNER, experiment, plan(experiment)[0], 1, SETTINGS)
    return Assignment.model_validate_json(config["data"]["run.json"])


def without_outbox(experiment: Experiment) -> Experiment:
    """The same with patterns that emit events themselves."""
    text = experiment.model_dump_json(by_alias=True, exclude_none=True)
    for outbox, other in (("IdempotentConsumerAndOutbox", "IdempotentConsumer"), ("OutboxOffsetEarly", "Nothing")):
        text = text.replace(outbox, other)
    return Experiment.model_validate_json(text.replace('"Outbox"', '"Row"'))


def test_the_chart_starts_what_the_patterns_need_and_no_more(served: Experiment, plain: Experiment) -> None:
    assert (told(served)["beside"], told(without_outbox(served))["beside"]) == ("Capture", "Database")
    assert "beside" not in told(plain)
    assert told(served)["postgres"] == {"image": {"repository": "mirror.example/postgres"}}, "the administrator's word"


def test_the_runner_is_told_where_the_database_is_and_the_consumer_alone_may_log_in(
    served: Experiment, plain: Experiment
) -> None:
    (system,) = served.spec.systems
    host = f"{release_of(OWNER, system)}-postgres"
    assert assigned(served).database == f"postgresql://postgres@{host}.lab.svc:5432/postgres"
    having = {name: each for name, each in containers(served).items() if "PGPASSWORD" in str(each.get("env"))}
    assert [*having] == ["consumer"]
    (password,) = [each for each in having["consumer"]["env"] if each["name"] == "PGPASSWORD"]
    assert password["valueFrom"] == {"secretKeyRef": {"name": host, "key": "database"}}
    assert assigned(plain).database is None
    assert "PGPASSWORD" not in str(containers(plain))
