"""A DedupComparison as a file: what is wrong with it is one line, and names follow from what it says."""

from typing import Any

import pytest
from tests.operator.comparing import document

from dedup.errors import SpecificationError
from dedup.experiment.comparisons import parse


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clusters": [{"name": "a"}]}, "spec.clusters"),
        ({"clusters": [{"name": "a"}, {"name": "a"}]}, "each cluster has a name of its own"),
        ({"deadline": "0s"}, "spec.deadline"),
        ({"confidencePercent": 100}, "spec.confidencePercent"),
    ],
)
def test_a_wrong_comparison_is_one_line(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        parse(document(**changes), source="c.yaml")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("runToken", "1", "a comparison decides itself when its experiments begin"),
        ("suspend", True, "a comparison decides itself when its experiments begin"),
        ("runs", 161, "a cluster tells another of at most 320 runs"),
    ],
)
def test_a_template_that_cannot_be_compared_is_refused(key: str, value: Any, words: str) -> None:
    made = document()
    made["spec"]["template"]["spec"][key] = value
    with pytest.raises(SpecificationError) as caught:
        parse(made, source="c.yaml")
    assert words in str(caught.value)


def test_names_follow_from_the_comparison_its_spec_and_the_cluster() -> None:
    asked, edited = (parse(document(deadline=each), source="c") for each in ("1h", "2h"))
    names = {each.experiment(uid, name).name for each in (asked, edited) for uid in "ab" for name in ("here", "cloud")}
    assert len(names) == 8
    assert asked.experiment("a", "here") == asked.experiment("a", "here")
