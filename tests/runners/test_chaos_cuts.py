"""What a cut shows when those who are asked cannot answer: that is neither an effect nor its end.

The cluster is that of words (test_chaos_cluster_faults.py).
"""

from pathlib import Path
from typing import Any

import pytest
from tests.runners.test_chaos_cluster_faults import FakeCluster, Stage, endpoints, seen

from dedup.errors import PlatformError
from dedup_runners.chaos import cuts
from dedup_runners.chaos.cuts import NetFilterCut, PolicyCut
from dedup_runners.chaos.faults import partition as partitions


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({f"kafka-{n}": seen(f"kafka-{n}") for n in (0, 1, 2)})


def test_a_table_is_gone_when_nft_lists_the_others_and_not_when_it_lists_nothing(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cuts.IMAGE, "runner:1")
    cluster.words = {"nft list": "able\n", "nft 'add": "done\n", "nft delete": "Error: Could not process rule\n"}
    cut = NetFilterCut(cluster, endpoints(tmp_path), "cut", 60.0)
    cut.prepare()
    table = cut.begin("1", 1.0)["table"]
    for listed, gone in (("", False), (f"table inet {table}\nable\n", False), ("table ip nat\nable\n", True)):
        cluster.words["nft list"] = listed
        assert cut.end("1") is gone


def test_a_shell_that_does_not_reach_its_own_broker_shows_no_partition(cluster: FakeCluster, tmp_path: Path) -> None:
    """Nothing of the network keeps a broker from itself; a container that is short of time or processes does."""
    cluster.words = {"(timeout": ""}
    cut = PolicyCut(cluster, endpoints(tmp_path), "cut", None)
    cut.prepare()
    cut.begin("1", 1.0)
    for said, shown in (("shut 0\nshut 2\nshut 1\n", {}), ("shut 2\nshut 0\n", {"unreachable": ["0", "2"]})):
        cluster.words["(timeout"] = said
        assert cut.effect("1") == shown
    assert "/dev/tcp/10.0.0.1/9094" in cluster.shells["kafka-1"].told[-1]


def test_a_policy_is_asked_to_go_again_when_the_api_server_does_not_answer(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.words = {"(timeout": ""}
    stage = Stage(tmp_path, {"partition": {"by": "NetworkPolicy", "duration": "1s"}}).open(cluster)
    stage.deed.cut = cut = PolicyCut(cluster, endpoints(tmp_path), "cut", None)
    cut.prepare()
    stage.deed.broker = "1"
    cut.begin("1", 1.0)
    busy, remove = iter([True, True]), cluster.remove_policy

    def removed(namespace: str, name: str) -> bool:
        if next(busy, False):
            raise PlatformError(where="here/cut", got="429 Too Many Requests", rule="leave", todo="ask again")
        return remove(namespace, name)

    monkeypatch.setattr(cluster, "remove_policy", removed)
    partitions.join_again(stage.configuration)
    assert cluster.policies == {}
    assert '"cleared"' in (tmp_path / "faults.jsonl").read_text()


class Quiet:
    """A cut of a broker that nobody sends packets to at first: from the n-th look on, some were dropped."""

    def __init__(self, look: int) -> None:
        self._looks, self._look = 0, look

    def prepare(self) -> None:
        return

    def begin(self, broker: str, duration_s: float) -> dict[str, str]:
        return {"table": "t"}

    def effect(self, broker: str) -> dict[str, Any]:
        self._looks += 1
        return {"packets_dropped": 1} if self._looks >= self._look else {}

    def end(self, broker: str) -> bool:
        return True


@pytest.mark.parametrize(("look", "words"), [(3, None), (100, "reaches the others as before")], ids=["late", "never"])
def test_a_short_cut_is_looked_at_until_it_shows(
    look: int, words: str | None, cluster: FakeCluster, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, {"partition": {"by": "NetFilter", "duration": "1s"}}).open(cluster)
    stage.deed.cut = Quiet(look)
    partitions.cut_off(1.0, stage.configuration)
    partitions.join_again(stage.configuration)
    assert (words or "") in (why := stage.reason() or "") and bool(why) == bool(words)
