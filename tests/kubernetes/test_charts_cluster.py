"""charts/kafka and charts/pulsar where pods run: a broker is killed, held down and comes back; an upgrade keeps data.

The tests of a release stand in the order of its life: installed, tested, hurt, upgraded, taken away, and installed
again over the volumes that it left. Each can be run without those before it.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from kubernetes.client import CoreV1Api
from testbed.cluster.clusters import Cluster
from tests.kubernetes import releases
from tests.kubernetes.marks import in_campaigns
from tests.kubernetes.releases import BOUND_S, KAFKA, PULSAR, Release

from dedup_runners.waiting import until

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", params=[KAFKA, PULSAR], ids=lambda system: system.name)
def release(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    with releases.opened(request.param, cluster, tmp_path_factory.mktemp("helm")) as release:
        yield release


def test_a_message_goes_round_through_the_proxies(release: Release) -> None:
    assert release.succeeds()
    name = f"{release.helm.release}-round-trip"
    until(lambda: name not in release.left(), BOUND_S, "the pod of a test that succeeded is gone")


def test_a_killed_broker_stays_down_for_its_hold_and_comes_back_whole(release: Release) -> None:
    pod = release.victim()
    killed = release.kill(pod, release.system.hold_s)
    assert not release.broker(pod).ready
    release.write()  # two of three are enough
    if release.system.moves:
        assert release.victim() != pod, "another broker serves the topic meanwhile"
    release.wait_ready(pod)
    assert release.broker(pod).last_state.terminated.exit_code == 137
    assert release.broker(pod).restart_count == 1, "no probe killed what was held"
    assert release.ready_since(pod) - killed >= timedelta(seconds=release.system.hold_s)
    assert release.is_whole()
    assert release.succeeds(), "all brokers see each other again"


def test_a_kill_without_a_hold_needs_nobody_to_end_it(release: Release) -> None:
    pod = release.victim()
    release.kill(pod, 0)
    release.wait_ready(pod)
    assert release.is_whole()


def test_an_upgrade_replaces_pods_and_keeps_data(release: Release) -> None:
    """Every pod, ZooKeeper's and the bookies' too: the metadata are initialised a second time."""
    before = release.pod_uids()
    release.install({**release.system.values, **release.system.change})
    assert not release.pod_uids() & before
    assert release.is_whole()


def test_nothing_but_volume_claims_is_left_behind(release: Release) -> None:
    release.uninstall()
    assert release.claims() == release.system.claims


@in_campaigns
def test_a_release_of_the_same_name_finds_its_data_there(release: Release) -> None:
    release.install(release.system.values)
    assert release.is_whole()
    release.uninstall()
    CoreV1Api(release.client).delete_collection_namespaced_persistent_volume_claim(release.namespace)


def test_with_tls_and_no_volumes_nothing_at_all_is_left(release: Release) -> None:
    """A message goes round by TLS; the certificate is one that Helm made."""
    secure = release.of("s")
    secure.install({**release.system.with_image, **release.system.smallest, "tls": {"enabled": True}})
    assert secure.succeeds()
    secure.uninstall()
    assert secure.claims() == set()
