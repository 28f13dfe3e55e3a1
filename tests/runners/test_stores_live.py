"""Claims and couriers against a real S3 (MinIO as a process): one wins, and a store that is away costs the manifest."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runners import assigned, minio, mock_brokers
from tests.runners.local_pods import LocalPod
from tests.runners.minio import ObjectStore

from dedup.errors import DedupError, EnvironmentError_
from dedup.history import stores
from dedup.history.histories import MANIFEST, damages, read_manifest
from dedup_runners import claims, lifelines
from dedup_runners.claims import AlreadyClaimed
from dedup_runners.courier import Courier

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

ROOT = f"s3://{minio.BUCKET}/experiments/small"
PLACE = f"{ROOT}/runs/kafka-dedup-001/attempt-1"
PODS = 8
BOUND_S = 60.0


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with minio.served(tmp_path_factory.mktemp("minio") / "data") as running:
        yield running


def test_of_many_pods_one_wins(store: ObjectStore, tmp_path: Path) -> None:
    contenders = [assigned.assignment(tmp_path / str(number), f"{ROOT}/many") for number in range(PODS)]
    refused: list[AlreadyClaimed] = []

    def contend(number: int) -> None:
        try:
            claims.claim(contenders[number])
        except AlreadyClaimed as error:
            refused.append(error)

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(PODS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == PODS - 1
    assert sum(claims.won(each.shared).exists() for each in contenders) == 1


def test_a_claim_whose_answer_was_lost_is_ones_own(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_again = claims._created

    def lost(place: stores.Place, content: bytes) -> bool:
        asked_again(place, content)
        return asked_again(place, content)

    monkeypatch.setattr(claims, "_created", lost)
    pod = assigned.assignment(tmp_path, f"{ROOT}/lost")
    claims.claim(pod)
    assert claims.won(pod.shared).exists()


def test_a_history_arrives_as_it_was(store: ObjectStore, tmp_path: Path) -> None:
    folder = assigned.assignment(tmp_path, ROOT).folder
    for name in ("sent/00000.parquet", "faults.jsonl", "chaos/cut/journal.json", MANIFEST):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    courier = Courier(folder, stores.place(PLACE))
    courier.carry_segments()
    assert stores.below(stores.place(PLACE)) == ["sent/00000.parquet"]
    courier.carry_rest()
    for name in stores.below(stores.place(PLACE)):
        assert (stores.place(PLACE) / name).read_text() == name
    assert len(stores.below(stores.place(PLACE))) == 4


@pytest.mark.parametrize(
    ("variable", "value"), [("AWS_SECRET_ACCESS_KEY", "another"), ("AWS_ENDPOINT_URL", "http://127.0.0.1:9")]
)
def test_a_store_that_does_not_let_us_in_is_said_in_one_line(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    minio.forget()
    pod = assigned.assignment(tmp_path, f"{ROOT}/other")
    try:
        with pytest.raises(EnvironmentError_, match="the store must answer"):
            claims.claim(pod)
    finally:
        minio.forget()
    assert not claims.won(pod.shared).exists()


def test_a_bucket_that_is_not_there_is_said_too(store: ObjectStore, tmp_path: Path) -> None:
    pod = assigned.assignment(tmp_path, "s3://nowhere/at/all")
    with pytest.raises((DedupError, OSError)):
        claims.claim(pod)
    assert not claims.won(pod.shared).exists()


def test_a_whole_run_is_carried_while_it_goes_on(store: ObjectStore, tmp_path: Path) -> None:
    with mock_brokers.mock_cluster() as endpoints:
        told = assigned.assignment(
            tmp_path / "pod", f"{ROOT}/whole", endpoints=endpoints, workload=mock_brokers.workload(50_000)
        )
        with LocalPod(told, lifelines.CONDUCTOR) as pod:
            mock_brokers.conduct(told)
            assert set(pod.ended(BOUND_S).values()) == {0}, pod.everything_said()
    place = stores.place(str(told.place()))
    manifest = read_manifest(place)
    assert manifest == read_manifest(told.folder)
    assert not damages(place, manifest)
    assert (place / claims.CLAIM).exists()
