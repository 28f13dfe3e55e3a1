"""Every hostile experiment, for both who try them."""

from typing import Final

from tests.operator.hostile import Hostile
from tests.operator.hostile_clients import CLIENTS
from tests.operator.hostile_shapes import SHAPES
from tests.operator.hostile_stores import STORES
from tests.operator.hostile_systems import SYSTEMS
from tests.operator.hostile_texts import TEXTS

HOSTILE: Final[tuple[Hostile, ...]] = (*CLIENTS, *TEXTS, *STORES, *SYSTEMS, *SHAPES)
