"""A lock names every jar and its checksum; a jar that is not what the lock says never reaches a broker."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dedup.errors import EnvironmentError_, SpecificationError
from dedup_lab import java
from dedup_lab.systems import jars, jvms, lock
from dedup_lab.systems.jars import Jar

CONTENT = b"a jar, as far as checksums are concerned"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
JAR = Jar("org.example", "thing", "1.2", "", SHA256)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "jars"


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    folder = tmp_path / "locks"
    folder.mkdir()
    lines = ["# made by hand", f"org.example:thing:1.2 sha256={SHA256}", f"org.example:other:2:linux sha256={SHA256}"]
    (folder / "kafka-9.9.txt").write_text("\n".join(lines) + "\n")
    return folder


def put(store: Path, jar: Jar, content: bytes = CONTENT) -> Path:
    path = store / jar.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def downloads(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[Jar]:
    """Stand in for the network: whatever is fetched has this content. Returns the jars fetched so far."""
    asked: list[Jar] = []

    def download(jar: Jar, folder: Path) -> Path:
        asked.append(jar)
        (folder / "downloaded.jar").write_bytes(content)
        return folder / "downloaded.jar"

    monkeypatch.setattr(jars, "_download", download)
    return asked


def test_a_lock_is_read_in_class_path_order(locks: Path) -> None:
    first, second = jars.read_lock("kafka", "9.9", locks)
    assert first == JAR
    assert second.coordinate == "org.example:other:2:linux"
    assert second.path == Path("org/example/other/2/other-2-linux.jar")


@pytest.mark.parametrize(("system", "version", "least"), [("kafka", "4.3.1", 80), ("pulsar", "4.2.4", 300)])
def test_the_locks_that_we_ship_are_whole(system: str, version: str, least: int) -> None:
    found = jars.read_lock(system, version)
    assert len(found) >= least
    assert len({jar.path for jar in found}) == len(found)
    assert not any("jetcd-core-shaded" in jar.coordinate for jar in found)
    loggers = {jar.version for jar in found if jar.group == "org.apache.logging.log4j"}
    assert len(loggers) == 1, "mixed versions of Log4j log nothing"


def test_a_version_without_a_lock_is_refused_with_those_that_have_one(locks: Path) -> None:
    with pytest.raises(SpecificationError, match=r"kafka.version: got 1\.0; .*kafka 9\.9; .*lock kafka 1\.0"):
        jars.read_lock("kafka", "1.0", locks)


@pytest.mark.parametrize("line", ["org.example:thing sha256=" + SHA256, "org.example:thing:1.2 sha256=12", "../x:y:1"])
def test_a_damaged_lock_is_refused_by_line(locks: Path, line: str) -> None:
    with (locks / "kafka-9.9.txt").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(SpecificationError, match=r"kafka-9\.9\.txt:4"):
        jars.read_lock("kafka", "9.9", locks)


def test_missing_jars_are_fetched_once(store: Path, locks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = downloads(monkeypatch, CONTENT)
    put(store, JAR)
    steps: list[tuple[str, int, int]] = []
    path = jars.classpath("kafka", "9.9", locks=locks, progress=lambda *step: steps.append(step))
    assert [jar.artifact for jar in asked] == ["other"]
    assert [Path(part).read_bytes() for part in path.split(":")] == [CONTENT, CONTENT]
    assert steps == [("fetch kafka 9.9", 1, 1), ("check kafka 9.9", 1, 1)]
    jars.classpath("kafka", "9.9", locks=locks)
    assert len(asked) == 1


def test_a_jar_that_arrives_wrong_is_refused_and_leaves_nothing(
    store: Path, locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads(monkeypatch, CONTENT[:-1])
    with pytest.raises(EnvironmentError_, match=r"org\.example:.*the lock says .*deleted") as caught:
        jars.classpath("kafka", "9.9", locks=locks)
    assert "\n" not in str(caught.value)
    assert not [path for path in store.parent.rglob("*") if path.is_file()]


def test_a_jar_that_rots_in_the_cache_is_refused_deleted_and_then_fetched_again(
    store: Path, locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = downloads(monkeypatch, CONTENT)
    jars.classpath("kafka", "9.9", locks=locks)
    flipped = bytes([CONTENT[0] ^ 1]) + CONTENT[1:]
    broken = put(store, JAR, flipped)
    with pytest.raises(EnvironmentError_, match=r"org\.example:thing:1\.2: got a jar with sha256"):
        jars.classpath("kafka", "9.9", locks=locks)
    assert not broken.exists()
    jars.classpath("kafka", "9.9", locks=locks)
    assert broken.read_bytes() == CONTENT and len(asked) == 3


def test_starts_at_the_same_time_do_not_harm_each_other(
    store: Path, locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads(monkeypatch, CONTENT)
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: jars.classpath("kafka", "9.9", locks=locks), range(16)))
    assert len(paths) == 1
    assert not list((store.parent / "incoming").iterdir())


def test_no_network_is_one_line_about_the_jar(store: Path, locks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreachable:
        def __init__(self, **_: object) -> None:
            raise OSError("no route\nto host")

    monkeypatch.setattr(jars, "MavenContext", Unreachable)
    monkeypatch.setattr(jars, "ATTEMPTS", 1)
    with pytest.raises(EnvironmentError_, match=r"org\.example:.* got no route; .*check the network"):
        jars.classpath("kafka", "9.9", locks=locks)


def test_the_lock_maker_asks_maven_for_the_recipe() -> None:
    text = lock.pom(lock.Recipe(("a:b",), added=("c:d:7",), excluded=("e",), imported=("f:g:8",)), "1.0")
    assert "<groupId>a</groupId><artifactId>b</artifactId><version>1.0</version>" in text
    assert "<groupId>c</groupId><artifactId>d</artifactId><version>7</version>" in text
    assert "<exclusion><groupId>*</groupId><artifactId>e</artifactId></exclusion>" in text
    assert "<artifactId>g</artifactId><version>8</version><type>pom</type><scope>import</scope>" in text


@pytest.mark.parametrize(
    ("said", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_402"', 8), ("no", None), ('version "25"', 25)],
)
def test_javas_version_is_understood(said: str, version: int | None) -> None:
    assert java.major(said) == version


def test_no_java_and_an_old_java_are_said_with_the_command_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(EnvironmentError_, match=r"java: got no such program .*Java 17.*; install it: `apt install"):
        java.find()
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    program.chmod(0o755)
    with pytest.raises(EnvironmentError_, match=r'got openjdk version "11\.0\.2"; brokers and Spark need Java 17'):
        java.find()


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("home", ["gone", "old"])
def test_a_wrong_java_home_is_passed_over_for_the_java_on_the_path_and_that_is_said(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = fake_java(tmp_path / "good", "21.0.1")
    fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / home))
    monkeypatch.setenv("PATH", f"{good.parent}:/usr/bin:/bin")
    assert java.find() == str(good)
    told = java.fallback()
    assert told is not None and told.startswith(f"JAVA_HOME {tmp_path / home}: got ")
    assert told.endswith(f"; using {good}, which is on PATH")
    assert java.environment() == {"JAVA_HOME": ""}


def test_a_right_java_home_is_used_and_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = fake_java(tmp_path / "good", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "good"))
    assert (java.find(), java.fallback(), java.environment()) == (str(good), None, {})
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", f"{good.parent}:/usr/bin:/bin")
    assert (java.find(), java.fallback(), java.environment()) == (str(good), None, {})


def test_a_java_that_does_not_answer_is_passed_over_as_an_old_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mute = fake_java(tmp_path / "mute", "21.0.1")
    mute.write_text("#!/bin/sh\nexec sleep 20\n")
    good = fake_java(tmp_path / "good", "21.0.1")
    monkeypatch.setattr(java, "ANSWER_TIMEOUT_S", 0.5)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "mute"))
    monkeypatch.setenv("PATH", f"{good.parent}:/usr/bin:/bin")
    assert java.find() == str(good)
    assert "got no end within 0.5 s; using" in (java.fallback() or "")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda _, path=None: str(mute) if path else None)
    with pytest.raises(EnvironmentError_, match=r"java: got no end within 0\.5 s; brokers and Spark need Java 17"):
        java.find()


@pytest.mark.usefixtures("without_java")
def test_who_only_wants_to_verify_is_told_that_it_goes_without_java(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentError_, match="`dedup verify --engine local` needs none"):
        java.find()


def test_old_and_new_brokers_are_told_where_to_log() -> None:
    """Kafka before 4.0 logs through Log4j 1 (reload4j), which is silent without settings of its own."""
    newer, older = (option.partition("=") for option in jvms.LOG_CONFIGURATION)
    assert (newer[0], older[0]) == ("-Dlog4j2.configurationFile", "-Dlog4j.configuration")
    assert "rootLogger.level" in Path(newer[2]).read_text()
    assert "log4j.rootLogger=INFO, console" in Path(older[2].removeprefix("file://")).read_text()


def test_the_manifest_names_the_java_that_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"21.0.4\" 2024-07-16' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.version.__wrapped__() == "21.0.4"
