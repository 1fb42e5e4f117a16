"""The config that names the topic whose segments another topic reads."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.storage.config.topic_configs import log_config_from
from tidelog.storage.config.topic_source import SOURCE_KEY, TopicSource, source_of

AS_OF = TopicSource(topic="tides", topic_id=UUID(int=77), timestamp_ms=1_795_809_770_949)
MOUNTED = TopicSource(topic="tides", topic_id=UUID(int=77), mount="west")


@pytest.mark.parametrize("source", [AS_OF, MOUNTED])
def test_the_text_of_a_source_is_parsed_to_it(source: TopicSource) -> None:
    assert source_of({SOURCE_KEY: source.text}) == source
    config = log_config_from({SOURCE_KEY: source.text})
    assert config.tidelog_source == source
    assert config.is_mounted is (source is MOUNTED)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tides",
        "topic=tides id=EBZs8HyEQV-D2_BDl2WcWg",
        "topic=tides id=short mount=west",
        "topic=tides id=EBZs8HyEQV-D2_BDl2WcWg mount=a/b",
        "topic=tides id=EBZs8HyEQV-D2_BDl2WcWg timestamp=-1",
        "topic=tides id=EBZs8HyEQV-D2_BDl2WcWg timestamp=1 mount=west",
    ],
)
def test_a_text_that_is_no_source_is_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError, match="mount=NAME"):
        log_config_from({SOURCE_KEY: text})


def test_most_topics_have_no_source() -> None:
    assert source_of({}) is None
    assert not log_config_from({}).is_mounted
