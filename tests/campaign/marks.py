"""What only campaigns run."""

import os

import pytest

in_campaigns = pytest.mark.skipif(
    not os.environ.get("DEDUP_CAMPAIGN"),
    reason="minutes that other tests stand for (DEDUP_CAMPAIGN=1)",
)
