"""What Pulsar's REST answers mean, from small documents."""

from typing import Any

import httpx
import pytest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, Endpoints
from dedup_runners.admins import Ensemble, pulsar
from dedup_runners.admins.ledgers import extents, last_ensemble, mark_deleted
from dedup_runners.admins.pulsar import PulsarAdmin, judged, named


def stats(last: str, *ledgers: tuple[int, int]) -> dict[str, Any]:
    return {"lastConfirmedEntry": last, "ledgers": [{"ledgerId": name, "entries": count} for name, count in ledgers]}


METADATA = (
    "LedgerMetadata{formatVersion=3, ensembleSize=3, writeQuorumSize=3, ackQuorumSize=2, state=OPEN, "
    "digestType=CRC32C, password=OMITTED, ensembles={0=[a:3181, b:3181], 7=[a:3181, c:3181]}, "
    "customMetadata={component=base64:bWFuYWdlZC1sZWRnZXI=}}"
)


@pytest.mark.parametrize(
    ("ledgers", "expected"),
    [
        ([], Ensemble()),
        ([{"ledgerId": 5}], Ensemble(5)),
        ([{"ledgerId": 5, "metadata": METADATA}], Ensemble(5, ("a:3181", "c:3181"))),
        (
            [{"ledgerId": 5, "metadata": METADATA}, {"ledgerId": 6, "metadata": METADATA.replace("c:", "d:")}],
            Ensemble(6, ("a:3181", "d:3181")),
        ),
    ],
)
def test_who_stores_what_is_sent_now(ledgers: list[dict[str, Any]], expected: Ensemble) -> None:
    assert last_ensemble({"ledgers": ledgers}) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (stats("5:-1", (5, 0)), ()),
        (stats("5:9", (5, 0)), ((5, 10),)),
        (stats("7:0", (5, 4), (7, 0)), ((5, 4), (7, 1))),
        # After an unload the last confirmed entry may lie in a ledger that is closed, a new and empty one behind it.
        (stats("5:3", (5, 4), (7, 0)), ((5, 4),)),
        # A ledger that the owner opened and abandoned holds nothing and must not be waited for.
        (stats("9:0", (5, 4), (7, 0), (9, 0)), ((5, 4), (9, 1))),
    ],
)
def test_what_must_be_read(answer: dict[str, Any], expected: tuple[tuple[int, int], ...]) -> None:
    assert extents(answer) == expected


@pytest.mark.parametrize(
    ("statuses", "in_force"),
    [
        (["Enabled"], True),
        (["Disabled"], False),
        (["Enabled", "Enabled"], True),
        (["Enabled", "Disabled"], None),
        (["Recovering"], None),
        (["unknown"], None),
    ],
)
def test_deduplication_is_what_all_owners_say(statuses: list[str], in_force: bool | None) -> None:
    found = judged(True, {f"t{number}": status for number, status in enumerate(statuses)})
    assert found.in_force is in_force
    assert all(status in found.proof for status in statuses)


@pytest.mark.parametrize(
    ("brokers", "url", "expected"),
    [
        (["p-0.p.here.svc:8080", "p-1.p.here.svc:8080"], "http://p-1.p.here.svc:8080", "p-1.p.here.svc:8080"),
        (["127.0.0.1:8080", "127.0.0.1:8081"], "http://127.0.0.1:8081", "127.0.0.1:8081"),
        (["127.0.0.1:8080", "127.0.0.1:8081"], "http://elsewhere:8081", None),
        (["127.0.0.1:8080"], None, None),
    ],
)
def test_an_owner_is_known_by_host_and_port(brokers: list[str], url: str | None, expected: str | None) -> None:
    known = [Broker(id=name, client_port=6660) for name in brokers]
    assert named({"httpUrl": url, "brokerUrl": "pulsar://x:6650"}, known) == expected


def test_an_owner_is_also_known_by_its_admin_address() -> None:
    known = [
        Broker(id="a", client_port=1, admin_url="http://h:1"),
        Broker(id="b", client_port=1, admin_url="http://h:2"),
    ]
    assert named({"httpUrl": "http://h:2"}, known) == "b"


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("first", ["no answer", "status 500"])
def test_what_a_broker_did_without_saying_so_is_done(
    monkeypatch: pytest.MonkeyPatch, first: str, partitions: int
) -> None:
    brokers = Brokers(first)
    brokers.admin(monkeypatch).create_topic(TOPIC, partitions=partitions, deduplication=True)
    assert brokers.creations == ["a", "b"]


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("first", ["refused", "no answer", "status 500"])
def test_a_topic_that_holds_messages_is_not_of_our_making(
    monkeypatch: pytest.MonkeyPatch, first: str, partitions: int
) -> None:
    """Its twin is empty: then nobody knows, nor needs to, which request made it."""
    brokers = Brokers(first)
    brokers.admin(monkeypatch).create_topic(TOPIC, partitions=partitions, deduplication=True)
    brokers = Brokers(first)
    brokers.last = "5:9"
    with pytest.raises(PlatformError, match=f"creating {TOPIC}: got a topic that is there already, with 10 entries in"):
        brokers.admin(monkeypatch).create_topic(TOPIC, partitions=partitions, deduplication=True)


def test_a_topic_that_was_there_before_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers("status 409")
    with pytest.raises(PlatformError, match="got status 409"):
        brokers.admin(monkeypatch).create_topic(TOPIC, partitions=1, deduplication=True)
    assert brokers.creations == ["a"]


def test_a_topic_that_is_being_loaded_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers("no answer")
    brokers.statuses, brokers.misses, brokers.last = ["Recovering", "Initialized"], 2, "5:9"
    admin = brokers.admin(monkeypatch)
    assert admin.deduplication_in_force(TOPIC, True).in_force is True
    assert [each.extents for each in admin.end_positions(TOPIC)] == [((5, 10),)]


def test_a_topic_that_is_never_loaded_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers("no answer")
    brokers.statuses, brokers.misses = ["Recovering"] * 1000, 1000
    admin = brokers.admin(monkeypatch)
    monkeypatch.setattr(pulsar, "ANSWERED_S", 0.1)
    assert admin.deduplication_in_force(TOPIC, True).in_force is None
    with pytest.raises(PlatformError, match=r"the ends of .*status 404.*again and again"):
        admin.end_positions(TOPIC)


@pytest.mark.parametrize(
    ("statistics", "said"),
    [({}, {}), ({"deduplicationStatus": None}, {}), ({"deduplicationStatus": "Enabled"}, {"Enabled"})],
)
def test_statistics_without_a_status_are_no_answer(
    monkeypatch: pytest.MonkeyPatch, statistics: dict[str, str | None], said: set[str]
) -> None:
    class Silent(Brokers):
        def answer(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/stats"):
                return httpx.Response(200, json=statistics)
            return super().answer(request)

    assert set(Silent("no answer").admin(monkeypatch).look(TOPIC, 0).values()) == set(said)


TOPIC = "persistent://public/dedup-on/t"


class Brokers:
    """Two brokers' admin interfaces: the first makes a topic and answers as it is told, the second finds it there."""

    def __init__(self, first: str) -> None:
        self.first, self.creations, self.partitions = first, list[str](), 0
        self.statuses: list[str] = []
        """What the topic's owner says of its deduplication, in turns; then that it is enabled."""
        self.misses = 0
        """How often the topic's internal statistics are not to be had."""
        self.last = "5:-1"
        """Its last entry: there is none."""

    def admin(self, monkeypatch: pytest.MonkeyPatch) -> PulsarAdmin:
        client = httpx.Client(transport=httpx.MockTransport(self.answer))
        monkeypatch.setattr(pulsar, "http_client", lambda _endpoints, _timeout_s: client)
        known = [Broker(id=f"{name}:1", client_port=1, admin_url=f"http://{name}:1") for name in "ab"]
        urls = [f"http://{name}:1" for name in "ab"]
        address = "pulsar://a:2,b:2"
        return PulsarAdmin(
            Endpoints(
                system="pulsar", client_bootstrap=address, direct_bootstrap=address, admin_urls=urls, brokers=known
            )
        )

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if request.method == "PUT" and path.startswith("/admin/v2/persistent/"):
            return self.create(request)
        if path.endswith("/deduplication"):
            return httpx.Response(200, json=True)
        if path.endswith("/partitions"):
            return httpx.Response(200, json={"partitions": self.partitions})
        if path.startswith("/lookup/"):
            return httpx.Response(200, json={"httpUrl": "http://a:1"})
        if path.endswith("/internalStats"):
            self.misses -= 1
            return httpx.Response(404) if self.misses >= 0 else httpx.Response(200, json=stats(self.last, (5, 0)))
        return httpx.Response(200, json={"deduplicationStatus": self.statuses.pop(0) if self.statuses else "Enabled"})

    def create(self, request: httpx.Request) -> httpx.Response:
        self.creations.append(request.url.host)
        if request.url.path.endswith("/partitions"):
            self.partitions = int(request.content)
        if request.url.host == "b":
            return httpx.Response(409, json={"reason": "This topic already exists"})
        if self.first == "no answer":
            raise httpx.ReadTimeout("timed out")
        if self.first == "refused":
            raise httpx.ConnectError("refused")
        return httpx.Response(int(self.first.split()[1]))


def test_brokers_tell_which_bookies_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    class Storing(Brokers):
        def answer(self, request: httpx.Request) -> httpx.Response:
            if request.url.path == "/admin/v2/bookies/all":
                return httpx.Response(200, json={"bookies": [{"bookieId": "bk-1:3181"}, {"bookieId": "bk-0:3181"}]})
            return super().answer(request)

    assert Storing("no answer").admin(monkeypatch).bookies() == ["bk-0:3181", "bk-1:3181"]


@pytest.mark.parametrize("slow", [0, 3], ids=["at once", "after a while"])
def test_namespaces_that_were_made_are_removed_however_long_brokers_take(
    slow: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer came too late on a busy machine: the other namespace was left, and no word named it."""
    left, late = {"on", "off"}, [slow]

    class Busy(Brokers):
        def answer(self, request: httpx.Request) -> httpx.Response:
            if request.method != "DELETE":
                return super().answer(request)
            late[0] -= 1
            if late[0] >= 0:
                raise httpx.ReadTimeout("timed out")
            left.discard(request.url.path.rpartition("-")[2])
            return httpx.Response(204)

    admin = Busy("status 204").admin(monkeypatch)
    for switched in (True, False):
        admin.create_topic(
            f"persistent://public/dedup-{'on' if switched else 'off'}/t", partitions=1, deduplication=True
        )
    admin.forget()
    assert left == set()


def test_the_round_trip_goes_through_every_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker b was restarted and owns nothing, so that a message on a topic of broker a never goes through it."""
    owner: dict[str, str] = {}
    moved: list[str] = []
    refused: list[str] = []

    class Owners(Brokers):
        def answer(self, request: httpx.Request) -> httpx.Response:
            path = request.url.path
            if path.endswith("/bundle"):
                return httpx.Response(200, text='"0x0_0x1"')
            if path.startswith("/lookup/"):
                return httpx.Response(200, json={"httpUrl": f"http://{owner.setdefault(path.split('/')[6], 'a:1')}"})
            if path.endswith("/unload"):
                namespace = path.split("/")[5]
                if not refused:  # as if another heal had just moved it
                    refused.append(namespace)
                    return httpx.Response(409)
                moved.append(namespace)
                owner[namespace] = request.url.params["destinationBroker"]
                return httpx.Response(204)
            return httpx.Response(200, json=False) if path.endswith("/deduplication") else httpx.Response(204)

    through: list[str] = []
    monkeypatch.setattr(
        pulsar, "exchange", lambda _system, topic, _deadline: through.append(owner[topic.split("/")[3]])
    )
    admin = Owners("no answer").admin(monkeypatch)
    admin.round_trip(5.0)
    admin.round_trip(5.0)
    assert through == ["a:1", "b:1", "a:1", "b:1"]
    assert refused == ["dedup-probe-1"], "a refusal is no end: it is asked again"
    assert moved == ["dedup-probe-1"], "what is where it should be is not moved"


def test_what_a_subscription_has_acknowledged_is_its_own_cursors_position() -> None:
    stats = {"cursors": {"mine": {"markDeletePosition": "17:99"}, "other": {"markDeletePosition": "17:-1"}}}
    assert mark_deleted(stats, "mine") == (17, 99)
    assert mark_deleted(stats, "other") == (17, -1)


class Answering(Brokers):
    """Brokers that answer these, in turns, and then what is well."""

    def __init__(self, *answers: httpx.Response) -> None:
        super().__init__("no answer")
        self.answers = list(answers)

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/partitions"):
            return super().answer(request)
        if self.answers:
            return self.answers.pop(0)
        return httpx.Response(200, json={"state": "Ready", "maxReadPosition": "5:8"}, headers={"X-Pulsar-name": "p"})


def test_a_read_position_is_asked_for_until_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two brokers that have no answer, an owner that is gone, and a buffer that has not recovered."""
    recovering = httpx.Response(200, json={"state": "Initializing", "maxReadPosition": "5:0"})
    found = Answering(httpx.Response(503), httpx.Response(503), httpx.Response(307), recovering)
    assert found.admin(monkeypatch).read_positions(TOPIC) == {0: (5, 8)} and not found.answers


@pytest.mark.parametrize("status", [404, 412, 500])
def test_an_entry_that_brokers_cannot_read_has_no_metadata(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Answering(httpx.Response(status)).admin(monkeypatch)
    assert admin.metadata(TOPIC, (0, 5, 1)) is None
    found = admin.metadata(TOPIC, (0, 5, 1))
    assert found is not None and found["X-Pulsar-name"] == "p"


def test_how_many_partitions_a_topic_has_is_asked_once_for_all_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []

    class Counting(Answering):
        def answer(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/partitions"):
                counted.append(request.url.path)
                if len(counted) == 1:
                    return httpx.Response(404)
            return super().answer(request)

    admin = Counting().admin(monkeypatch)
    assert all(admin.metadata(TOPIC, (0, 5, entry)) for entry in range(3))
    assert len(counted) == 2, "again if it was not told, and then no more"
