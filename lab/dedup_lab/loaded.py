"""The libraries that the programs of a run need: who imports this module has loaded them (forks.py)."""

import importlib
from typing import Final

from dedup_runners import clients

PROGRAMS: Final = (
    "dedup_runners.producer",
    "dedup_runners.consumer",
    "dedup_runners.chaos.experiments",
    "chaostoolkit.cli",
    "chaostoolkit.commands",
)

for program in PROGRAMS:
    importlib.import_module(program)
clients.import_all()
