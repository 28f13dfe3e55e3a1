"""A small S3 of the test's own: MinIO as a process on this machine, and the environment in which it is found."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
from testbed.cluster import binaries
from upath import UPath

from dedup.history import stores
from dedup_lab.systems.ports import free
from dedup_runners.waiting import until

BUCKET: Final = "histories"
START_S: Final = 60.0
END_S: Final = 20.0
NOTHING: Final[Mapping[str, str]] = {}


class ObjectStore:
    """A running MinIO; `environment` is what its clients need. The server itself may be told more."""

    def __init__(self, folder: Path, variables: Mapping[str, str] = NOTHING, options: Sequence[str] = ()) -> None:
        (port,) = free(1)
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "dedup-test",
            "AWS_SECRET_ACCESS_KEY": "dedup-test-password",
        }
        words = ["server", "--quiet", "--address", self.url.removeprefix("http://"), *options, str(folder)]
        keys = {"MINIO_ROOT_USER": "dedup-test", "MINIO_ROOT_PASSWORD": "dedup-test-password"}
        with (folder.parent / "minio.log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(binaries.find(binaries.MINIO)), *words],
                env={**os.environ, **keys, **variables},
                stdout=log,
                stderr=log,
            )

    def ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/minio/health/live", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(END_S)


@contextmanager
def served(folder: Path, variables: Mapping[str, str] = NOTHING, options: Sequence[str] = ()) -> Iterator[ObjectStore]:
    """A MinIO with one empty bucket, until the block ends. This process's environment leads to it meanwhile."""
    folder.mkdir()
    store = ObjectStore(folder, variables, options)
    before = dict(os.environ)
    try:
        until(store.ready, START_S, "MinIO to answer", 0.1)
        os.environ |= store.environment
        forget()
        stores.place(f"s3://{BUCKET}").mkdir()
        yield store
    finally:
        forget()
        os.environ.clear()
        os.environ |= before
        store.close()


def forget() -> None:
    """Have the next client of a store read the environment anew."""
    type(UPath("s3://").fs).clear_instance_cache()
