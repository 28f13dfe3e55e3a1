"""What the machine refuses is one line that says where and what to do; a defect stays a defect."""

import errno
import os

import pytest

from dedup.errors import EnvironmentError_
from dedup.process import machines


def failed(number: int, path: str | None = None) -> OSError:
    return OSError(number, os.strerror(number)) if path is None else OSError(number, os.strerror(number), path)


@pytest.mark.parametrize("number", machines.RULES, ids=errno.errorcode.get)
def test_a_refusal_names_the_place_and_what_to_do(number: int) -> None:
    refused = machines.refusal(failed(number, "/data/x"))
    assert refused is not None
    assert str(refused).startswith(f"/data/x: got {os.strerror(number).lower()}; ")
    assert str(refused).count("; ") == 2


def test_the_users_words_for_a_place_come_first() -> None:
    assert "results folder out: got no space" in str(machines.refusal(failed(errno.ENOSPC, "/x"), "results folder out"))
    assert str(machines.refusal(failed(errno.ENOSPC))).startswith("this machine: got no space left")


@pytest.mark.parametrize("error", [failed(errno.EBADF), failed(errno.ENOENT, "x"), OSError("no number")], ids=repr)
def test_what_only_a_program_can_cause_is_no_refusal(error: OSError) -> None:
    assert machines.refusal(error) is None
    with pytest.raises(OSError, match=r".") as raised, machines.at("there"):
        raise error
    assert raised.value is error


def test_what_is_refused_meanwhile_is_said_of_the_place() -> None:
    with (
        pytest.raises(EnvironmentError_, match=r"^--findings f: got read-only file system; "),
        machines.at("--findings f"),
    ):
        raise failed(errno.EROFS)
