"""An address that is written is connected to: of IPv6 it has brackets in a list, which are no part of the host."""

from contextlib import closing

import pytest

from dedup.experiment.endpoints import Broker, Endpoints
from dedup_runners.addresses import apart
from dedup_runners.admins.kafka import KafkaAdmin
from dedup_runners.chaos.faults.drop_tcp import direct_addresses
from dedup_runners.doors import Doors


@pytest.mark.parametrize("text", ["h:1", "[::1]:1", "::1:1"])
def test_an_address_is_taken_apart(text: str) -> None:
    assert apart(text) == ("h" if text == "h:1" else "::1", 1)


@pytest.mark.parametrize(("host", "text"), [("127.0.0.1", "127.0.0.1:9092"), ("::1", "[::1]:9092")])
def test_brokers_behind_doors_are_found_by_the_tester_itself(host: str, text: str) -> None:
    """It asks them past the doors, at the addresses that are written down there."""
    direct = Endpoints(system="kafka", client_bootstrap=text, direct_bootstrap=text, brokers=[])
    with Doors(direct, [Broker(id="1", host=host, client_port=9092)]) as doors:
        assert doors.endpoints.direct_bootstrap == text
        assert [each[:2] for each in direct_addresses(doors.endpoints.direct_bootstrap)] == [(host, 9092)]
        with closing(KafkaAdmin(doors.endpoints)) as admin:
            assert admin._addresses == [(host, 9092)]
