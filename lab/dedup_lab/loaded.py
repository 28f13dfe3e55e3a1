"""What the fork server imports (forks.py): the libraries that the programs of a run need.

In the fork server it also sees to it that what ends the processes of a terminal or of a job (Ctrl-C, `timeout`) does
not reach it.
"""

import importlib
import os
import signal
import warnings
from typing import Final

from dedup_lab.forks import IGNORED, VARIABLE
from dedup_runners import clients

PROGRAMS: Final = (
    "dedup_runners.producer",
    "dedup_runners.consumer",
    "dedup_runners.chaos.experiments",
    "chaostoolkit.cli",
    "chaostoolkit.commands",
)

if os.environ.pop(VARIABLE, None):
    os.setpgid(0, 0)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # Each child runs the lab's main module once more, which is loaded: with `python -m` runpy warns of that.
    warnings.filterwarnings("ignore", "'dedup_lab.cli' found in sys.modules", RuntimeWarning)
for program in PROGRAMS:
    importlib.import_module(program)
clients.import_all()
