"""`python -m tests.runners.a_conductor ASSIGNMENT`: a conductor as a program, whose brokers are always well."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.runners.mock_brokers import StandIn

from dedup.experiment.endpoints import Endpoints
from dedup_runners import admins, conductor, programs
from dedup_runners.chaos import sites


@contextmanager
def connect(_endpoints: Endpoints) -> Iterator[Any]:
    yield StandIn()


def as_told(endpoints: Endpoints) -> Endpoints:
    return endpoints


if __name__ == "__main__":
    with (
        patch.object(sites, "connect", connect),
        patch.object(admins, "connect", connect),
        patch.object(conductor, "discovered", as_told),
    ):
        code = conductor.main(sys.argv[1:])
    programs.leave(code)
