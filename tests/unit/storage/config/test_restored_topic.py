"""The identity of a restored topic as configs of CreateTopics."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.protocol.ids import uuid_text
from tidelog.storage.config.restored_topic import (
    LEADER_EPOCH_KEY,
    NEXT_PRODUCER_ID_KEY,
    TOPIC_ID_KEY,
    RestoredTopic,
)

RESTORED = RestoredTopic(topic_id=UUID(int=0xA11CE), leader_epoch=1005, next_producer_id=2000)


def test_the_configs_contain_the_identity() -> None:
    assert RestoredTopic.of({"retention.ms": "-1", **RESTORED.configs}) == RESTORED


def test_other_configs_are_those_of_a_new_topic() -> None:
    assert RestoredTopic.of({"retention.ms": "-1"}) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (TOPIC_ID_KEY, "tides"),
        (TOPIC_ID_KEY, uuid_text(UUID(int=0))),
        (TOPIC_ID_KEY, uuid_text(UUID(int=1))),
        (LEADER_EPOCH_KEY, "-1"),
        (LEADER_EPOCH_KEY, str(2**31 - 1)),
        (NEXT_PRODUCER_ID_KEY, "many"),
        ("tidelog.restore.other", "1"),
    ],
)
def test_an_invalid_value_is_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=value) as raised:
        RestoredTopic.of({**RESTORED.configs, key: value})
    assert raised.value.key == key


@pytest.mark.parametrize("key", [TOPIC_ID_KEY, LEADER_EPOCH_KEY, NEXT_PRODUCER_ID_KEY])
def test_a_missing_value_is_named(key: str) -> None:
    configs = RESTORED.configs
    del configs[key]
    with pytest.raises(ConfigError) as raised:
        RestoredTopic.of(configs)
    assert raised.value.key == key
