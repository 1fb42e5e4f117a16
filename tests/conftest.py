"""Settings of all tests.

Hypothesis tries the same examples in every run, so that a change fails for its own faults only.
`make test-all` tries new ones with `--hypothesis-profile=random`. An example has no deadline, because it may
take long on a busy machine.
"""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", derandomize=False, deadline=None)
settings.load_profile("repeatable")

FIRST = ("tests/spark/", "tests/packaging/")
"""The folders with the longest tests. The worker that runs tests/spark starts the only JVM of Spark."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first, so that no worker has to wait for one at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


def pytest_collection_finish() -> None:
    """Exempt the modules and the items of all tests from garbage collection.

    They exist until the end. To search them takes 0.1 s in each full collection.
    """
    gc.collect()
    gc.freeze()
