"""What a history says of the brokers' version: the experiment's word only where the experiment has deployed them."""

from typing import Any

import pytest
from testbed.specs import changed

from dedup.experiment.endpoints import Broker, BrokerPod, Endpoints
from dedup.experiment.spec import parse
from dedup_runners.attempt.courses import Situation

POD = BrokerPod(namespace="lab", name="k-0", container="broker")


@pytest.mark.parametrize(
    ("deploy", "pod", "ours"),
    [
        (None, POD, True),
        ({"chart": "strimzi-kafka"}, POD, True),
        ({"chart": "theirs"}, POD, False),
        ({"chart": "theirs"}, None, True),
        ({"existing": {"bootstrap": "broker:9092"}}, None, False),
    ],
    ids=["our chart", "Strimzi's", "a chart of the list", "the same, on one machine", "a system that is there already"],
)
def test_the_version_is_told_of_what_the_experiment_has_deployed(
    deploy: object, pod: BrokerPod | None, ours: bool
) -> None:
    document = changed(("spec/systems", [{"name": "k", "kafka": {}, "deploy": deploy}]))
    endpoints = Endpoints(
        system="kafka", client_bootstrap="a:1", direct_bootstrap="a:1", brokers=[Broker(id="0", client_port=1, pod=pod)]
    )
    nobody: Any = None
    situation = Situation(*([nobody] * 12))._replace(
        system=parse(document, source="test").spec.systems[0], endpoints=endpoints
    )
    assert situation.deployed_by_us is ours
