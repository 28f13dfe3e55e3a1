"""Images are known by what goes into them, and built when that is new. Here the builder only pretends."""

import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from testbed.cluster import images
from testbed.cluster.binaries import TOXIPROXY
from testbed.cluster.buildah import pip_settings
from testbed.cluster.images import Image
from testbed.cluster.oci_archives import KEPT_ARCHIVES
from testbed.cluster.parts import Tree
from testbed.cluster.processes import CHECKOUT

from dedup.errors import EnvironmentError_
from dedup_lab.systems import toxiproxy

EXTRAS = ("operator", "runner", "spark")


class FakeBuilder:
    """Keeps what it is asked to build, and remembers what it was given."""

    def __init__(self, *, exports: bool = True) -> None:
        self.built: list[str] = []
        self.bases: list[str | None] = []
        self.contexts: list[list[str]] = []
        self.exports = exports

    def has(self, stored: str) -> bool:
        return stored in self.built

    def build(self, dockerfile: Path, context: Path, stored: str, *, base: str | None, target: str | None) -> None:
        assert dockerfile.exists()
        self.built.append(stored)
        self.bases.append(base)
        self.contexts.append(sorted(str(path.relative_to(context)) for path in context.rglob("*") if path.is_file()))

    def export(self, stored: str, reference: str, archive: Path) -> None:
        archive.write_text(f"half of {reference}")
        if not self.exports:
            raise EnvironmentError_(where="buildah push", got="no space", rule="it fits", todo="make space")
        archive.write_text(f"{reference} {stored}")


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The code that goes into the test's image, and a cache of the test's own."""
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "main.py").write_text("print('one')\n")
    return folder


@pytest.fixture
def image(code: Path) -> Image:
    base = Image("base", "1", "Dockerfile", ())
    return Image("ours", "dev", "Dockerfile", (Tree(str(code), "code"),), base, target="runner")


def test_an_image_is_built_once_on_top_of_its_base(image: Image) -> None:
    builder = FakeBuilder()
    first = images.archive(image, builder=builder)
    assert first == images.archive(image, builder=builder)
    assert [stored.rpartition(":")[0] for stored in builder.built] == ["localhost/base", "localhost/ours"]
    assert builder.bases == [None, builder.built[0]]
    assert first.read_text() == f"localhost/ours:dev {builder.built[1]}"


def test_a_change_of_the_code_makes_another_archive_and_leaves_the_base_alone(image: Image, code: Path) -> None:
    builder = FakeBuilder()
    first = images.archive(image, builder=builder)
    (code / "main.py").write_text("print('two')\n")
    second = images.archive(image, builder=builder)
    assert second != first
    assert len(builder.built) == 3, "the base once, ours twice"


def test_a_new_base_makes_another_archive(image: Image) -> None:
    assert image.base is not None
    other = replace(image, base=replace(image.base, tag="2"))
    assert other.digest() != image.digest()
    assert replace(image).digest() == image.digest()


def test_the_time_of_a_file_and_what_python_left_beside_it_change_nothing(image: Image, code: Path) -> None:
    before = image.digest()
    os.utime(code / "main.py", (1, 1))
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "main.pyc").write_bytes(b"\0")
    assert image.digest() == before
    (code / "main.py").chmod(0o755)
    assert image.digest() != before, "whether a file can be run is part of what it is"


def test_a_build_sees_the_parts_and_nothing_else(image: Image, code: Path) -> None:
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "main.pyc").write_bytes(b"\0")
    builder = FakeBuilder()
    images.archive(image, builder=builder)
    assert builder.contexts == [[], ["code/main.py"]]


def test_what_else_lies_where_parts_are_put_keeps_its_time(code: Path, tmp_path: Path) -> None:
    """`make image-parts` puts them into the checkout."""
    before = code.stat().st_mtime
    images.put((Tree(str(code), "build/parts/code"),), tmp_path)
    assert (tmp_path / "build" / "parts").stat().st_mtime == 0
    assert code.stat().st_mtime == before
    assert tmp_path.stat().st_mtime != 0


def test_an_archive_appears_whole_or_not_at_all(image: Image) -> None:
    with pytest.raises(EnvironmentError_, match="no space"):
        images.archive(image, builder=FakeBuilder(exports=False))
    folder = images.archive(image, builder=FakeBuilder()).parent
    assert len(list(folder.glob("*.tar"))) == 1
    assert not list(folder.glob(".new-*"))


def test_old_archives_make_room_and_the_latest_used_stay(image: Image, code: Path) -> None:
    builder = FakeBuilder()
    made = []
    for number in range(KEPT_ARCHIVES + 2):
        (code / "main.py").write_text(f"print({number})\n")
        made.append(images.archive(image, builder=builder))
        os.utime(made[-1], (number, number))
    images.archive(image, builder=builder)
    assert [path.exists() for path in made] == [False] * 2 + [True] * KEPT_ARCHIVES


def test_pip_in_a_build_gets_this_machines_settings_and_the_environments_win() -> None:
    settings = pip_settings(
        ":env:.timeout='180'\nglobal.timeout='15'\nglobal.index-url='https://mirror.example/simple'\n"
        "install.no-binary='x'\n:env:.find-links='wheels'\n"
    )
    said = {section: dict(settings[section]) for section in settings.sections()}
    assert said == {
        "global": {"timeout": "180", "index-url": "https://mirror.example/simple"},
        "install": {"no-binary": "x"},
    }
    assert dict(pip_settings("")["global"]) == {}


@pytest.mark.parametrize("image", images.PUBLISHED, ids=lambda image: image.target)
def test_whatever_an_image_copies_is_one_of_its_parts_and_docker_sees_it(image: Image) -> None:
    stages = re.split(r"^FROM .* AS ", (CHECKOUT / "Dockerfile").read_text(), flags=re.MULTILINE)
    (stage,) = (each for each in stages if each.startswith(f"{image.target}\n"))
    copied = re.findall(r"^COPY (\S+) ", stage, re.MULTILINE)
    assert len(copied) >= 4
    parts = [part.place for part in image.parts]
    assert [each for each in copied if not any(f"{part}/".startswith(f"{each}/") for part in parts)] == []
    ignored = (CHECKOUT / ".dockerignore").read_text()
    seen = [line.partition("*")[0] for line in re.findall(r"^!(.+)$", ignored, re.MULTILINE)]
    assert [each for each in copied if not any(each.startswith(line) for line in seen)] == []


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_image_installs_what_its_extra_asks_for_at_the_locked_versions(extra: str) -> None:
    everything, ours = locked("requirements.lock"), locked(f"requirements-{extra}.lock")
    assert ours.items() <= everything.items()
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"][extra]]
    assert {name for each in wanted if (name := re.split(r"[~=<>\[]", each)[0]) != "dedup"} <= ours.keys()


def test_toxiproxy_is_the_same_in_the_lab_and_in_pods() -> None:
    assert TOXIPROXY.version == toxiproxy.VERSION


def locked(name: str) -> dict[str, str]:
    """Versions by package, as a lock file pins them."""
    return dict(re.findall(r"^([a-z0-9._-]+)==([^ ;]+)", (CHECKOUT / name).read_text(), re.MULTILINE))
