"""What is written after the verdict, for people and programs: the page, JUnit XML, Markdown, JSON schemas.

Matplotlib keeps a list of the machine's fonts; like everything that can be made again it lies in the cache.
"""

import logging
import os

from dedup_lab import caches

os.environ.setdefault("MPLCONFIGDIR", str(caches.root() / "matplotlib"))
logging.getLogger("matplotlib").setLevel(logging.ERROR)
