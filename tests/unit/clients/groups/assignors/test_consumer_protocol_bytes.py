"""The bytes inside JoinGroup and SyncGroup, compared with hand-written ones and by random round trips."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.clients.groups.assignors import Subscription
from tidelog.clients.groups.assignors.protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import TopicPartition

partitions = st.lists(
    st.builds(TopicPartition, st.text(max_size=8), st.integers(0, 2**31 - 1)), max_size=8, unique=True
).map(tuple)


def test_a_subscription_of_version_0_is_topics_and_user_data() -> None:
    data = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
    assert encode_subscription(Subscription(topics=("t",)), version=0) == data
    assert decode_subscription(data) == Subscription(topics=("t",))


def test_a_subscription_is_sorted_as_in_kafka() -> None:
    subscription = Subscription(
        topics=("b", "a"),
        owned_partitions=(TopicPartition("b", 2), TopicPartition("a", 0), TopicPartition("b", 1)),
        generation=9,
        rack_id="r",
    )
    assert encode_subscription(subscription) == (
        b"\0\3" b"\0\0\0\2\0\1a\0\1b" b"\xff\xff\xff\xff"
        b"\0\0\0\2" b"\0\1a\0\0\0\1\0\0\0\0" b"\0\1b\0\0\0\2\0\0\0\1\0\0\0\2"
        b"\0\0\0\x09" b"\0\1r"
    )  # fmt: skip


def test_a_later_version_is_read_as_the_highest_known_one() -> None:
    data = encode_subscription(Subscription(topics=("t",), generation=4))
    assert decode_subscription(b"\0\7" + data[2:] + b"later fields").generation == 4


def test_an_empty_assignment_may_have_no_bytes() -> None:
    assert decode_assignment(b"").partitions == ()


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\5"])
def test_an_invalid_subscription_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_subscription(data)


@settings(max_examples=60, deadline=None)
@given(
    topics=st.lists(st.text(max_size=10), unique=True),
    owned=partitions,
    generation=st.integers(-1, 2**31 - 1),
    user_data=st.none() | st.binary(max_size=20),
    rack_id=st.none() | st.text(min_size=1, max_size=5),
)
def test_subscriptions_round_trip(
    topics: list[str],
    owned: tuple[TopicPartition, ...],
    generation: int,
    user_data: bytes | None,
    rack_id: str | None,
) -> None:
    subscription = Subscription(
        topics=tuple(topics),
        owned_partitions=owned,
        generation=generation,
        user_data=user_data,
        rack_id=rack_id,
    )
    read = decode_subscription(encode_subscription(subscription))
    assert set(read.topics) == set(topics)
    assert set(read.owned_partitions) == set(owned)
    assert (read.generation, read.user_data, read.rack_id) == (generation, user_data, rack_id)


@settings(max_examples=60, deadline=None)
@given(assigned=partitions, user_data=st.none() | st.binary(max_size=20))
def test_assignments_round_trip(assigned: tuple[TopicPartition, ...], user_data: bytes | None) -> None:
    read = decode_assignment(encode_assignment(assigned, user_data))
    assert (set(read.partitions), read.user_data) == (set(assigned), user_data)
