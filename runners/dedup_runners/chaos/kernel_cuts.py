"""A broker on this machine is cut off where its network meets the others: in the lab's own network.

Each broker, bookie and ZooKeeper has a network namespace, and all that they say to each other and to clients passes the
lab's (dedup_lab/systems/networks.py). So one table of nftables there, whose rules drop and count packets, cuts any of
them off from any other, and nobody else. The rules drop what comes from or goes to the members of a set, and each
member expires by itself: the kernel heals the cut even if nobody lives who remembers it. Once the lab is gone there is
no table, and no network either.
"""

import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final
from uuid import uuid4

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.partition import Between, Way

MEMBERS: Final = "cut"
ACCEPT: Final = 1
DROP: Final = 0
IPV4: Final = 2
ADDRESS_BYTES: Final = 4
_NETWORK, _TRANSPORT = 1, 2
"""Which header a rule reads: that of IPv4, or that of TCP behind it (enum nft_payload_bases)."""
_SOURCE, _DESTINATION = 12, 16
"""Where IPv4's header has the addresses."""
_SOURCE_PORT, _DESTINATION_PORT = 0, 2
"""Where TCP's header has the ports."""

Expressions = list[dict[str, Any]]


class KernelCut:
    """A `Cut` (cuts.py) by nftables in the lab's network."""

    def __init__(self, endpoints: Endpoints, fault: str, between: Between, way: Way) -> None:
        self._endpoints, self._between, self._way, self._fault = endpoints, between, way, fault
        self._name = f"dedup-{fault}-{uuid4().hex[:8]}"

    def prepare(self) -> None:
        if sys.platform != "linux" or any(broker.own_address is None for broker in self._endpoints.brokers):
            raise PlatformError(
                where=f"fault {self._fault}",
                got="brokers that share one network",
                rule="a broker is cut off where its own network meets the others",
                todo="use `dedup run`, which gives each broker a network of its own",
            )
        with _nft() as nft:  # loads the library, and sees that the kernel answers
            nft.get_tables()

    def begin(self, broker: str, duration_s: float) -> dict[str, str]:
        at = self._endpoints.broker(broker)
        assert at.own_address is not None
        if self._between is Between.CLIENTS:
            rules, members = of_clients(at.client_port), {at.own_address}
        else:
            rules = of_peers(at.own_address)
            members = {each.own_address for each in self._endpoints.others(broker) if each.own_address}
        with _nft() as nft:
            nft.table("add", name=self._name)
            _add_set(nft, self._set(timeout=round(duration_s * 1000)))
            nft.set_elems("add", set=self._set(), elements=members)
            for way, hook, expressions in rules:
                if self._way in (way, Way.BOTH):
                    nft.chain("add", table=self._name, name=hook, hook=hook, type="filter", policy=ACCEPT)
                    nft.rule("add", table=self._name, chain=hook, expressions=(expressions, _counted_and_dropped()))
        return {"table": self._name}

    def effect(self, broker: str) -> dict[str, Any]:
        with _nft() as nft:
            rules = [rule for rule in nft.get_rules() if rule.get_attr("NFTA_RULE_TABLE") == self._name]
            dropped = sum(map(_counted, rules))
            in_force = bool(rules) and bool(nft.set_elems("get", set=self._set()))
        return {"packets_dropped": dropped} if dropped and in_force else {}

    def end(self, broker: str) -> bool:
        with _nft() as nft:
            if self._name in _tables(nft):
                nft.table("del", name=self._name)
            return self._name not in _tables(nft)

    def _set(self, **more: int) -> Any:
        from pyroute2.nftables.main import NFTSet

        return NFTSet(table=self._name, name=MEMBERS, key_type="ipv4_addr", **more)


def tried() -> None:
    """Do once all that a cut needs of the kernel, to nobody; an error of pyroute2's if it lacks any of it."""
    brokers = [Broker(id=each, client_port=1, own_address=f"192.0.2.{each}") for each in "12"]
    endpoints = Endpoints(system="kafka", client_bootstrap="", direct_bootstrap="", brokers=brokers)
    for between in Between:
        cut = KernelCut(endpoints, "tried", between, Way.BOTH)
        try:
            cut.begin("1", 1.0)
            cut.effect("1")
        finally:
            cut.end("1")


def of_peers(address: str) -> Iterator[tuple[Way, str, Expressions]]:
    """What passes between a broker and the members, each way: the hook where it is seen, and what matches it."""
    yield Way.FROM_LEADER, "forward", [*_is(_NETWORK, _SOURCE, socket.inet_aton(address)), *_is_member(_DESTINATION)]
    yield Way.TO_LEADER, "forward", [*_is(_NETWORK, _DESTINATION, socket.inet_aton(address)), *_is_member(_SOURCE)]


def of_clients(port: int) -> Iterator[tuple[Way, str, Expressions]]:
    """What passes between the lab and a member's port for clients: all clients, or their proxy, are in the lab."""
    number = struct.pack("!H", port)
    yield Way.FROM_LEADER, "input", [*_is_member(_SOURCE), *_is(_TRANSPORT, _SOURCE_PORT, number)]
    yield Way.TO_LEADER, "output", [*_is_member(_DESTINATION), *_is(_TRANSPORT, _DESTINATION_PORT, number)]


def _nft() -> "closing[Any]":
    from pyroute2.nftables.main import NFTables  # it is for Linux alone, and takes a while to load

    return closing(NFTables(nfgen_family=IPV4))


def _add_set(nft: Any, wanted: Any) -> None:
    # pyroute2 0.9.7's own `sets("add")` sends this, too, and then takes the answer for a generator.
    from pyroute2.netlink.nfnetlink.nftsocket import NFT_MSG_NEWSET, nft_set_msg

    nft._run_with_cleanup(nft.asyncore._command, nft_set_msg, {"add": NFT_MSG_NEWSET}, "add", wanted.as_netlink())


def _tables(nft: Any) -> set[str]:
    return {table.get_attr("NFTA_TABLE_NAME") for table in nft.get_tables()}


def _loaded(header: int, offset: int, length: int) -> dict[str, Any]:
    return _expression("payload", dreg=1, base=header, offset=offset, len=length)


def _is(header: int, offset: int, value: bytes) -> Expressions:
    same = _expression("cmp", sreg=1, op=0, data={"attrs": [("NFTA_DATA_VALUE", value)]})
    return [_loaded(header, offset, len(value)), same]


def _is_member(offset: int) -> Expressions:
    return [_loaded(_NETWORK, offset, ADDRESS_BYTES), _expression("lookup", set=MEMBERS, sreg=1)]


def _counted_and_dropped() -> Expressions:
    from pyroute2.nftables.expressions import verdict

    return [_expression("counter", bytes=0, packets=0), *verdict(code=DROP)]


def _counted(rule: Any) -> int:
    """The packets that a rule has counted."""
    found = [each for each in rule.get_attr("NFTA_RULE_EXPRESSIONS") if each.get_attr("NFTA_EXPR_NAME") == "counter"]
    return sum(each.get_attr("NFTA_EXPR_DATA").get_attr("NFTA_COUNTER_PACKETS") for each in found)


def _expression(name: str, **arguments: Any) -> dict[str, Any]:
    from pyroute2.nftables.expressions import genex

    found: dict[str, Any] = genex(name, arguments)
    return found
