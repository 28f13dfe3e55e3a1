"""What a cut shows when those who are asked cannot answer: that is neither an effect nor its end.

The cluster is that of words (test_chaos_cluster_faults.py).
"""

from pathlib import Path

import pytest
from tests.runners.test_chaos_cluster_faults import FakeCluster, endpoints, seen

from dedup_runners.chaos import cuts
from dedup_runners.chaos.cuts import NetFilterCut


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
