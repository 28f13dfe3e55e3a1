"""A file that is no experiment is answered with its line and its fault, whatever the bytes."""

from pathlib import Path

import pytest
from testbed.specs import GOOD

from dedup.errors import SpecificationError
from dedup.experiment.spec import load


def refusal_of_file(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(SpecificationError) as caught:
        load(path)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert line.startswith(str(path))
    return line.removeprefix(str(path))


@pytest.mark.parametrize(
    ("content", "beginning"),
    [
        (b"", ": got nothing; an experiment is a mapping with apiVersion, kind, metadata and spec; start from"),
        (b"# only a comment\n", ": got nothing; "),
        (b"- a\n- b\n", ": got a list; an experiment is a mapping"),
        (b"hello", ": got a single value; an experiment is a mapping"),
        (b"\xff\xfe\x00", ": got bytes that are not UTF-8 text; an experiment is a YAML file; give the path of one"),
        (b"PAR1\0\0\0\0PAR1", ": got bytes that are not UTF-8 text; "),
        (b"a: 1\nb: [1, 2\n", ":3: got YAML that cannot be read ("),
        (b"a: b: c\n", ":1: got YAML that cannot be read (mapping values are not allowed here); "),
        (b"a: 1\na: 2\n", ':2: got YAML that cannot be read (the key "a" is given twice); '),
        (b"a: {b: 1, b: 2}\n", ':1: got YAML that cannot be read (the key "b" is given twice); '),
        (b"a: 1\n---\nb: 2\n", ":2: got YAML that cannot be read (found another document); an experiment is one"),
        (b"a: *x\n", ":1: got YAML that cannot be read (found undefined alias 'x'); "),
        (b"name: {{ name }}\n", ":1: got YAML that cannot be read (found unhashable key); "),
        (b"a: !!python/object/apply:os.getcwd []\n", ":1: got YAML that cannot be read (could not determine"),
        (b"a: 2020-13-45\n", ": got YAML that cannot be read (month must be in 1..12); "),
        (b"a: !!int\n", ": got YAML that cannot be read (string index out of range); "),
        (b"a: !!bool maybe\n", ": got YAML that cannot be read ('maybe'); "),
        (b"a: \x1b\n", ": got YAML that cannot be read (unacceptable character #x001b"),
        (b"[" * 600, ": got YAML that cannot be read (it nests too deep); "),
        (b"a: " + b"9" * 5000, ": got YAML that cannot be read (Exceeds the limit (4300 digits)"),
        (b"a: 0x" + b"f" * 5000, ": a: got a number of thousands of digits; "),
        (b"a: &a {b: *a}\n", f": a{'.b' * 31}.…: got more than 64 nested lists or mappings, or an alias that"),
        (b"a: " + b"[" * 70 + b"]" * 70, f": a{'[0]' * 21}…: got more than 64 nested lists or mappings"),
        (b"#" * (2 << 20), ": got more than 1 MiB; an experiment is a page or two of YAML; "),
        (b"on: 1\n", ": document: got the key true, which YAML reads as a bool; keys are text"),
        (
            b"metadata: {labels: {2020-01-01: x}}\n",
            ": metadata.labels: got the key 2020-01-01, which YAML reads as a date",
        ),
    ],
    ids=range(26),
)
def test_files_that_are_no_experiment(tmp_path: Path, content: bytes, beginning: str) -> None:
    assert refusal_of_file(tmp_path / "e.yaml", content).startswith(beginning)


def test_tabs_are_answered_with_spaces(tmp_path: Path) -> None:
    line = refusal_of_file(tmp_path / "e.yaml", b"metadata:\n\tname: x\n")
    assert line.startswith(":2: got YAML that cannot be read (found character '\\t' that cannot start any token); ")
    assert line.endswith("; indent with spaces, not tabs")


def test_an_alias_that_grows_a_billionfold_is_refused_at_once(tmp_path: Path) -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 10)
    )
    assert "more than 100,000 parts" in refusal_of_file(tmp_path / "e.yaml", bomb.encode())


def test_what_is_not_a_file(tmp_path: Path) -> None:
    for path, got in ((tmp_path, "Is a directory"), (tmp_path / "none.yaml", "No such file or directory")):
        with pytest.raises(SpecificationError) as caught:
            load(path)
        rule = "an experiment is a YAML file; give the path of one; see examples/"
        assert str(caught.value) == f"{path}: got {got}; {rule}"


def test_a_file_is_named_in_its_refusal(tmp_path: Path) -> None:
    line = refusal_of_file(tmp_path / "e.yaml", GOOD.replace("1000", "0").encode())
    assert line == ": spec.workload.messages: got 0; this must be at least 1; write 1 or more"


def test_anchors_and_merged_keys_are_plain_yaml(tmp_path: Path) -> None:
    """Their innocent use: `<<` may override what it merges, and that is no key given twice."""
    path = tmp_path / "e.yaml"
    path.write_text(
        GOOD.replace("kafka: {}}", "kafka: {}, client: &c {properties: &p {linger.ms: '0'}}}").replace(
            "pulsar: {}}", "kafka: {}, client: {properties: {<<: *p, linger.ms: '5'}}}"
        )
    )
    properties = [system.client.properties for system in load(path).spec.systems]
    assert properties == [{"linger.ms": "0"}, {"linger.ms": "5"}]


def test_a_file_is_utf8_with_or_without_a_mark(tmp_path: Path) -> None:
    text = GOOD.replace("kafka: {}}", "kafka: {}, client: {properties: {client.id: grün}}}")
    for mark in (b"", b"\xef\xbb\xbf"):
        (tmp_path / "e.yaml").write_bytes(mark + text.encode())
        assert load(tmp_path / "e.yaml").spec.systems[0].client.properties == {"client.id": "grün"}
