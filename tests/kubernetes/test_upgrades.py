"""Two versions of the operator and of the definition before a real API server, which prunes what a definition lacks.

What is shown by the dozen on a fake cluster (tests/operator/test_upgrades.py) is tried once here, with definitions.
"""

import json
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from testbed.cluster.api_servers import ApiServer
from testbed.played import OURS, namespace_on, playing
from testbed.requests import apply, try_to_apply
from testbed.specs import changed
from testbed.worlds import World
from tests.operator.test_reconciliations import SMALL
from tests.operator.test_upgrades import ENDED, ROOT, run_as, unpacked

from dedup_operator.clusters import path_of
from dedup_operator.schema import crd

pytestmark = pytest.mark.kubernetes

PROGRAM: Final = """
import sys
from itertools import count
from pathlib import Path
from testbed.cluster.api_servers import ApiServer
from testbed.played import PlayedCluster
from testbed.worlds import World
_, kubeconfig, namespace, looks = sys.argv
with ApiServer(Path(kubeconfig)).client() as client:
    number = count(1)
    World(PlayedCluster(client), namespace).run(until=lambda _: next(number) == int(looks))
"""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("before"))


def old_operator(version: Path, api_server: ApiServer, namespace: str, looks: int) -> None:
    """So many looks of that version's operator, or all that there are."""
    run_as(version, PROGRAM, str(api_server.kubeconfig), namespace, str(looks))


def definition(version: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((version / "charts/dedup-operator/crds/dedupexperiment.yaml").read_text())
    return found


def looks(world: World, most: int) -> None:
    number = count(1)
    world.run(until=lambda _: next(number) == most)


@pytest.mark.parametrize("back", [False, True], ids=["upgrade", "and a rollback of both"])
def test_a_definition_and_an_operator_are_replaced_in_mid_experiment(
    before: Path, api_server: ApiServer, back: bool
) -> None:
    with playing(api_server) as cluster, namespace_on(cluster) as namespace:
        document, path = changed(*SMALL), path_of(crd.KIND, namespace, "e")
        apply(cluster.client, OURS, definition(before))
        try:
            assert try_to_apply(cluster.client, path, document)[0] == 201
            old_operator(before, api_server, namespace, 9)
            apply(cluster.client, OURS, definition(ROOT))
            world = World(cluster, namespace)
            looks(world, 4)
            assert world.status()["progress"] != "2/2 runs"
            if back:
                apply(cluster.client, OURS, definition(before))
                old_operator(before, api_server, namespace, -1)
            else:
                world.run()
        finally:
            apply(cluster.client, OURS, definition(ROOT))
        status = world.status()
        assert (status["phase"], status["verdict"], status["progress"]) == ENDED, json.dumps(status)
        assert world.orphans() == [] == world.player.overlaps
