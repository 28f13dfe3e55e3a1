"""What only campaigns run."""

import os
from typing import Final

import pytest

CAMPAIGN: Final = bool(os.environ.get("DEDUP_CAMPAIGN"))
in_campaigns = pytest.mark.skipif(
    not CAMPAIGN,
    reason="minutes that other tests stand for (DEDUP_CAMPAIGN=1)",
)
