"""Places: what a path or a URI names, and files that appear whole. Real stores: tests/spark/test_stores.py."""

import errno
from pathlib import Path

import pytest

from dedup.errors import EnvironmentError_, SpecificationError
from dedup.history.stores import below, fetched, in_store, parquet, place, reached, write_whole


@pytest.mark.parametrize("uri", ["gs://bucket/prefix", "s3://", "s3:///prefix", "http://store/bucket"])
def test_a_uri_of_another_kind_is_refused(uri: str) -> None:
    with pytest.raises(SpecificationError, match="s3://BUCKET/PREFIX"):
        place(uri)


@pytest.mark.parametrize("uri", ["s3://bucket/a/b", "s3a://bucket/a/b", "s3://bucket/a/b/"])
def test_a_uri_of_s3_has_one_name_whoever_wrote_it(uri: str) -> None:
    where = place(uri)
    assert in_store(where)
    assert (str(where), str(where / "c"), where.name) == ("s3://bucket/a/b", "s3://bucket/a/b/c", "b")


def test_a_path_stays_a_path(tmp_path: Path) -> None:
    where = place(str(tmp_path))
    assert where == tmp_path and not in_store(where)
    with fetched(where) as here, reached(where):
        assert here is where


@pytest.mark.parametrize(
    "error", [OSError(errno.EBUSY, "SlowDown"), OSError(errno.EREMOTEIO, "503"), PermissionError()]
)
def test_a_store_that_does_not_answer_says_nothing_of_what_lies_there(error: OSError) -> None:
    with pytest.raises(EnvironmentError_, match="the store must answer"), reached(place("s3://bucket/a")):
        raise error


@pytest.mark.parametrize("error", [OSError("Couldn't deserialize thrift"), FileNotFoundError(errno.ENOENT, "gone")])
def test_what_lies_there_speaks_for_itself(error: OSError) -> None:
    with pytest.raises(type(error)) as raised, reached(place("s3://bucket/a")):
        raise error
    assert raised.value is error


def test_a_file_is_written_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "file", "\ud800")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "folder", "new")
    assert (tmp_path / "file").read_text() == "old"
    assert below(tmp_path) == ["file", "folder"]


def test_what_is_no_parquet_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"PAR")
    with pytest.raises((OSError, ValueError)), parquet(tmp_path / "file"):
        raise AssertionError("it was opened")


def test_an_empty_text_is_no_place_and_a_dot_is_the_folder_where_we_are() -> None:
    """A variable that is not set would have the histories below that folder judged, whatever they are."""
    with pytest.raises(SpecificationError, match="got an empty text; "):
        place("")
    assert place(".") == Path()


@pytest.mark.parametrize("uri", ["s3://me:hidden@bucket/prefix", "https://me:hidden@store/bucket"])
def test_keys_in_a_uri_are_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(SpecificationError, match="got a URI with a user or a password in it; ") as refused:
        place(uri)
    assert "hidden" not in str(refused.value)
    assert str(place("s3://bucket/me@home")) == "s3://bucket/me@home"
