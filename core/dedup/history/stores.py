"""Where a history lies: in a folder, or below a prefix of an object store, such as `s3://bucket/prefix`.

A *place* is either of the two, with the interface of `pathlib` (`/`, `name`, `open`, `read_bytes`). A folder is a plain
`pathlib.Path`. Keys and the store's address come from the environment variables that every S3 client reads
(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION); they are in no argument and no file of ours.
A pod with an identity has a file with a token instead (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN): the client has the
store's STS lend it keys for that, and new ones before those expire.

A store differs from a folder in three ways. Folders are only parts of names: an empty folder does not exist. An object
appears whole or not at all, so nothing needs to be renamed. And any call may find that the store is out of reach, which
proves nothing about its content.
"""

import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow.parquet as pq
from upath import UPath

from dedup.errors import EnvironmentError_, EvidenceError, SpecificationError

Place = Path | UPath
"""A file or folder, or an object or what lies below a prefix."""

SCHEMES: Final = ("s3", "s3a")
"""The second is what Hadoop calls the first."""

logging.getLogger("aiobotocore.credentials").setLevel(logging.CRITICAL)  # it would tell what is raised, too, at length


def place(text: str) -> Place:
    """The place that a path or a URI names. SpecificationError for no text, and for a URI of another kind."""
    scheme, separator, rest = text.partition("://")
    if not text:
        raise SpecificationError(
            where="a path or URI",
            got="an empty text",
            rule="a place has a name: without one it would be the folder where you are",
            todo="see why it is empty (a variable that is not set?), or write . for that folder",
        )
    if not separator:
        return Path(text)
    bucket = rest.partition("/")[0]
    if "@" in bucket:
        raise SpecificationError(
            where=f"{scheme}://…",
            got="a URI with a user or a password in it",
            rule="keys come from the environment, and are shown nowhere",
            todo="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and give s3://BUCKET/PREFIX",
        )
    if scheme not in SCHEMES or not bucket:
        raise SpecificationError(
            where=text,
            got=f"a URI of {scheme}" if bucket else "a URI without a bucket",
            rule="histories lie in folders or in S3",
            todo="give a path, or s3://BUCKET/PREFIX",
        )
    region = os.environ.get("AWS_REGION")
    options: dict[str, Any] = {"client_kwargs": {"region_name": region}} if region else {}
    # No cache of listings: other programs write into the store, too.
    found: UPath = UPath(f"s3://{rest.rstrip('/')}", use_listings_cache=False, **options)
    return found


def in_store(where: Place) -> bool:
    """Whether it lies in an object store."""
    return not isinstance(where, Path)


def is_away(folder: Place, error: OSError) -> bool:
    """Whether what could not be read is in a store that did not answer, or let us not in: that is no damage."""
    return in_store(folder) and (error.errno is not None or isinstance(error, PermissionError | TimeoutError))


@contextmanager
def reached(where: Place) -> Iterator[None]:
    """Raise EnvironmentError_ if the store of a place cannot be reached, or denies access, within this context."""
    if isinstance(where, Path):
        yield
        return
    from botocore.exceptions import BotoCoreError  # this import takes half a second

    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except (BotoCoreError, OSError) as error:
        if isinstance(error, OSError) and error.errno is None and not isinstance(error, PermissionError | TimeoutError):
            raise  # it is about the content, not the store: a store's own errors have a number
        raise EnvironmentError_(
            where=str(where),
            got=str(error) or type(error).__name__,
            rule="the store must answer, and accept the keys or the identity that the environment names",
            todo=f"check AWS_ENDPOINT_URL, {_who_asks()}, and that the bucket exists",
        ) from None


def _who_asks() -> str:
    """By which variables the store knows who asks. A client takes keys before it looks for an identity."""
    if "AWS_ACCESS_KEY_ID" not in os.environ and "AWS_WEB_IDENTITY_TOKEN_FILE" in os.environ:
        return "AWS_ROLE_ARN and for which audience the token in AWS_WEB_IDENTITY_TOKEN_FILE is"
    return "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, of keys that are lent AWS_SESSION_TOKEN"


def below(root: Place) -> list[str]:
    """The names of all that lies below a place, relative to it and with `/`; of a folder, its folders too.

    The list is empty if the place does not exist.
    """
    if isinstance(root, Path):
        return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))
    start = root.path.rstrip("/") + "/"
    try:
        return sorted(name.removeprefix(start) for name in root.fs.find(start))
    except FileNotFoundError:  # no such bucket
        return []


@contextmanager
def parquet(where: Place) -> Iterator[pq.ParquetFile]:
    """A Parquet file, opened; from a store, only the parts that are read are fetched."""
    if isinstance(where, Path):
        with pq.ParquetFile(where) as file:
            yield file
    else:
        with where.open("rb") as stream, pq.ParquetFile(stream) as file:
            yield file


@contextmanager
def fetched(where: Place) -> Iterator[Path]:
    """A folder on this machine with the content of a place; for a store, a copy that is removed afterwards."""
    if isinstance(where, Path):
        yield where
        return
    with tempfile.TemporaryDirectory(prefix="dedup-fetched-") as copy, reached(where):
        fetch(where, below(where), Path(copy))
        yield Path(copy)


def fetch(where: Place, names: Sequence[str], into: Path) -> None:
    """Copy objects below a place in a store into a folder, where they keep their names.

    EvidenceError, before anything is copied, for a name that leads out of the folder: anyone may write into the store.
    """
    assert not isinstance(where, Path)
    for name in names:
        if {"", ".", ".."} & set(name.split("/")):
            raise EvidenceError(
                where=str(where),
                got=f"an object called {name!r}",
                rule="all objects must lie below one folder",
                todo="find out which program made it, and delete it",
            )
    # One by one, not "recursively": there, names are patterns.
    where.fs.get([(where / name).path for name in names], [f"{into}/{name}" for name in names])


def write_whole(where: Place, text: str) -> None:
    """Write a file or an object atomically: a reader finds the old one or the new one, never a part of it."""
    content = text.encode()
    if not isinstance(where, Path):
        where.fs.pipe_file(where.path, content)
        return
    temporary = where.with_name(f".{where.name}.{uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(where)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
