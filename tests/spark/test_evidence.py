"""What a store does not answer is told apart from what is wrong with a history."""

from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from upath import UPath

from dedup.errors import EnvironmentError_
from dedup.history.stores import Place
from dedup_lab.children import Children
from dedup_lab.judging import judge
from dedup_spark import evidence

FOLDER = UPath("memory://dedup/runs/a/attempt-1")


def away(*_: Any, **__: Any) -> Any:
    raise EndpointConnectionError(endpoint_url="http://127.0.0.1:9000")


def test_a_store_that_is_away_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the job would be complete, and the outage kept beside the history as its problem for ever."""
    monkeypatch.setattr(evidence, "read_manifest", away)
    with pytest.raises(EnvironmentError_, match="the store must answer"):
        evidence.open_folders([FOLDER])


def test_its_twin_is_a_history_without_a_manifest() -> None:
    opened, problems = evidence.open_folders([FOLDER])
    assert opened == []
    assert [problem.path for problem in problems] == [str(FOLDER)]


def test_a_store_that_is_away_is_no_defect_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("dedup_lab.judging.holds_pair", away)
    folder: Place = FOLDER
    with pytest.raises(EnvironmentError_, match="the store must answer"):
        judge([folder], Children(), tmp_path, 60, lambda _text: None)
