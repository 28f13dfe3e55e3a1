"""Every version of every program can be built, and its library refuses settings in its own words, without a broker."""

import re
from pathlib import Path

import pytest

from dedup.errors import EnvironmentError_, SpecificationError
from dedup.experiment.clients import CLIENTS
from dedup_lab import clients as programs
from dedup_lab.caches import silent
from dedup_lab.clients import builds, franz_go, jvm, wheels
from dedup_lab.systems.jars import locked_versions
from dedup_runners import clients

PROGRAMS = [(each.library, version) for each in CLIENTS.values() for version in each.versions]
TAKEN = {
    "acks": "all", "request.required.acks": "all", "compression.type": "lz4", "client.id": "c", "retries": "9",
    "ProducerLinger": "5ms", "ProduceRequestTimeout": "1s",
    "broker.address.family": "any", "client.rack": "r", "compression.codec": "lz4", "compression.level": "5",
    "enable.gapless.guarantee": "false", "enable.sparse.connections": "true", "max.in.flight": "5",
    "message.send.max.retries": "9", "metadata.recovery.strategy": "none", "partitioner": "random",
    "queue.buffering.backpressure.threshold": "1", "queue.buffering.max.ms": "5", "queuing.strategy": "fifo",
    "receive.message.max.bytes": "100000000",
    "socket.keepalive.enable": "true", "socket.nagle.disable": "true", "topic.metadata.refresh.sparse": "true",
    "topic.metadata.refresh.fast.interval.ms": "250",
    "batchingEnabled": "true", "compressionType": "LZ4", "numIoThreads": "2", "useTcpNoDelay": "false",
    "batching_enabled": "true", "batching_type": "KeyBased", "compression_type": "LZ4",
}  # fmt: skip
"""Values that libraries take; of all other settings they take 100000."""
OF_LIBRDKAFKA = {"linger.ms": "5", "reconnect.backoff.ms": "50"}
SINCE = {
    "kafka-java": {
        "compression.gzip.level": "3.8", "compression.lz4.level": "3.8", "compression.zstd.level": "3.8",
        "retry.backoff.max.ms": "3.7",
    },
    "pulsar-java": {"compressMinMsgBodySize": "4.0"},
    "confluent-kafka": {
        "metadata.recovery.rebootstrap.trigger.ms": "2.16", "metadata.recovery.strategy": "2.16",
        "retry.backoff.max.ms": "2.3",
    },
}  # fmt: skip
LEVEL = {"compression.gzip.level": "5", "compression.lz4.level": "5", "compression.zstd.level": "5",
         "max.in.flight.requests.per.connection": "5"}  # fmt: skip


def test_there_is_a_builder_of_each_program_and_a_lock_of_each_version() -> None:
    assert programs.BUILDERS.keys() == {library for library, _ in PROGRAMS}
    for java in ("kafka-java", "pulsar-java"):
        assert sorted(CLIENTS[java].versions) == locked_versions(java)
    of_python = {
        f"{each.library}-{version}" for each in CLIENTS.values() if each.is_installed for version in each.versions
    }
    assert of_python == {path.stem for path in wheels.LOCKS.iterdir()}
    assert locked_versions("ecj") == [jvm.COMPILER]
    versions = CLIENTS["franz-go"].versions
    for version in versions:
        _, modules, sums = franz_go.sources(version)
        assert re.findall(r"github.com/twmb/franz-go v(\S+)", modules.read_text()) == [version]
        assert f"franz-go v{version} h1:" in sums.read_text()
    assert f'"v{versions[0]}"' in franz_go.PROGRAM.read_text()
    assert len(list(franz_go.FOLDER.glob("*.mod"))) == len(versions)


def test_the_example_of_the_protocol_is_small() -> None:
    assert len(franz_go.PROGRAM.read_text().splitlines()) <= 200


@pytest.mark.parametrize(
    ("command", "bound_s", "words"),
    [
        (["sleep", "20"], 0.5, "got it had not ended after 0.5 s"),
        (["sh", "-c", "echo no such symbol >&2; exit 1"], 20.0, "got no such symbol"),
    ],
)
def test_a_build_that_fails_or_does_not_end_is_an_error_in_words(
    command: list[str], bound_s: float, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "BUILD_TIMEOUT_S", bound_s)
    with pytest.raises(EnvironmentError_, match=f"build of a client: {words}"):
        builds.compiled("a client", command, tmp_path)
    builds.compiled("its twin", ["true"], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("library", "version"), PROGRAMS)
def test_a_library_takes_all_settings_that_may_be_given_together(library: str, version: str) -> None:
    program = programs.BUILDERS[library](version, silent)
    fitting = LEVEL | TAKEN | (OF_LIBRDKAFKA if library == "confluent-kafka" else {})
    given = {name: fitting.get(name, "100000") for name in CLIENTS[library].allowed}
    since = SINCE.get(library, {})
    known = {name: value for name, value in given.items() if _at_least(version, since.get(name, "0"))}
    for deduplication in (True, False):
        clients.check(library, known, deduplication, 100, program)


@pytest.mark.long
@pytest.mark.parametrize(
    ("library", "version", "properties", "words"),
    [
        ("kafka-java", "4.3.1", {"acks": "1"}, "Must set acks to all in order to use the idempotent producer"),
        ("kafka-java", "2.8.2", {"compression.zstd.level": "3"}, "kafka-clients 2.8.2 has no setting compression.zstd"),
        ("confluent-kafka", "2.2.0", {"acks": "1"}, "Failed to create producer: `acks` must be set to `all`"),
        ("confluent-kafka", "2.2.0", {"metadata.recovery.strategy": "none"}, "No such configuration property"),
        ("pulsar-client", "3.4.0", {"batching_type": "x"}, "client.properties.batching_type: got 'x'; it is one of"),
        (
            "pulsar-java",
            "4.2.4",
            {"compressionType": "LZ9"},
            "Cannot deserialize value of type `org.apache.pulsar.client",
        ),
        ("pulsar-java", "2.11.4", {"compressMinMsgBodySize": "9"}, "pulsar-client 2.11.4 has no setting compressMin"),
        ("pulsar-java", "3.0.7", {"batchingMaxMessages": "ten"}, "Cannot deserialize value of type `int` from String"),
        ("franz-go", "1.22.3", {"ProducerLinger": "soon"}, 'ProducerLinger "soon": time: invalid duration'),
        ("franz-go", "1.22.3", {"ProducerBatchMaxBytes": "9"}, "max record batch bytes 9 is less than allowed 512"),
    ],
)
def test_a_library_refuses_settings_in_its_own_words(
    library: str, version: str, properties: dict[str, str], words: str
) -> None:
    with pytest.raises(SpecificationError, match=re.escape(f"a refusal by the client: {words}")):
        clients.check(library, properties, True, 100, programs.BUILDERS[library](version, silent))


def test_a_wheel_that_cannot_be_had_is_refused_in_pips_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here no index is asked, and the lock is of another file."""
    (tmp_path / "confluent-kafka-2.2.0.txt").write_text(f"confluent-kafka==2.2.0 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setattr(wheels, "LOCKS", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("DEDUP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        EnvironmentError_, match=r"client confluent-kafka 2\.2\.0: got ERROR: .*No matching distribution"
    ):
        programs.BUILDERS["confluent-kafka"]("2.2.0", silent)
    assert not any((tmp_path / "cache" / "clients").iterdir()), "nothing half made is left"


def _at_least(version: str, least: str) -> bool:
    return [*map(int, version.split("."))] >= [*map(int, least.split("."))]
