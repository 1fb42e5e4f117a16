"""Valid and invalid topic names."""

from __future__ import annotations

import pytest

from tidelog.cluster.topic_names import (
    check_name,
    colliding_names,
    invalid_name_reason,
    is_internal,
    metric_name,
)
from tidelog.protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("name", ["a", "a.b", "a_b", "A-9", "...", "x" * 249, "__consumer_offsets"])
def test_letters_digits_dots_underscores_and_dashes_are_allowed(name: str) -> None:
    assert invalid_name_reason(name) is None
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ü", "a\n", "a\x00", "名"])
def test_other_characters_and_lengths_are_refused(name: str) -> None:
    assert invalid_name_reason(name) is not None
    with pytest.raises(KafkaError) as error:
        check_name(name)
    assert error.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_internal_topics_are_recognized() -> None:
    assert [
        is_internal(name)
        for name in ("__consumer_offsets", "__transaction_state", "__share_group_state", "__other", "a")
    ] == [True, True, True, False, False]


def test_names_that_differ_in_dots_and_underscores_collide() -> None:
    assert metric_name("a.b") == metric_name("a_b")
    assert colliding_names(["a.b", "plain"]) == {"a_b": "a.b"}
