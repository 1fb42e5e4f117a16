"""The partitions of a group member: the listener is called, and its errors change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from tidelog.clients.consumer.owned_partitions import OwnedPartitions
from tidelog.clients.consumer.partition_state import AssignedPartitions
from tidelog.clients.groups.rebalance_listener import RebalanceListener
from tidelog.protocol.ids import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Listener:
    """A listener without `on_partitions_lost`; it records its calls, and fails if `error` is set."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Sequence[TopicPartition]]] = []
        self.error: Exception | None = None

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("revoked", partitions))
        if self.error is not None:
            raise self.error

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("assigned", partitions))


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def owned(listener: Listener) -> OwnedPartitions:
    owned = OwnedPartitions(AssignedPartitions())
    owned.set_listener(cast(RebalanceListener, listener))
    owned.assign((P0, P1))
    return owned


async def test_the_listener_is_called_for_revoked_and_added_partitions(
    owned: OwnedPartitions, listener: Listener
) -> None:
    await owned.revoke((P1,), lost=False)
    await owned.on_assigned((P0,))
    assert owned.partitions == (P0,)
    assert listener.calls == [("revoked", (P1,)), ("assigned", (P0,))]


async def test_lost_partitions_are_revoked_by_a_listener_that_does_not_distinguish_them(
    owned: OwnedPartitions, listener: Listener
) -> None:
    await owned.revoke((P0, P1), lost=True)
    assert (owned.partitions, listener.calls) == ((), [("revoked", (P0, P1))])


async def test_partitions_are_revoked_although_the_listener_fails(
    owned: OwnedPartitions, listener: Listener
) -> None:
    listener.error = ValueError("of the application")
    with pytest.raises(ValueError, match="of the application"):
        await owned.revoke((P0,), lost=False)
    assert owned.partitions == (P1,)


async def test_a_listener_is_not_called_without_partitions(
    owned: OwnedPartitions, listener: Listener
) -> None:
    await owned.revoke((), lost=False)
    owned.set_listener(None)
    await owned.revoke((P0,), lost=False)
    assert (owned.partitions, listener.calls) == ((P1,), [])
