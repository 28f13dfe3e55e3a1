"""Which transactions are open in a topic's partitions, and by when their coordinators end them.

Two parts of Kafka know of a transaction. A partition's leader knows that it has begun there (DescribeProducers). The
coordinator, a broker, knows the partitions that it is to end it in, at the latest after its time-out (ListTransactions,
DescribeTransactions). What a leader has and no coordinator has *hangs*: nobody ever writes its marker. It comes from a
message that is stored when its transaction has ended already (KIP-664, KIP-890).

The two cannot be asked at one moment. So leaders are asked, then all coordinators, then leaders again: what is the same
before and after was open in between. That a coordinator does not know it counts only if each partition of the
coordinators' log has a leader that has read it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import OPEN, Security
from dedup_runners.admins.transactions import ASKED_S, Open, all_open
from dedup_runners.admins.views import agreed, view
from dedup_runners.admins.wire import Line

OF_COORDINATORS: Final = "__transaction_state"
SCAN: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
"""A broker's setting: how often a coordinator looks for transactions whose time-out is past."""
ENDED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
"""States of a transactional id in which nothing is left to be ended."""
_BROKERS: Final = 4
"""Kafka's number of this kind of resource."""

Address = tuple[str, int]


def open_in_all(addresses: Iterable[Address], topic: str, security: Security = OPEN) -> list[Open]:
    """The open transactions of all partitions, each with the time within which it is to end; by place.

    `addresses`: where all brokers listen for us. OSError or PlatformError if not all is told, or leaders change.
    """
    own = list(addresses)
    before = _open(own, topic, security)
    if not before:
        return []
    due = _due(own, topic, {each.producer_id for each in before}, security)
    after = set(_open(own, topic, security))
    return [each._replace(due_s=due.get((each.producer_id, each.partition), 0.0)) for each in before if each in after]


def _open(addresses: list[Address], topic: str, security: Security) -> list[Open]:
    views = [view(address, topic, security) for address in addresses]
    brokers, leaders = views[0].brokers, agreed(views, topic)
    return all_open({number: (brokers[each.leader], each.epoch) for number, each in leaders.items()}, topic, security)


def _due(addresses: list[Address], topic: str, ids: set[int], security: Security) -> Mapping[tuple[int, int], float]:
    """Of the transactions of these producers that a coordinator is to end in a partition of the topic: within how long.

    By producer id and partition, in seconds.
    """
    views = [view(address, OF_COORDINATORS, security) for address in addresses]
    agreed(views, OF_COORDINATORS)
    found: dict[tuple[int, int], float] = {}
    for broker, address in views[0].brokers.items():
        with Line(address, ASKED_S, security) as line:
            for told in _ongoing(line, ids):
                scan_s = _scan_s(line, broker)
                for part in told.topics:
                    if part.topic == topic:
                        due_s = told.transaction_timeout_ms / 1000 + scan_s
                        found |= dict.fromkeys(((told.producer_id, each) for each in part.partitions), due_s)
    return found


def _ongoing(line: Line, ids: set[int]) -> Iterator[Any]:
    """What a coordinator says of the transactions of these producers that it has to end."""
    answer = line.ask(ListTransactionsRequest(version=0, state_filters=[], producer_id_filters=sorted(ids)))
    if answer.error_code:
        raise _untold("the transactions of a broker", f"Kafka error {answer.error_code}")
    names = [each.transactional_id for each in answer.transaction_states if each.transaction_state not in ENDED]
    if not names:
        return
    for told in line.ask(DescribeTransactionsRequest(version=0, transactional_ids=names)).transaction_states:
        if told.error_code:
            raise _untold(f"the transaction of {told.transactional_id}", f"Kafka error {told.error_code}")
        yield told


def _scan_s(line: Line, broker: str) -> float:
    """How long a broker pauses between its looks for transactions whose time-out is past, in seconds."""
    asked = DescribeConfigsRequest.DescribeConfigsResource
    resource = asked(resource_type=_BROKERS, resource_name=broker, configuration_keys=[SCAN])
    request = DescribeConfigsRequest(version=1, resources=[resource], include_synonyms=False)
    (answer,) = line.ask(request).results
    told = [each.value for each in answer.configs or () if each.name == SCAN]
    if answer.error_code or not told:
        raise _untold(f"{SCAN} of broker {broker}", f"Kafka error {answer.error_code}")
    return int(told[0]) / 1000


def _untold(where: str, got: str) -> PlatformError:
    return PlatformError(
        where=where,
        got=got,
        rule="coordinators tell which transactions they are to end, and by when",
        todo="error 14 or 16: a coordinator moves, ask again; 29, 31 or 53: grant Describe to who asks",
    )
