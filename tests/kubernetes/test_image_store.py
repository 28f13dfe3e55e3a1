"""The store of built images keeps the latest of each name, though all images have one time."""

import os
from pathlib import Path

import pytest
from testbed.cluster.buildah import KEPT, Buildah

NAME = "localhost/dedup-runner"


class Store(Buildah):
    """A store whose program is a list of tags, the oldest first; it is listed in an order that says nothing."""

    def __init__(self, folder: Path) -> None:
        self._store, self.tags = folder, list[str]()

    def _run(self, *arguments: str) -> str:
        if arguments[0] == "bud":
            self.tags.append(arguments[arguments.index("--tag") + 1].rpartition(":")[2])
        elif arguments[0] == "images":
            return "\n".join(sorted(self.tags))
        elif arguments[0] == "rmi" and arguments[1] != "--prune":
            self.tags.remove(arguments[1].removeprefix(f"{NAME}:"))
        return ""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def build(store: Store, tag: str) -> None:
    store.build(Path("Dockerfile"), Path(), f"{NAME}:{tag}", base=None, target=None)
    for number, file in enumerate(sorted((store._store / "built" / "dedup-runner").iterdir(), key=os.path.getmtime)):
        os.utime(file, (number, number))  # a clock that is too coarse to tell them apart decides nothing here


def test_what_was_built_last_is_kept_whatever_its_name(store: Store) -> None:
    for tag in ("d", "c", "b", "a", "z", "e"):
        build(store, tag)
        assert tag in store.tags
    assert store.tags == ["a", "z", "e"] and len(store.tags) == KEPT


def test_an_image_of_an_older_version_goes_first(store: Store) -> None:
    store.tags = ["older"]
    build(store, "new")
    assert store.tags == ["new"]
