"""What a command says that ends by itself; and its error in one line, whatever bytes it is made of."""

import sys

import pytest

from dedup.errors import PlatformError
from dedup_runners.commands import answer

SAYS = "import sys; sys.{}.buffer.write(b'caf\\xe9'); sys.exit({})"


def said(stream: str, code: int) -> str:
    told = [sys.executable, "-I", "-S", "-c", SAYS.format(stream, code)]
    return answer(told, where="a program", rule="it ends with 0", todo="see its log", timeout_s=60.0)


def test_what_is_no_utf_8_is_told_as_far_as_it_is() -> None:
    assert said("stdout", 0) == "caf\N{REPLACEMENT CHARACTER}"
    with pytest.raises(PlatformError, match="a program: got caf\N{REPLACEMENT CHARACTER}; it ends with 0; see its log"):
        said("stderr", 3)
