"""An extension that somebody else publishes, as it is: its toxics in a real Toxiproxy, before a broker that answers.

The broker is librdkafka's mock: it answers pings. Whole runs on real brokers: tests/lab/test_own_experiments_live.py.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from testbed import extensions
from tests.runners import proxies
from tests.runners.mock_brokers import mock_cluster
from tests.runners.test_chaos_own_experiments import played

from dedup.experiment.endpoints import Broker, Endpoints
from dedup.faults.records import vacuous
from dedup_lab.systems import labs, toxiproxy
from dedup_lab.systems.ports import free

pytestmark = [pytest.mark.long, pytest.mark.go]

FOLDER: Final = Path(__file__).parents[2] / "examples" / "chaos"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Endpoints]:
    """One broker behind one proxy."""
    (listen,) = free(1)
    (logs := tmp_path / "logs").mkdir()
    with mock_cluster() as found, closing(labs.create(logs)) as lab:
        upstream = int(found.client_bootstrap.split(",")[0].rpartition(":")[2])
        url = toxiproxy.start(lab, {"kafka-1": (listen, f"127.0.0.1:{upstream}")})
        broker = Broker(id="1", client_port=upstream, proxy="kafka-1", proxy_port=listen)
        yield found.model_copy(update={"brokers": [broker], "toxiproxy_url": url})


@pytest.mark.parametrize("name", ["toxiproxy.json", "proxy-down.json"])
def test_an_experiment_runs_unchanged_and_its_hypothesis_tells(name: str, system: Endpoints, tmp_path: Path) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    with extensions.at_hand(extensions.TOXIPROXY):
        record, lines = played(tmp_path, json.loads(text), "60s", system)
    assert [line["event"] for line in lines] == ["injecting", "injected", "effect", "cleared"]
    assert record.target_witness["probe"] == "the-leader-answers-within-half-a-second"
    assert not record.target_witness["refused"]
    assert "no client noticed" in (vacuous(record) or ""), "all that is missing is the client"
    journal = json.loads((tmp_path / "chaos" / "own" / "own-journal.json").read_bytes())
    assert journal["deviated"] is True
    assert {each["status"] for each in (*journal["run"], *journal["rollbacks"])} == {"succeeded"}
    assert proxies.toxics(system.toxiproxy_url) == []
    assert all(each["enabled"] for each in proxies.proxies(system.toxiproxy_url).values())
