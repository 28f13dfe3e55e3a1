"""A release: all files say one version, a package names its own images, a bill names every pinned package.

The workflow that publishes is not run here. What can be seen of it is: that it asks for what is there, and trusts
nothing that somebody else can change.
"""

import importlib.util
import json
import re
import shutil
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from testbed.cluster import images
from testbed.cluster.images import Image
from testbed.release import __main__ as release
from testbed.release import charts, sboms, versions

from dedup.errors import SpecificationError

ROOT: Final = Path(__file__).parents[1]
WORKFLOW: Final = ROOT / ".github" / "workflows" / "release.yaml"
REGISTRY: Final = "registry.example/dedup"
DIGEST: Final = f"sha256:{'0' * 64}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of all that says the version."""
    for file in {versions.CHANGELOG, versions.FIRST.file, *(place.file for place in versions.DERIVED)}:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def test_every_file_says_the_same_version() -> None:
    assert list(versions.disagreements(ROOT)) == []


def test_no_chart_and_no_project_is_forgotten() -> None:
    files = {place.file for place in (versions.FIRST, *versions.DERIVED)}
    assert {f"charts/{name}/Chart.yaml" for name in charts.CHARTS} <= files
    assert {each.name for each in (ROOT / "charts").iterdir()} == set(charts.CHARTS)
    tracked = subprocess.run(
        ["git", "ls-files", "*pyproject.toml"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(tracked.stdout.split()) <= files


def test_a_new_version_is_written_everywhere_and_nothing_else_changes(checkout: Path) -> None:
    old = versions.current(checkout)
    versions.set_to(checkout, "9.8.7-rc.1")
    assert versions.current(checkout) == "9.8.7-rc.1" and list(versions.disagreements(checkout)) == []
    assert "appVersion: 4.3.1\n" in (checkout / "charts/kafka/Chart.yaml").read_text()
    versions.set_to(checkout, old)
    for place in versions.DERIVED:
        assert (checkout / place.file).read_text() == (ROOT / place.file).read_text()


@pytest.mark.parametrize("place", versions.DERIVED, ids=lambda place: f"{place.file}-{place.before.split(' ')[0]}")
def test_one_file_that_says_another_version_is_named(checkout: Path, place: versions.Place) -> None:
    place.write(checkout, "9.8.7")
    (said,) = versions.disagreements(checkout)
    assert said.startswith(f"{place.file}: got {place.before}9.8.7")


@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "01.0.0", "1.0.0+local", "1.0.0 ", ""])
def test_what_is_no_version_is_refused_and_nothing_written(checkout: Path, version: str) -> None:
    with pytest.raises(SpecificationError, match=r"MAJOR\.MINOR\.PATCH"):
        versions.set_to(checkout, version)
    assert versions.current(checkout) == versions.current(ROOT)


def test_a_place_without_its_line_is_an_error_in_words(checkout: Path) -> None:
    (checkout / "core/dedup/__init__.py").write_text('"""Nothing."""\n')
    with pytest.raises(SpecificationError, match="got 0 lines __version__"):
        list(versions.disagreements(checkout))


def test_a_tag_is_released_only_when_the_files_and_the_changelog_say_so(checkout: Path) -> None:
    versions.set_to(checkout, "9.8.7")
    changelog = checkout / versions.CHANGELOG
    changelog.write_text("# Changelog\n\n## 9.8.7\n\n## 0.1.0\n")
    assert list(versions.obstacles(checkout, "v9.8.7")) == []
    (said,) = versions.obstacles(checkout, "v9.8.8")
    assert said.startswith("the tag: got v9.8.8;")
    changelog.write_text("# Changelog\n\n## 9.8.7 (unreleased)\n\n## 0.1.0\n")
    (said,) = versions.obstacles(checkout, "v9.8.7")
    assert said.startswith("CHANGELOG.md: got 9.8.7 (unreleased) at the top;")


@pytest.mark.parametrize("name", charts.CHARTS)
def test_a_package_names_the_images_of_its_release_and_is_the_same_to_the_byte(name: str, tmp_path: Path) -> None:
    first, second = (packaged(name, tmp_path / folder) for folder in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_mtime == 1_000_000
    with tarfile.open(first) as opened:
        files = {member.name: opened.extractfile(member) for member in opened}
        values = files[f"{name}/values.yaml"].read().decode()  # type: ignore[union-attr]
    assert f"{name}/Chart.yaml" in files
    assert not [file for file in files if Path(file).name.startswith(".")]
    assert REGISTRY in values and not re.search(r"localhost/|: localhost$|\bdev\b(?!/)", values, re.MULTILINE)
    assert f"1.2.3@{DIGEST}" in values, "the runner's, which every chart has"
    before = yaml.safe_load((ROOT / "charts" / name / "values.yaml").read_text())
    assert shape(yaml.safe_load(values)) == shape(before)


def packaged(name: str, folder: Path) -> Path:
    digests = {"dedup-runner": DIGEST}
    return charts.package(
        ROOT / "charts" / name, folder, registry=REGISTRY, version="1.2.3", digests=digests, time=1_000_000
    )


def shape(value: Any) -> Any:
    """A document without what it says."""
    return {name: shape(each) for name, each in value.items()} if isinstance(value, dict) else None


def test_an_image_named_in_another_way_stops_the_package() -> None:
    with pytest.raises(SpecificationError, match="got image: localhost/dedup-runner:dev;"):
        charts.released(
            "registry: localhost\nimage: localhost/dedup-runner:dev\n", REGISTRY, "1.2.3", {"dedup-runner": DIGEST}
        )
    with pytest.raises(SpecificationError, match="got no image of ours;"):
        charts.released("brokers: 3\n", REGISTRY, "1.2.3", {})


@pytest.mark.parametrize("image", images.PUBLISHED, ids=lambda image: image.name)
def test_a_bill_names_every_pinned_package_with_its_hashes(image: Image) -> None:
    bill = json.loads(bill_of(image))
    assert bill["metadata"]["component"]["name"] == image.name
    listed = {component["purl"]: component for component in bill["components"]}
    locks = list(sboms.locks(image, ROOT))
    assert locks
    for lock in locks:
        text = lock.read_text()
        wanted = re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)
        assert wanted and {f"pkg:pypi/{name}@{version}" for name, version in wanted} <= listed.keys()
        known = {each["content"] for one in listed.values() for each in hashes(one)}
        assert set(re.findall(r"sha256:([0-9a-f]{64})", text)) <= known


@cache
def bill_of(image: Image) -> str:
    return sboms.bill(image, ROOT, "1.2.3", 1_000_000)


def test_a_bill_is_the_same_to_the_byte() -> None:
    assert sboms.bill(images.OPERATOR, ROOT, "1.2.3", 1_000_000) == bill_of(images.OPERATOR)
    assert sboms.bill(images.OPERATOR, ROOT, "1.2.4", 1_000_000) != bill_of(images.OPERATOR)


def hashes(component: dict[str, Any]) -> list[dict[str, str]]:
    return [each for reference in component.get("externalReferences", []) for each in reference["hashes"]]


def test_a_bill_names_programs_and_jars_too() -> None:
    def named(image: Image) -> set[str]:
        return {component["purl"].partition("@")[0] for component in json.loads(bill_of(image))["components"]}

    assert "pkg:golang/helm.sh/helm/v3" in named(images.OPERATOR)
    assert "pkg:golang/github.com/Shopify/toxiproxy/v2" in named(images.RUNNER)
    clients = named(images.CLIENTS)
    assert {"pkg:maven/org.apache.kafka/kafka-clients", f"pkg:golang/{sboms.FRANZ_GO}"} <= clients
    assert sboms.FRANZ_GO in (ROOT / "lab/dedup_lab/clients/franz_go/go.mod").read_text()


@pytest.mark.parametrize("line", ["kopf>=1.45\n", "kopf==1.45.0\n", "kopf\n"])
def test_a_lock_that_pins_too_little_is_refused(line: str, tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text(f"aiohttp==3.14.5 ; python_version < '4' \\\n    --hash=sha256:{'0' * 64}\n")
    assert [(pin.name, pin.version, pin.marker) for pin in sboms.pins(lock)] == [
        ("aiohttp", "3.14.5", "python_version < '4'")
    ]
    lock.write_text(f"{lock.read_text()}{line}")
    with pytest.raises(SpecificationError, match=r"^some\.lock: got kopf"):
        list(sboms.pins(lock))


def test_a_release_s_files_have_their_checksums(tmp_path: Path) -> None:
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "left-over").touch()
    written = release.write(ROOT, folder, registry=REGISTRY, digests={}, time=0)
    assert len(written) == len(charts.CHARTS) + len(images.PUBLISHED) + 1
    assert {path.name for path in folder.iterdir()} == {path.name for path in written}, "what was left over is gone"
    check = ["sha256sum", "--check", "--quiet", release.SUMS]
    assert subprocess.run(check, cwd=folder, check=False).returncode == 0


def test_the_command_says_in_words_what_is_in_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main(["check"]) == 0
    assert release.main(["check", "--tag", "v9.8.7"]) == 1
    assert "the tag: got v9.8.7;" in capsys.readouterr().err
    assert release.main(["set", "one"]) == 4
    assert "the version: got one;" in capsys.readouterr().err


def jobs() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    return found


def steps() -> list[dict[str, Any]]:
    return [step for job in jobs().values() for step in job["steps"]]


def test_the_workflow_uses_actions_by_commit_and_gives_no_job_more_than_it_says() -> None:
    used = re.findall(r"uses: (\S+)( # v[\d.]+)?$", WORKFLOW.read_text(), re.MULTILINE)
    assert len(used) == len([step for step in steps() if "uses" in step]) >= 4
    assert [action for action, said in used if not re.search(r"@[0-9a-f]{40}$", action) or not said] == []
    assert yaml.safe_load(WORKFLOW.read_text())["permissions"] == {}
    assert {name for name, job in jobs().items() if "id-token" in job["permissions"]} == {"sign"}


def test_who_may_sign_installs_nothing_of_ours_and_signs_what_was_built_by_its_digest() -> None:
    own = jobs()["sign"]["steps"]
    used = {step["uses"].partition("@")[0] for step in own if "uses" in step}
    assert used == {"actions/download-artifact", "sigstore/cosign-installer"}
    script = "\n".join(step["run"] for step in own if "run" in step)
    assert not re.search(r"\b(make|pip|python)\b", script)
    named = re.findall(r'"\$\{REGISTRY,,\}/([^"]+)"', script)
    assert len(named) == 3 and all(each.endswith("@$digest") for each in named)
    joined = "\n".join(step["run"] for step in jobs()["publish"]["steps"] if "run" in step)
    assert '"$name@$amd64" "$name@$arm64"' in joined and "-amd64" not in joined


def test_what_the_workflow_runs_is_there() -> None:
    scripts = [step["run"] for step in steps() if "run" in step]
    for script in scripts:
        assert "${{" not in script, "what a tag is called must not become part of a script"
        subprocess.run(["bash", "-n"], input=script, text=True, check=True, timeout=60)
    whole = "\n".join(scripts)
    makefile = (ROOT / "Makefile").read_text()
    assert [each for each in re.findall(r"\bmake (\S+)$", whole, re.MULTILINE) if f"\n{each}: " not in makefile] == []
    modules = set(re.findall(r"python -m (\S+)", whole))
    assert modules == {"testbed.release"} and all(map(importlib.util.find_spec, modules))
    looped = re.findall(r"for image in (.+); do", whole)
    assert len(looped) == 2 and {tuple(each.split()) for each in looped} == {
        tuple(image.name.removeprefix("dedup-") for image in images.PUBLISHED)
    }
