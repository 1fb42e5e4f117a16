"""Settings of all tests: on CI Hypothesis looks at the same examples every time, elsewhere at new ones."""

from __future__ import annotations

import gc
import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_collection_finish() -> None:
    """Exempt the modules and the items of all tests from garbage collection.

    They exist until the end. To search them takes 0.1 s in each full collection.
    """
    gc.collect()
    gc.freeze()
