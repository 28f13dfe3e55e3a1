"""Copies of what goes to an API server and comes back: a campaign makes millions, and copy.deepcopy is slow."""

import pickle
from typing import TypeVar

Some = TypeVar("Some")


def deepcopy(made: Some) -> Some:
    """A copy that shares nothing with it, of plain data."""
    copied: Some = pickle.loads(pickle.dumps(made, pickle.HIGHEST_PROTOCOL))
    return copied
