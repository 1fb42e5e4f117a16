"""One option selects the source of remote segments; the store's options have the names of broker configs."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.protocol.ids import uuid_text
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.source_options import SourceOptions, read_source_options
from tidelog.spark_connector.planning.tier_options import TierMode

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "tides"}
STORE = {"rsm.config.storage.backend.class": "filesystem", "rsm.config.storage.root": "/tier"}


def read(options: dict[str, str]) -> SourceOptions:
    return read_source_options({**LEAST, **options}, is_streaming=False)


def test_brokers_read_the_tier_by_default() -> None:
    assert read({}).tier.mode is TierMode.BROKER
    assert read(STORE).tier == read({}).tier
    assert not read({"tier": "Broker"}).tier.reads_segments


def test_store_options_have_the_broker_keys_without_the_chunk_cache() -> None:
    tier = read(
        {
            "tier": "direct",
            **STORE,
            "rsm.config.chunk.size": "1000",
            "rsm.config.fetch.chunk.cache.path": "/var/lib/kafka/chunks",
            "rsm.config.encryption.key.pairs": "Key1, key2",
            "rsm.config.encryption.key.pairs.key1.public.key.file": "/public",
            "maxBytesPerPartition": "1000",
        }
    ).tier
    assert (tier.mode, tier.max_bytes_per_partition) == (TierMode.DIRECT, 1000)
    assert dict(tier.storage) == {
        "storage.backend.class": "filesystem",
        "storage.root": "/tier",
        "chunk.size": "1000",
        "encryption.key.pairs": "Key1, key2",
        "encryption.key.pairs.Key1.public.key.file": "/public",
    }


def test_offline_reading_needs_no_brokers_and_may_select_a_topic_id() -> None:
    topic_id = UUID(int=77)
    ids = f'{{"tides":"{uuid_text(topic_id)}"}}'
    options = read_source_options(
        {"subscribe": "tides", "tier": "offline", "tierTopicIds": ids, **STORE}, is_streaming=False
    )
    assert options.tier.mode is TierMode.OFFLINE
    assert options.tier.topic_ids == (("tides", topic_id),)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tier": "remote"}, "Invalid option: tier='remote'; expected broker or direct or offline"),
        (
            {"tier": "direct"},
            "Missing option: rsm.config.storage.backend.class; it is required with tier=direct: .*filesystem",
        ),
        ({"tier": "direct", **STORE, "rsm.config.chunk.sise": "1"}, "rsm.config.chunk.sise; .*chunk.size"),
        ({"maxBytesPerPartition": "1000"}, "maxBytesPerPartition has no effect with tier=broker"),
        (
            {"tier": "direct", **STORE, "maxBytesPerPartition": "0"},
            "Invalid option: maxBytesPerPartition='0'; expected",
        ),
        ({"tier": "direct", **STORE, "tierTopicIds": "{}"}, "tierTopicIds has no effect with tier=direct"),
        ({"tier": "offline", **STORE, "tierTopicIds": '{"tides":1}'}, "tierTopicIds=.* expected JSON"),
    ],
)  # fmt: skip
def test_missing_and_invalid_options_are_reported(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read(options)
