"""Every version of every program can be built, and its library refuses settings in its own words, without a broker."""

import re

import pytest

from dedup.errors import SpecificationError
from dedup.experiment.clients import CLIENTS
from dedup_lab import clients as programs
from dedup_lab.caches import silent
from dedup_lab.clients import franz_go, kafka_java
from dedup_lab.systems.jars import locked_versions
from dedup_runners import clients

PROGRAMS = [(each.library, version) for each in CLIENTS.values() for version in each.versions]
TAKEN = {"acks": "all", "compression.type": "lz4", "client.id": "c", "ProducerLinger": "5ms", "retries": "9"}
"""Values that libraries take; of all other settings they take 100000."""
SINCE = {"compression.gzip.level": "3.8", "compression.lz4.level": "3.8", "compression.zstd.level": "3.8",
         "retry.backoff.max.ms": "3.7"}  # fmt: skip
LEVEL = {"compression.gzip.level": "5", "compression.lz4.level": "5", "compression.zstd.level": "5",
         "max.in.flight.requests.per.connection": "5"}  # fmt: skip


def test_there_is_a_builder_of_each_program_and_a_lock_of_each_version() -> None:
    assert programs.BUILDERS.keys() == {library for library, _ in PROGRAMS}
    assert sorted(CLIENTS["kafka-java"].versions) == locked_versions(kafka_java.NAME)
    assert locked_versions("ecj") == [kafka_java.COMPILER]
    *_, modules, _ = franz_go.SOURCES
    pinned = re.findall(r"github.com/twmb/franz-go v(\S+)", modules.read_text())
    assert pinned == list(CLIENTS["franz-go"].versions)
    assert f'"v{pinned[0]}"' in franz_go.SOURCES[0].read_text()


def test_the_example_of_the_protocol_is_small() -> None:
    assert len(franz_go.SOURCES[0].read_text().splitlines()) <= 200


@pytest.mark.long
@pytest.mark.parametrize(("library", "version"), PROGRAMS)
def test_a_library_takes_all_settings_that_may_be_given_together(library: str, version: str) -> None:
    program = programs.BUILDERS[library](version, silent)
    given = {name: (LEVEL | TAKEN).get(name, "100000") for name in CLIENTS[library].allowed}
    known = {name: value for name, value in given.items() if _at_least(version, SINCE.get(name, "0"))}
    for deduplication in (True, False):
        clients.check(library, known, deduplication, 100, program)


@pytest.mark.long
@pytest.mark.parametrize(
    ("library", "version", "properties", "words"),
    [
        ("kafka-java", "4.3.1", {"acks": "1"}, "Must set acks to all in order to use the idempotent producer"),
        ("kafka-java", "2.8.2", {"compression.zstd.level": "3"}, "kafka-clients 2.8.2 has no setting compression.zstd"),
        ("franz-go", "1.22.3", {"ProducerLinger": "soon"}, 'ProducerLinger "soon": time: invalid duration'),
        ("franz-go", "1.22.3", {"ProducerBatchMaxBytes": "9"}, "max record batch bytes 9 is less than allowed 512"),
    ],
)
def test_a_library_refuses_settings_in_its_own_words(
    library: str, version: str, properties: dict[str, str], words: str
) -> None:
    with pytest.raises(SpecificationError, match=re.escape(f"a refusal by the client: {words}")):
        clients.check(library, properties, True, 100, programs.BUILDERS[library](version, silent))


def _at_least(version: str, least: str) -> bool:
    return [*map(int, version.split("."))] >= [*map(int, least.split("."))]
