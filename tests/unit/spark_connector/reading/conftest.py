"""Tasks of these tests run in this process, whose kept connections are closed after each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidelog.spark_connector.connections.reader_connection import WORKER_CONNECTIONS


@pytest.fixture(scope="module", autouse=True)
def _closed_connections() -> Iterator[None]:
    yield
    WORKER_CONNECTIONS.close()
