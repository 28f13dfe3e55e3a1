"""Pulsar's own client as a program: PulsarJavaClient.java; and what an application asks: PulsarJavaApplication.java."""

from pathlib import Path
from typing import Final

from dedup_lab.caches import Progress
from dedup_lab.clients import jvm
from dedup_runners.configs import Program

NAME: Final = "pulsar-java"
SOURCE: Final = Path(__file__).with_name("PulsarJavaClient.java")
APPLICATION: Final = Path(__file__).with_name("PulsarJavaApplication.java")


def program(version: str, progress: Progress) -> Program:
    """The command for a version of pulsar-client, compiled if need be; DedupError without Java, jars or a lock."""
    return jvm.program(NAME, SOURCE, version, progress, APPLICATION)
