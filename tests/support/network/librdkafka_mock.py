"""librdkafka's mock cluster in this process, as a broker of another implementation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import confluent_kafka
import pytest

import tidelog.clients.transport.api_versions
from tidelog.protocol.registry import APIS, ApiKey

# The mock advertises higher, flexible versions but encodes their arrays in the old form; librdkafka itself
# does not use them.
_SOUND_VERSIONS = {
    ApiKey.JOIN_GROUP: 5,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.HEARTBEAT: 3,
    ApiKey.LEAVE_GROUP: 1,
    ApiKey.OFFSET_FETCH: 5,
    ApiKey.OFFSET_COMMIT: 7,
}


@contextmanager
def mock_cluster(brokers: int = 3) -> Iterator[str]:
    """Start a mock cluster and yield its bootstrap servers."""
    owner = confluent_kafka.Producer(
        {"bootstrap.servers": "none", "test.mock.num.brokers": brokers, "log_level": 0}
    )
    metadata = owner.list_topics(timeout=10)
    yield ",".join(f"{broker.host}:{broker.port}" for broker in metadata.brokers.values())
    del owner


def limit_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restrict Tidelog's clients to versions that the mock implements correctly."""
    lowered = {
        int(key): replace(APIS[key], highest=min(highest, APIS[key].highest))
        for key, highest in _SOUND_VERSIONS.items()
    }
    monkeypatch.setattr(tidelog.clients.transport.api_versions, "APIS", {**APIS, **lowered})
