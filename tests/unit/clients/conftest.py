"""The names of a group and of a topic for each test of consumers at a cluster."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.support.groups.readers import PARTITIONS
from tidelog.clients.admin.admin import Admin


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:8]}"


@pytest.fixture
async def topic(servers: str) -> str:
    name = f"topic-{uuid4().hex[:8]}"
    async with Admin(servers) as admin:
        await admin.create_topic(name, num_partitions=PARTITIONS)
    return name
